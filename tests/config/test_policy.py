"""Policies, and what they say of a config's plain texts; the rest: test_policy_at_run_time.py."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.config.load import load
from genericdp.config.rules.policy import may_lie_within
from genericdp.glob import is_within, segments_of
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
        (
            "commands: [{path: /x, sha256: ab}]",
            "3:31: .commands[0].sha256: 'ab' is not a SHA-256",
        ),
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
    assert policy.devices.rules == ()


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


CONFIG = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/a
    match: [{MATCH}]
    inject:
      INJECT
    REST
"""
OWN = "devices: [{path: $(device.path)}]"


def _said(folder: Path, policy: Path, match: str, inject: str = "env: {}", rest: str = "") -> str:
    path = folder / "c.yaml"
    text = CONFIG.replace("MATCH", match).replace("INJECT", inject).replace("REST", rest)
    path.write_text(text)
    loaded = load([path], policy=policy)
    for problem in loaded.problems:
        assert str(policy) in problem.hint, problem
    assert bool(loaded.resources) is not bool(loaded.problems)
    return "\n".join(f"{one.path}: {one.message}" for one in loaded.problems)


@pytest.mark.parametrize(
    ("match", "inject", "rest"),
    [
        ("path: /dev/ttyUSB0", "env: {SERIAL_X: a}", ""),
        ("path: ['/dev/ttyUSB[0-3]', /dev/serial/by-id/*]", OWN, ""),
        ("udev: {subsystem: tty}", OWN, ""),
        ("path: /dev/sda", "devices: [{path: /dev/fuse}]", ""),
        (
            "path: /opt/driver/*, type: directory",
            "mounts: [{hostPath: $(device.path), containerPath: /x}]",
            "",
        ),
        ("path: /dev/fuse", "mounts: [{hostPath: /opt/driver/lib, containerPath: /x}]", ""),
        (
            "path: /dev/fuse",
            "mounts: [{hostPath: /var/lib/cache/a, containerPath: /x, readOnly: false}]",
            "",
        ),
        ("path: /dev/fuse", "annotations: {example.com/a: b}", ""),
        ("path: /dev/fuse", "cdi: [vendor.com/serial=$(device.id)]", ""),
        ("path: /dev/fuse", "annotations: {cdi.k8s.io/ours: vendor.com/serial=$(device.id)}", ""),
        ("path: /dev/fuse", "env: {}", "values: {v: {file: $(device.syspath)/dev}}"),
        ("path: /dev/fuse", "env: {}", "values: {v: {link: '/proc/driver/x/*/$(node.name)'}}"),
        (
            "path: /dev/fuse",
            "env: {}",
            "health: [{exec: {command: [/usr/bin/check, $(device.path)], env: {CHECK_A: b}}}]",
        ),
        # What globs find, and what templates give, is known on the host.
        ("path: /dev/*", OWN, ""),
        ("path: /dev/fuse", "devices: [{path: /dev/dri/$(device.name)}]", ""),
        ("path: /dev/fuse", "mounts: [{hostPath: /etc/$(device.name), containerPath: /x}]", ""),
        ("path: /dev/fuse", "cdi: [vendor.com/seri$(device.name)al=0]", ""),
        ("path: /dev/fuse", "annotations: {cdi.k8s.io/ours: $(device.name)}", ""),
        ("path: /dev/fuse", "env: {}", "values: {v: {file: /etc/$(device.name)}}"),
        ("path: /dev/fuse", "env: {}", "health: [{file: {path: /etc/$(device.name), min: 1}}]"),
    ],
)
def test_what_a_policy_allows_is_taken(tmp_path: Path, match: str, inject: str, rest: str) -> None:
    assert _said(tmp_path, NARROW, match, inject, rest) == ""
    of_entry = f"{match}, inject: {{{inject}}}"
    assert _said(tmp_path, NARROW, of_entry, "devices: []", rest) == ""


MATCH = ".resources[0].match[0]"
INJECT = ".resources[0].inject"
FUSE = "path: /dev/fuse"


