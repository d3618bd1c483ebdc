from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.config.load import load
from tests.config.bounded import HEAD, NARROW

if TYPE_CHECKING:
    from pathlib import Path

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
    ],
)
def test_what_a_policy_allows_is_taken(tmp_path: Path, match: str, inject: str, rest: str) -> None:
    assert _said(tmp_path, NARROW, match, inject, rest) == ""


MATCH = ".resources[0].match[0]"
INJECT = ".resources[0].inject"
FUSE = "path: /dev/fuse"


@pytest.mark.parametrize(
    ("match", "inject", "rest", "expected"),
    [
        ("path: /dev/sda", "env: {}", "", f"{MATCH}.path: '/dev/sda' is not allowed"),
        (
            "path: [/dev/fuse, /dev/tty*]",
            "env: {}",
            "",
            f"{MATCH}.path[1]: '/dev/tty*' can lead to what is not allowed",
        ),
        (
            "path: /dev/ttyUSB*, type: [block]",
            "env: {}",
            "",
            f"{MATCH}.type: block devices are not allowed",
        ),
        (
            "path: /dev/*",
            OWN,
            "",
            f"{INJECT}.devices[0].path: '$(device.path)' can lead to what is not allowed",
        ),
        (
            FUSE,
            "devices: [{path: /dev/dri/$(device.name)}]",
            "",
            f"{INJECT}.devices[0].path: '/dev/dri/$(device.name)' can lead to what is not allowed",
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
        (
            FUSE,
            "mounts: [{hostPath: /opt/driver$(device.name), containerPath: /x}]",
            "",
            f"{INJECT}.mounts[0].hostPath: '/opt/driver$(device.name)' can lead to what is not"
            " allowed",
        ),
        (FUSE, "env: {LD_PRELOAD: a}", "", f"{INJECT}.env.LD_PRELOAD: 'LD_PRELOAD' is not allowed"),
        (FUSE, "annotations: {a: b}", "", f"{INJECT}.annotations.a: 'a' is not allowed"),
        (
            FUSE,
            "cdi: [vendor.com/gpu=0]",
            "",
            f"{INJECT}.cdi[0]: 'vendor.com/gpu=0' is not allowed",
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
            "annotations: {cdi.k8s.io/ours: $(value.v)}",
            "values: {v: {text: a}}",
            f'{INJECT}.annotations["cdi.k8s.io/ours"]: '
            "'$(value.v)' can lead to what is not allowed",
        ),
        (
            FUSE,
            "cdi: [vendor.com/seri$(device.name)al=0]",
            "",
            f"{INJECT}.cdi[0]: 'vendor.com/seri$(device.name)al=0' can lead to what is not allowed",
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


def test_a_policy_without_sections_allows_no_node_however_it_is_found(tmp_path: Path) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text(HEAD)
    asked = {
        "path: /dev/fuse": "'/dev/fuse' is not allowed",
        "udev: {subsystem: tty}": "it asks for device nodes",
    }
    for match, expected in asked.items():
        assert _said(tmp_path, policy, match).endswith(expected)
    said = _said(tmp_path, policy, "usb: {vendor: '0403'}", "devices: [{subsystem: tty}]")
    assert said.endswith("it asks for device nodes")


def test_all_that_another_problem_leaves_is_held_against_the_policy(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        CONFIG.replace("MATCH", "path: /dev/sda")
        .replace("INJECT", "mounts: [5, {hostPath: '/etc/$(', containerPath: /x}]\n      cdi: 5")
        .replace("REST", "health: 5\n    hooks: {allocate: {exec: {command: []}}}")
    )
    said = [str(one) for one in load([path], policy=NARROW).problems]
    assert sum("policy" in one for one in said) == 1
    assert len(said) >= 5


@pytest.mark.parametrize("key", ["annotations", "env"])
def test_a_name_is_held_against_the_policy_also_if_its_value_is_wrong(
    tmp_path: Path, key: str
) -> None:
    path = tmp_path / "c.yaml"
    check = "health: [{exec: {command: [/usr/bin/check], env: {LD_PRELOAD: 5}}}]"
    text = CONFIG.replace("MATCH", "path: /dev/fuse").replace("REST", check)
    path.write_text(text.replace("INJECT", f"{key}: {{evil.com: y}}"))
    said = [str(one) for one in load([path], policy=NARROW).problems]
    assert ["policy" in one for one in said].count(True) == 2, said
    assert len(said) == 4
