"""Policies held against what only the host knows: where links lead, what templates give."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from genericdp.devices.paths import PathTarget, file_to_read
from tests.config.bounded import policy_of
from tests.devices.making import decide, inject, node, nodes, plain, resource, selector

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.devices.inventory import FoundFile
    from genericdp.model import Inject, Resource

TTY = node("/dev/ttyUSB0", (188, 0))
LINK = node("/dev/serial/x", (188, 0), target="/dev/ttyUSB0")
DISK = node("/dev/sda", (8, 0), block=True)


def _refused(resource: Resource, *files: FoundFile) -> str:
    offer = decide([resource], files)[resource.name]
    assert bool(offer.devices) is not bool(offer.not_offered)
    return offer.not_offered[0].text if offer.not_offered else ""


@pytest.mark.parametrize(
    ("policy", "file", "expected"),
    [
        ("devices: {}", TTY, ""),
        ("devices: {paths: [/dev/ttyUSB*]}", TTY, ""),
        ("devices: {paths: [/dev/serial, /dev/ttyUSB*]}", LINK, ""),
        (
            "devices: {paths: [/dev/serial]}",
            LINK,
            "/dev/ttyUSB0 is not among the device nodes that are allowed (policy P:3 says"
            " devices: /dev/serial)",
        ),
        ("devices:\n  block: true", DISK, ""),
        ("devices: {}", DISK, "/dev/sda is a block device (policy P:3 allows no block devices)"),
        (
            "devices:\n  block: false",
            DISK,
            "/dev/sda is a block device (policy P:4 allows no block devices)",
        ),
        (
            "",
            TTY,
            "/dev/ttyUSB0 is not among the device nodes that are allowed (policy P:1 has no"
            " 'devices', which allows none)",
        ),
    ],
)
def test_a_node_counts_by_its_name_and_by_where_that_leads(
    tmp_path: Path, policy: str, file: FoundFile, expected: str
) -> None:
    bounds = policy_of(tmp_path, policy)
    said = _refused(resource("r", file.path, policy=bounds), file)
    assert said.replace(f"{tmp_path}/p.yaml", "P") == expected


def test_nodes_that_are_brought_along_count_too(tmp_path: Path) -> None:
    bounds = policy_of(tmp_path, "devices: {paths: [/dev/ttyUSB*]}")
    given = inject(nodes("$(device.path)"), nodes("/dev/sd*"))
    one = resource("r", TTY.path, given=given, policy=bounds)
    assert "/dev/sda is not among the device nodes" in _refused(one, TTY, DISK)


OPT = "devices: {}\nmounts: [{hostPath: /opt}]\n"


def _mounting(path: str, *, read_only: bool = True) -> Inject:
    given = inject(mounts=[(path, "/x")])
    return replace(given, mounts=(replace(given.mounts[0], read_only=read_only),))


@pytest.mark.parametrize(
    ("target", "refusal", "read_only", "expected"),
    [
        (None, "", True, ""),
        ("/opt/lib-2", "", True, ""),
        ("/etc", "", True, "/etc is not among the mounts that are allowed"),
        ("/opt/lib", "", False, "/opt/lib may be mounted only for reading"),
        ("/opt/lib-2", "anybody may turn it", True, "must not be mounted: anybody may turn it"),
    ],
)
def test_a_mount_counts_by_where_it_leads_as_far_as_that_is_visible(
    tmp_path: Path, target: str | None, refusal: str, read_only: bool, expected: str
) -> None:
    bounds = policy_of(tmp_path, OPT)
    given = _mounting("/opt/lib", read_only=read_only)
    files = [TTY]
    if target is not None:
        files.append(replace(plain("/opt/lib", folder=True), target=target, mount_refusal=refusal))
    said = _refused(resource("r", TTY.path, given=given, policy=bounds), *files)
    assert expected in said if expected else said == ""


def test_what_a_template_gives_counts_once_it_is_known(tmp_path: Path) -> None:
    bounds = policy_of(tmp_path, "devices: {}\ncdi: [v.com/tty]\nmounts: [{hostPath: /opt/*/x}]\n")
    for given in (
        inject(cdi=["v.com/$(device.name)=1"]),
        _mounting("/opt/$(device.subsystem:-x)"),
        _mounting("$(value.folder:-/data)/x"),
        _mounting("/opt/$(property.X:-.y)/x"),
    ):
        assert "allowed" in _refused(resource("r", TTY.path, given=given, policy=bounds), TTY)
    given = inject(cdi=["v.com/tty=$(device.name)"])
    assert _refused(resource("r", TTY.path, given=given, policy=bounds), TTY) == ""


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("v.com/tty=$(device.name)", True),
        ("v.com/tty=1,v.com/tty=$(allocation.index)", True),
        ("v.com/$(device.name)=1", False),
        ("v.com/tty$(allocation.index)=1", False),
        ("v.com/tty=1$(property.X:-,n.com/gpu=all)", False),
        ("v.com/tty=1, v.com/tty=2", False),
    ],
)
def test_an_annotation_that_runtimes_take_for_cdi_names_is_held_against_cdi(
    tmp_path: Path, text: str, is_allowed: bool
) -> None:
    bounds = policy_of(tmp_path, 'devices: {}\nannotations: ["*"]\ncdi: [v.com/tty]\n')
    given = inject(nodes("$(device.path)"), annotations={"cdi.k8s.io/x": text, "a": "n.com/gpu=1"})
    said = _refused(resource("r", TTY.path, given=given, policy=bounds), TTY)
    assert ("is not allowed (policy" in said) is not is_allowed, said


def test_a_file_is_read_only_where_reading_is_allowed_and_leads_there(tmp_path: Path) -> None:
    bounds = policy_of(tmp_path, "files: [/run]\n")
    assert file_to_read(bounds, "/run/x", lambda path: PathTarget(target=path)).refusal == ""
    assert file_to_read(None, "/etc/shadow", lambda path: PathTarget(target=path)).refusal == ""
    for path, target in (("/run/x", "/etc/shadow"), ("/etc/shadow", "/etc/shadow")):
        said = file_to_read(bounds, path, lambda _, at=target: PathTarget(target=at)).refusal  # type: ignore[misc]
        assert said.startswith("/etc/shadow is not among the files that are allowed (policy ")


def test_a_device_on_offer_that_a_policy_forbids_turns_unhealthy_with_the_reason(
    tmp_path: Path,
) -> None:
    free = resource("r", selector("/dev/ttyUSB*"))
    before = decide([free], [TTY])
    bound = replace(free, policy=policy_of(tmp_path, ""))
    (one,) = decide([bound], [TTY], before)["example.com/r"].devices.values()
    assert "p.yaml:1 has no 'devices'" in one.text