@pytest.mark.parametrize(
    ("match", "inject", "rest", "expected"),
    [
        ("path: /dev/sda", "env: {}", "", f"{MATCH}.path: '/dev/sda' is not allowed"),
        (
            "path: [/dev/fuse, /dev/sd*]",
            "env: {}",
            "",
            f"{MATCH}.path[1]: '/dev/sd*' is not allowed",
        ),
        (
            "path: /dev/ttyUSB*, type: [block]",
            "env: {}",
            "",
            f"{MATCH}.type: block devices are not allowed",
        ),
        (
            FUSE,
            "mounts: [{hostPath: /opt, containerPath: /x}]",
            "",
            f"{INJECT}.mounts[0].hostPath: '/opt' is not allowed",
        ),
        (
            FUSE,
            "mounts: [{hostPath: /opt/driver, containerPath: /x, readOnly: false}]",
            "",
            f"{INJECT}.mounts[0].readOnly: '/opt/driver' may be mounted only for reading",
        ),
        (FUSE, "env: {LD_PRELOAD: a}", "", f"{INJECT}.env.LD_PRELOAD: 'LD_PRELOAD' is not allowed"),
        (FUSE, "annotations: {a: b}", "", f"{INJECT}.annotations.a: 'a' is not allowed"),
        (
            FUSE,
            "devices: [{path: /dev/fuse}, {path: /dev/kvm}]",
            "",
            f"{INJECT}.devices[1].path: '/dev/kvm' is not allowed",
        ),
        (
            FUSE,
            "cdi: [vendor.com/gpu=0]",
            "",
            f"{INJECT}.cdi[0]: 'vendor.com/gpu=0' is not allowed",
        ),
        (
            FUSE,
            "cdi: [vendor.com/gpu=$(device.id)]",
            "",
            f"{INJECT}.cdi[0]: 'vendor.com/gpu=$(device.id)' can lead to what is not allowed",
        ),
        (
            FUSE,
            "env: {}",
            "values: {v: {link: /proc/1*/exe}}",
            ".resources[0].values.v.link: '/proc/1*/exe' is not allowed",
        ),
        (
            FUSE,
            "env: {}",
            "values: {v: {linkedBy: /proc/1*/exe}}",
            ".resources[0].values.v.linkedBy: '/proc/1*/exe' is not allowed",
        ),
        (
            FUSE,
            "annotations: {cdi.k8s.io/ours: 'vendor.com/serial=0,vendor.com/gpu=all'}",
            "",
            f'{INJECT}.annotations["cdi.k8s.io/ours"]: '
            "'vendor.com/serial=0,vendor.com/gpu=all' is not allowed",
        ),
        (
            FUSE,
            "env: {}",
            "values: {v: {file: /etc/shadow}}",
            ".resources[0].values.v.file: '/etc/shadow' is not allowed",
        ),
        (
            FUSE,
            "env: {}",
            "health: [{file: {path: /etc/shadow, equals: a}}]",
            ".resources[0].health[0].file.path: '/etc/shadow' is not allowed",
        ),
        (
            FUSE,
            "env: {}",
            "hooks: {allocate: {exec: {command: [/bin/sh, -c, x]}}}",
            ".resources[0].hooks.allocate.exec.command[0]: the command '/bin/sh' is not allowed",
        ),
        (
            FUSE,
            "env: {}",
            "health: [{exec: {command: [/usr/bin/check], env: {LD_PRELOAD: a}}}]",
            ".resources[0].health[0].exec.env.LD_PRELOAD: the variable 'LD_PRELOAD' is not allowed"
            " for /usr/bin/check",
        ),
    ],
)
def test_what_a_policy_does_not_allow_is_a_problem_with_both_places(
    tmp_path: Path, match: str, inject: str, rest: str, expected: str
) -> None:
    assert _said(tmp_path, NARROW, match, inject, rest) == expected
    if inject != "env: {}":
        of_entry = f"{match}, inject: {{{inject}}}"
        expected = expected.replace(INJECT, f"{MATCH}.inject")
        assert _said(tmp_path, NARROW, of_entry, rest=rest) == expected


@pytest.mark.parametrize(
    ("match", "inject", "rest", "expected"),
    [
        (FUSE, "", "", "'/dev/fuse' is not allowed"),
        ("udev: {subsystem: tty}", "", "", "it asks for device nodes"),
        ("usb: {vendor: '0403'}", "devices: [{subsystem: tty}]", "", "it asks for device nodes"),
        (FUSE, OWN, "", "'$(device.path)' can lead to what is not allowed"),
        (
            FUSE,
            "devices: []\n      mounts: [{hostPath: $(device.path), containerPath: /x}]",
            "",
            "'$(device.path)' can lead to what is not allowed",
        ),
        (
            FUSE,
            "devices: []\n      cdi: [$(value.v)]",
            "values: {v: {text: a}}",
            "'$(value.v)' can",
        ),
        (
            FUSE,
            "devices: []",
            "values: {v: {file: $(device.path)}}",
            "'$(device.path)' can lead to",
        ),
    ],
)
def test_a_section_that_allows_nothing_refuses_templates_too(
    tmp_path: Path, match: str, inject: str, rest: str, expected: str
) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text(HEAD)
    assert expected in _said(tmp_path, policy, match, inject or "env: {}", rest)
    of_entry = f"{match}, inject: {{{inject.replace(chr(10), ',')}}}"
    assert expected in _said(tmp_path, policy, of_entry, rest=rest)


