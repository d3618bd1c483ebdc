"""Why a resource has no devices: the cause, and the selector that is to blame with its place."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from genericdp.config.load import load
from genericdp.devices.changes import changes
from genericdp.devices.decide import Decision, decide
from genericdp.devices.inventory import FoundFile, Identity, Look
from genericdp.errors import reason_of
from genericdp.model import FileType
from tests.devices.known import Known, adapter_and_card
from tests.devices.making import finds, node, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from genericdp.devices.devicelist import DeviceList

    Decide = Callable[..., Decision]
HEAD = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
NAME = "example.com/x"
ODD = [node("/dev/odd", (1, 1)), plain("/dev/folder", folder=True)]
PF = """values: {port: {link: "$(device.syspath)/physfn/net/*"}, here: {text: "$(device.name)"}}"""


def folder_of(syspath: str) -> FoundFile:
    identity = Identity(inode=1, syspath=syspath)
    return FoundFile(path=syspath, target=syspath, type=FileType.DIRECTORY, identity=identity)


def host(*files: FoundFile, hanging: str = "", denied: str = "") -> Known:
    """Return an adapter and a card, and these files in /dev."""
    known = adapter_and_card()
    files += tuple(folder_of(one) for one in known.devices)

    def look(pattern: str) -> Look | None:
        if pattern == hanging:
            return None
        found = tuple(one for one in files if finds(pattern, one.path))
        return Look(files=found, unreadable=denied and f"{denied} cannot be read: denied")

    known.look = look
    return known


@pytest.fixture
def decided(tmp_path: Path) -> Decide:
    def decided(
        text: str, known: Known, previous: Mapping[str, DeviceList] | None = None
    ) -> Decision:
        file = tmp_path / "a.yaml"
        indented = "".join(f"    {line}\n" for line in text.splitlines())
        file.write_text(f"{HEAD}  - name: {NAME}\n{indented}")
        loaded = load([file])
        assert not loaded.problems, loaded.problems
        previous = previous or {}
        return decide(loaded.resources, known, node_name="n", previous=previous, now=1.0)

    return decided


def why(decision: Decision, tmp_path: Path) -> tuple[str, str]:
    reason, cause = decision.lists[NAME].why_empty
    return cause, reason.replace(f"{tmp_path}/", "")


FOUND = [
    ("match: [{path: /dev/none*}]", "nothing_found", "match[0] {path: /dev/none*} (a.yaml:5)"),
    (
        "match: [{udev: {subsystem: video4linux}}]",
        "nothing_found",
        "match[0] {udev: {subsystem: video4linux}} (a.yaml:5)",
    ),
    (
        "match:\n- path: [/dev/a]\n- path: [/dev/b]\n- path: [/dev/c]\n- path: [/dev/d]",
        "nothing_found",
        "match[0] {path: /dev/a} (a.yaml:6) or match[1] {path: /dev/b} (a.yaml:7) or match[2]"
        " {path: /dev/c} (a.yaml:8) or 1 other selector",
    ),
    (
        'match: [{udev: {subsystem: tty}, hardware: {usb: {vendor: "10c4"}}}]',
        "not_matched",
        'match[0] {udev: {subsystem: tty}, hardware: {usb: {vendor: "10c4"}}} (a.yaml:5):'
        " 1 tty device, none fits: wants hardware.usb.vendor 10c4, found 0403",
    ),
    (
        'match: [{usb: {vendor: "10c4"}}]',  # hubs and controllers are USB devices, interfaces not
        "not_matched",
        'match[0] {usb: {vendor: "10c4"}} (a.yaml:5): 3 USB devices, none fits: wants'
        " usb.vendor 10c4, found 1d6b, 05e3, 0403",
    ),
    (
        'match: [{usb: {vendor: "0403", product: "6015"}}]',
        "not_matched",
        'match[0] {usb: {vendor: "0403", product: "6015"}} (a.yaml:5): 3 USB devices, none fits:'
        " wants usb.product 6015, found 6001",
    ),
    (
        'match: [{net: {name: "ens*"}, hardware: {usb: {}}}]\ninject: {env: {A: b}}',
        "not_matched",
        "match[0] {net: {name: ens*}, hardware: {usb: {}}} (a.yaml:5): 1 network interface, none"
        " fits: wants hardware.usb, but it is no USB device and does not sit on one",
    ),
    (
        "match: [{path: '/dev/f*'}]",
        "not_matched",
        "match[0] {path: /dev/f*} (a.yaml:5): 1 file, none fits: wants type char or block,"
        " found directory",
    ),
    (
        "match: [{path: /dev/none}, {path: '/dev/o*', hardware: {usb: {}}}]",
        "not_matched",
        "match[0] {path: /dev/none} (a.yaml:5) or match[1] {path: /dev/o*, hardware: {usb: {}}}"
        " (a.yaml:5): match[1] comes closest: 1 file, none fits: wants hardware, but sysfs"
        " knows nothing of it",
    ),
    (
        "match: [{pci: {}, values: {port: ens1}}]\n" + PF + "\ninject: {env: {A: b}}",
        "value_missing",
        "match[0] {pci: {}, values: {port: ens1}} (a.yaml:5): 3 PCI functions, none fits: wants"
        " values.port ens1, but the value 'port': "
        "/sys/devices/pci0000:00/0000:00:14.0/physfn/net/* finds nothing, wanted one",
    ),
    (
        "match: [{pci: {}, values: {here: x}}]\n" + PF + "\ninject: {env: {A: b}}",
        "not_matched",
        "match[0] {pci: {}, values: {here: x}} (a.yaml:5): 3 PCI functions, none fits: wants"
        " values.here x, found 0000:00:14.0, 0000:3b:00.0, 0000:3b:01.0",
    ),
]


@pytest.mark.parametrize(("text", "cause", "reason"), FOUND, ids=[one[0][:40] for one in FOUND])
def test_what_matches_nothing_is_named_with_what_there_is(
    decided: Decide, tmp_path: Path, text: str, cause: str, reason: str
) -> None:
    asked = host(*ODD)
    found = why(decided(text, asked), tmp_path)
    assert found == (cause, f"nothing on this node matches {reason}")


def test_what_is_excluded_is_named_with_the_entry_that_does_it(
    decided: Decide, tmp_path: Path
) -> None:
    text = "match: [{path: /dev/odd}]\nexclude:\n- path: /dev/o*\n- path: /dev/x"
    assert why(decided(text, host(*ODD)), tmp_path) == (
        "excluded",
        "all that is matched is excluded by exclude[0] {path: /dev/o*} (a.yaml:7) or exclude[1]"
        " {path: /dev/x} (a.yaml:8): /dev/odd",
    )


def test_what_is_matched_and_refused_says_why(decided: Decide, tmp_path: Path) -> None:
    text = "match: [{path: /dev/odd}]\nid: $(usb.serial)"
    assert why(decided(text, host(*ODD)), tmp_path) == (
        "not_offered",
        "1 matched, but not offered: /dev/odd: it has no '$(usb.serial)'",
    )


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (host(hanging="/dev/odd"), "looking at /dev/odd does not end"),
        (host(denied="/dev"), "/dev cannot be read: denied"),
    ],
    ids=["hangs", "denied"],
)
def test_what_cannot_be_seen_is_not_known_to_be_absent(
    decided: Decide, tmp_path: Path, known: Known, reason: str
) -> None:
    found = why(decided("match: [{path: /dev/odd}]", known), tmp_path)
    text = "it is not known what matches match[0] {path: /dev/odd} (a.yaml:5)"
    assert found == ("undecided", f"{text}: {reason}")


def test_what_may_match_but_cannot_be_read_is_named(decided: Decide, tmp_path: Path) -> None:
    known = host()
    for path in [path for path in known.texts if path.endswith("/idVendor")]:
        del known.texts[path]
        known.unreadable[path] = reason_of(PermissionError(13, "Permission denied"))
    cause, reason = why(decided('match: [{usb: {vendor: "0403"}}]', known), tmp_path)
    assert cause == "not_offered"
    assert "3 matched, but not offered: " in reason
    assert "/idVendor cannot be read: " in reason


def test_what_fails_is_undecided(decided: Decide, tmp_path: Path) -> None:
    known = host()

    def broken(pattern: str) -> Look:
        raise ValueError(pattern)

    known.look = broken
    cause, reason = why(decided("match: [{path: /dev/odd}]", known), tmp_path)
    assert cause == "undecided"
    assert "it cannot be decided what is offered: ValueError" in reason


def test_nothing_is_read_for_the_reason(decided: Decide, tmp_path: Path) -> None:
    text = 'match: [{usb: {vendor: "10c4", product: "ea60", serial: "1"}}]'
    known = host()
    decided(text, known)
    assert {path.rpartition("/")[2] for path in known.asked} == {"idVendor"}


def test_it_is_logged_when_it_becomes_so_and_not_for_whatever_comes_and_goes(
    decided: Decide, tmp_path: Path
) -> None:
    def said(text: str, known: Known, before: Decision | None = None) -> tuple[Decision, list[str]]:
        lists = before.lists if before else {}
        now = decided(text, known, lists)
        told = list(changes(lists, now))
        assert {one.level for one in told} <= {logging.INFO}
        return now, [one.text.replace(f"{tmp_path}/", "") for one in told]

    known, vendor = host(*ODD), 'match: [{usb: {vendor: "10c4"}}]'
    first, told = said("match: [{path: /dev/none}]", known)
    assert told == [
        "no devices: nothing on this node matches match[0] {path: /dev/none} (a.yaml:5)"
    ]
    second, told = said(vendor, known, first)
    assert told[0].endswith("found 1d6b, 05e3, 0403")
    known.usb("0000:00:14.0/usb1/1-7", idVendor="dead")
    third, told = said(vendor, known, second)
    assert told == []
    assert "4 USB devices" in third.lists[NAME].why_empty[0]
    fourth, told = said("match: [{path: /dev/odd}]", known, third)
    assert told == ["device odd is new"]
    assert fourth.lists[NAME].why_empty == ("", "")
