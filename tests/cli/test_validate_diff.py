"""``genericdp validate --diff``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.cli.explain_output import HEAD
from tests.config.bounded import HEAD as POLICY
from tests.printed import violations
from tests.world import Host

if TYPE_CHECKING:
    from pathlib import Path

Output = pytest.CaptureFixture[str]
HOOKS = "hooks: {preStart: {exec: {command: [/bin/true]}}}"
OLD = """\
  - {name: example.com/gone, match: [{path: /dev/null}]}
  - {name: example.com/tty, match: [{path: "/dev/tty[0-2]"}], forgetAfterSeconds: 60}
  - {name: example.com/same, match: [{path: "/dev/ttyUSB*"}]}
  - {name: example.com/hooked, match: [{path: /dev/fuse}]}
"""
NEW = f"""\
  - {{name: example.com/new, match: [{{path: /dev/full}}, {{path: /dev/ttyUSB1}}]}}
  - {{name: example.com/hooked, match: [{{path: /dev/fuse}}], {HOOKS}}}
  - name: example.com/tty
    match: [{{path: "/dev/tty[1-3]"}}]
    exclude: [{{path: /dev/tty2}}]
    id: x-$(device.name)
    forgetAfterSeconds: 60
  - {{name: example.com/same, match: [{{path: "/dev/ttyUSB*"}}]}}
"""


class Asking:
    """Two configs and a machine."""

    def __init__(self, folder: Path) -> None:
        self.old, self.new = folder / "old.yaml", folder / "new.yaml"
        self.old.write_text(HEAD + OLD)
        self.new.write_text(HEAD + NEW)
        host = Host(folder / "host")
        for i, name in enumerate(
            ("null", "full", "fuse", "tty0", "tty1", "tty2", "tty3", "ttyUSB0", "ttyUSB1")
        ):
            host.plug(name, minor=i)
        self.root = host.folder

    def ask(self, *more: str) -> int:
        words = ["validate", "--diff", str(self.old), str(self.new)]
        return main([*words, f"--root={self.root}", "--node-name=n", *more])


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    return Asking(tmp_path)


def test_it_says_what_a_reload_would_do(asking: Asking, capsys: Output) -> None:
    assert asking.ask() == 0
    assert (
        capsys.readouterr().out
        == """\
+ example.com/new: begins
    ~ ttyUSB1 of example.com/same → ttyUSB1  /dev/ttyUSB1
    + full  /dev/full
~ example.com/hooked: registered anew, for hooks.preStart, which kubelets ask for only when a \
plugin registers: hooks.preStart
~ example.com/tty: changed in place: match, exclude, id
    ~ tty1 → x-tty1  /dev/tty1: tty1 stays listed as Unhealthy for 60 s
    + x-tty3  /dev/tty3
    - tty0  /dev/tty0: Unhealthy for 60 s (/dev/tty0 is no longer matched)
    - tty2  /dev/tty2: Unhealthy for 60 s (/dev/tty2: excluded by the config)
  example.com/same: unchanged, but not so its devices
    - ttyUSB1  /dev/ttyUSB1: becomes ttyUSB1 of example.com/new; Unhealthy for 300 s \
(/dev/ttyUSB1: belongs to resource example.com/new, which comes first in the config)
- example.com/gone: ends
    - null  /dev/null