def test_what_another_problem_leaves_is_held_against_the_policy(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        CONFIG.replace("MATCH", "path: /dev/sda")
        .replace("INJECT", "mounts: [5, {hostPath: '/etc/$(', containerPath: /x}]\n      cdi: 5")
        .replace("REST", "health: 5\n    hooks: {allocate: {exec: {command: []}}}")
    )
    problems = load([path], policy=NARROW).problems
    (by_policy,) = (one for one in problems if str(NARROW) in one.hint)
    assert by_policy.message == "'/dev/sda' is not allowed"
    assert len(problems) >= 5


PIECES = ["a", "b", "-", "*", "?", "[ab]", "[!a]", "[a-b]", "[]a]", "[!-b]", "[", "[*]", "[?]"]
TEXTS = ["".join(one) for n in range(5) for one in itertools.product("ab-z]", repeat=n)]
TEXTS += ["[", "a[", "[b", "*", "a*", "?", "?b", "\n", "ü", ".a", ".-", "..a"]


@pytest.mark.parametrize(
    ("path", "rule", "is_taken"),
    [
        ("/dev/tty*", "/dev/ttyUSB*", True),
        ("/dev/ttyUSB?", "/dev/tty*", True),
        ("/dev/*", "/dev/ttyUSB0", True),
        ("/dev/*/card0", "/dev/dri", True),
        ("/dev/sd*", "/dev/ttyUSB*", False),
        ("/dev/ttyS*", "/dev/ttyUSB*", False),
        ("/dev/[[]x*", "/dev/[[]*", True),
        ("/dev/[[]x*", "/dev/[*]x*", False),
        ("/dev/tty*", "/dev/tty*/x", False),
        ("/dev/.*", "/dev/*", False),
        ("/dev/ttyUSB0", "/dev/ttyUSB[1-9]", False),
        ("/dev/ttyUSB[3]", "/dev/ttyUSB[1-9]", True),
    ],
)
def test_a_glob_is_refused_where_it_can_find_nothing_that_is_allowed(
    tmp_path: Path, path: str, rule: str, is_taken: bool
) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text(f"{HEAD}devices: {{paths: ['{rule}']}}\n")
    refusal = "" if is_taken else f"{MATCH}.path: {path!r} is not allowed"
    assert _said(tmp_path, policy, f"path: '{path}'") == refusal


@pytest.mark.parametrize(
    ("path", "rule", "expected"),
    [
        ("/dev/ttyUSB0", "/dev", True),
        ("/dev", "/dev", True),
        ("/dev", "/dev/tty*", False),
        ("/devious", "/dev", False),
        ("/dev/dri/card0", "/dev/dri*", True),
        ("/dev/a/b", "/dev/*/b", True),
        ("/dev/b", "/dev/*/b", False),
        ("/opt/x/.", "/opt/x/*", False),
        ("/opt//x/", "/opt/x", True),
        ("/anything", "/", True),
        ("/opt/.x", "/opt/*", False),
        ("/opt/.x", "/opt/?x", False),
        ("/opt/.x", "/opt/[!a]x", False),
        ("/opt/.x", "/opt/[.]x", False),
        ("/opt/.x", "/opt/.*", True),
        ("/opt/x/.y", "/opt/*", True),
        ("/opt/.x", "/opt", True),
    ],
)
def test_a_path_lies_below_what_is_allowed_or_not(path: str, rule: str, expected: bool) -> None:
    outer = segments_of(rule)
    assert is_within(path, outer) is may_lie_within(segments_of(path), outer) is expected


def test_where_two_dots_lead_is_not_known() -> None:
    assert not is_within("/dev/../etc", segments_of("/dev"))


DOTTED = st.lists(st.sampled_from([".", *PIECES, "[.]"]), max_size=4).map("".join)


@given(DOTTED, DOTTED)
def test_a_glob_that_can_find_what_is_allowed_is_never_refused(wide: str, narrow: str) -> None:
    found = [name for name in TEXTS if is_within(f"/{name}", [narrow])]
    if any(is_within(f"/{name}", [wide]) for name in found):
        assert may_lie_within([narrow], [wide])
