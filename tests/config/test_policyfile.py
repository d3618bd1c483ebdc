from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from genericdp.config.load import load
from genericdp.policy import from_plain
from tests.config.bounded import HEAD, NARROW, policy_of

if TYPE_CHECKING:
    from pathlib import Path


def test_a_policy_knows_the_line_of_each_thing_that_it_allows() -> None:
    policy = load([], policy=NARROW).policy
    assert policy is not None
    places = {
        rule.text: int(rule.place.rpartition(":")[2])
        for section in (policy.devices, policy.mounts, policy.commands, policy.cdi)
        for rule in section.rules
    }
    lines = NARROW.read_text().splitlines()
    assert len(places) == 7
    for text, line in places.items():
        assert text in lines[line - 1]
    assert policy.commands.rules[0].env == ("MODE", "CHECK_*")
    assert [one.read_only for one in policy.mounts.rules] == [True, False]


def test_a_section_that_is_absent_allows_nothing_and_says_where(tmp_path: Path) -> None:
    policy = policy_of(tmp_path, "")
    assert not policy.devices.given
    assert policy.devices.rules == ()
    assert policy.mounts.says == f"policy {tmp_path}/p.yaml:1 has no 'mounts', which allows none"


def test_devices_that_are_not_narrowed_are_all_of_dev_but_no_disks(tmp_path: Path) -> None:
    policy = policy_of(tmp_path, "devices: {}\n")
    assert [rule.text for rule in policy.devices.rules] == ["/dev"]
    assert policy.block is False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("device: {}", "3:1: .device: unknown key 'device' (did you mean 'devices'?)"),
        ("devices: {path: /dev}", "3:11: .devices.path: unknown key 'path'"),
        ("mounts: [{readOnly: false}]", "3:10: .mounts[0]: the key 'hostPath' is required"),
        ("mounts: [{hostPath: opt}]", "3:21: .mounts[0].hostPath: 'opt' is not an absolute path"),
        ("files: [/x/../y]", "3:9: .files[0]: '/x/../y' holds '..'"),
        ("files: [/x/**]", "3:9: .files[0]: '/x/**' holds '**'"),
        ("devices: {paths: ['/dev/[a']}", "3:19: .devices.paths[0]: the bracket"),
        ("files: [$(device.path)]", "3:9: .files[0]: a policy takes no templates"),
        ("commands: [{path: /bin/*}]", "3:19: .commands[0].path: a command is named in full"),
        ("commands: [{path: sh}]", "3:19: .commands[0].path: 'sh' is not an absolute path"),
        ("commands: [{path: /x, sha256: ab}]", "3:31: .commands[0].sha256: 'ab' is no SHA-256"),
        ("cdi: [5]", "3:7: .cdi[0]: 5 is read as a number by some YAML"),
        ("env: ['[']", "3:7: .env[0]: the bracket at character 1 of '[' is not closed"),
        ("files: []\nfiles: []", "4:1: "),
        ("files: []\n---\n" + HEAD, "5:1: a policy is one document, and this is another one"),
    ],
)
def test_what_is_wrong_with_a_policy_is_told_with_its_place(
    tmp_path: Path, text: str, expected: str
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(HEAD + text + "\n")
    loaded = load([], policy=path)
    assert loaded.policy is None
    assert [str(one) for one in loaded.problems if f"{path}:{expected}" in str(one)]


def test_a_config_is_no_policy(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(HEAD.replace("Policy", "Config") + "resources: []\n")
    (problem,) = load([], policy=path).problems
    assert problem.message == "'DevicePluginConfig' is not 'DevicePluginPolicy'"


@pytest.mark.parametrize("kind", ["missing", "folder", "binary", "empty"])
def test_what_cannot_be_read_is_a_problem_and_no_policy(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "p.yaml"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(b"\xff\xfe\x00" if kind == "binary" else b"")
    loaded = load([], policy=path)
    assert loaded.policy is None
    assert len(loaded.problems) == 1


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n"])
def test_an_empty_policy_says_what_one_that_allows_nothing_has(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    (problem,) = load([], policy=path).problems
    first, second = HEAD.splitlines()
    assert problem.hint == f"a policy that allows nothing has two lines: '{first}' and '{second}'"
    path.write_text(HEAD)
    policy = load([], policy=path).policy
    assert policy is not None
    assert not policy.devices.given


@pytest.mark.parametrize(
    ("mode", "who"), [(0o644, ""), (0o600, ""), (0o664, "its group"), (0o646, "anybody")]
)
def test_a_policy_that_others_can_write_is_warned_about(
    tmp_path: Path, mode: int, who: str
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(HEAD)
    path.chmod(mode)
    warned = [one.message.partition(" can write")[0] for one in load([], policy=path).warnings]
    assert warned == ([who] if who else [])


def test_a_policy_comes_through_the_pipe_as_it_was() -> None:
    policy = load([], policy=NARROW).policy
    assert policy is not None
    assert from_plain(asdict(policy)) == policy