With --pod-resources, a device that a pod or claim holds stays listed under the old ID until none \
holds it;
the new ID is offered then. Without it, devices are renamed at once, and another pod can get them: \
drain the node first.
1 added, 1 removed, 2 changed, 1 unchanged
"""
    )


def test_json_says_the_same(asking: Asking, capsys: Output) -> None:
    assert asking.ask("-o", "json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert violations("diff", answer) == []
    resources, devices = answer["resources"], answer["devices"]
    assert (resources["added"], resources["removed"]) == (["example.com/new"], ["example.com/gone"])
    assert [one["inPlace"] for one in resources["changed"]] == [False, True]
    assert resources["changed"][0]["registeredAnewFor"] == ["hooks.preStart"]
    assert resources["unchanged"] == ["example.com/same"]
    assert [one["id"] for one in devices["example.com/tty"]["go"]] == ["tty0", "tty2"]
    assert devices["example.com/tty"]["changeId"] == [
        {
            "resource": "example.com/tty",
            "before": "tty1",
            "after": "x-tty1",
            "path": "/dev/tty1",
            "unhealthySeconds": 60,
        }
    ]
    (moved,) = devices["example.com/same"]["go"]
    assert moved["becomes"] == [{"resource": "example.com/new", "id": "ttyUSB1"}]
    assert "example.com/hooked" not in devices


def test_json_of_a_config_that_cannot_be_used_has_the_problems_and_no_changes(
    asking: Asking, capsys: Output
) -> None:
    asking.new.write_text(HEAD + NEW.replace("exclude", "exclud"))
    assert asking.ask("-o", "json") == 2
    answer = json.loads(capsys.readouterr().out)
    assert violations("diff", answer) == []
    assert (answer["resources"], answer["devices"]) == (None, None)
    (problem,) = answer["problems"]
    assert (problem["file"], problem["hint"]) == (str(asking.new), "did you mean 'exclude'?")


def test_a_renamed_resource_renames_its_devices(asking: Asking, capsys: Output) -> None:
    asking.old.write_text(HEAD + RENAMED.format("old", "forgetAfterSeconds: 1"))
    asking.new.write_text(HEAD + RENAMED.format("new", "id: stick-$(device.minor)"))
    assert asking.ask() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:6] == [
        "+ example.com/new: begins",
        "    ~ ttyUSB0 of example.com/old → stick-7  /dev/ttyUSB0",
        "    ~ ttyUSB1 of example.com/old → stick-8  /dev/ttyUSB1",
        "- example.com/old: ends",
        "    - ttyUSB0  /dev/ttyUSB0: becomes stick-7 of example.com/new",
        "    - ttyUSB1  /dev/ttyUSB1: becomes stick-8 of example.com/new",
    ]


RENAMED = "  - {{name: example.com/{}, match: [{{path: '/dev/ttyUSB*'}}], {}}}\n"


def test_ids_that_two_devices_exchange_are_changed(asking: Asking, capsys: Output) -> None:
    """Neither ID has appeared or gone: each names the hardware of the other."""
    for folder, ids in (("old", ("a", "b")), ("new", ("b", "a"))):
        (asking.root / "etc" / folder).mkdir(parents=True)
        for minor, text in zip((7, 8), ids, strict=True):
            (asking.root / "etc" / folder / str(minor)).write_text(text)
        value = f"values: {{{folder}: {{file: /etc/{folder}/$(device.minor)}}}}"
        value += f", id: $(value.{folder})"
        (asking.old if folder == "old" else asking.new).write_text(
            HEAD + RENAMED.format("same", value)
        )
    assert asking.ask("-o", "json") == 0
    changes = json.loads(capsys.readouterr().out)["devices"]["example.com/same"]
    found = {one["path"]: (one["before"], one["after"]) for one in changes["changeId"]}
    assert found == {"/dev/ttyUSB0": ("a", "b"), "/dev/ttyUSB1": ("b", "a")}
    assert (changes["appear"], changes["go"]) == ([], [])


def test_a_group_of_what_was_two_devices_has_their_hardware(asking: Asking, capsys: Output) -> None:
    asking.old.write_text(HEAD + RENAMED.format("a", "replicas: 1"))
    asking.new.write_text(HEAD + RENAMED.format("a", "groupBy: pair"))
    assert asking.ask("-o", "json") == 0
    changes = json.loads(capsys.readouterr().out)["devices"]["example.com/a"]
    found = [(one["before"], one["after"]) for one in changes["changeId"]]
    assert found == [("ttyUSB0", "pair"), ("ttyUSB1", "pair")]
    assert (changes["appear"], changes["go"]) == ([], [])


def test_equal_configs_are_no_change(asking: Asking, capsys: Output) -> None:
    """Also where they are written otherwise."""
    other = OLD.replace("{path: /dev/null}", "{path: [/dev/null]}")
    asking.new.write_text(f"# a comment\n{HEAD}{other}")
    assert asking.ask() == 0
    assert capsys.readouterr().out == "0 added, 0 removed, 0 changed, 4 unchanged\n"


def test_what_an_entry_of_match_injects_is_changed_in_place(asking: Asking, capsys: Output) -> None:
    asking.new.write_text(HEAD + OLD.replace("/dev/fuse}", "/dev/fuse, inject: {env: {A: b}}}"))
    assert asking.ask() == 0
    out = capsys.readouterr().out
    assert "~ example.com/hooked: changed in place: match\n0 added" in out.replace("  ", "")


@pytest.mark.parametrize("which", ["old", "new"])
def test_problems_of_either_are_exit_code_2(which: str, asking: Asking, capsys: Output) -> None:
    getattr(asking, which).write_text(HEAD + OLD.replace("match", "matches", 1))
    assert asking.ask() == 2
    assert f"{which}.yaml:4:" in (printed := capsys.readouterr()).out
    assert printed.out.endswith("1 problem in 1 file\n")
    assert printed.err == ""


def test_it_wants_two_configs(asking: Asking, capsys: Output) -> None:
    for count in (1, 3):
        assert main(["validate", "--diff", *[str(asking.old)] * count]) == 2
        assert f"--diff takes two configs, OLD and NEW, not {count}" in capsys.readouterr().err


def test_both_configs_are_held_against_the_policy(asking: Asking, capsys: Output) -> None:
    policy = asking.old.with_name("p.yaml")
    policy.write_text(POLICY + "devices: {}\ncommands: [{path: /bin/true}]\n")
    assert asking.ask(f"--policy={policy}") == 0
    assert "policy" not in capsys.readouterr().out
    policy.write_text(POLICY + "devices:\n  paths: [/dev/tty*, /dev/f*]\n")
    assert asking.ask(f"--policy={policy}") == 2
    out = capsys.readouterr().out
    assert f"{asking.old}:4:" in out
    assert f"'/dev/null' is not allowed (policy {policy}:3 says" in out
    assert f"{asking.new}:5:" in out
    assert f"the command '/bin/true' is not allowed (policy {policy}:1 has no 'commands'" in out
