"""Members that come and go: which of them are missing, by their hardware."""

from __future__ import annotations

from dataclasses import replace

import pytest
from genericdp.devices.carry_over import missing
from genericdp.devices.device import Member
from genericdp.devices.devicelist import refused
from genericdp.devices.identity import HardwareIdentity
from genericdp.devices.inventory import Identity
from genericdp.reasons import Code, Reason
from genericdp.template import parse

from tests.devices.making import decide, healthy, node, resource

VIDEO = resource("video", "/dev/video*", group_by=parse("cam"))
CAM = [node(f"/dev/video{n}", (81, n)) for n in range(2)]


def member(name: str, port: str, serial: str = "") -> Member:
    """A video node: what it is called, and the hardware below."""
    identity = Identity(inode=1, syspath=f"/sys/devices/usb/{port}/{name}")
    unique = (("usb serial", serial),) if serial else ()
    hardware = HardwareIdentity(location=f"usb {port}", part="video4linux", unique=unique)
    return Member(key=f"char:{name}", path=f"/dev/{name}", identity=identity, hardware=hardware)


@pytest.mark.parametrize(
    ("before", "now", "gone"),
    [
        ([("video0", "a"), ("video1", "a.1")], [("video0", "a"), ("video1", "a.1")], []),
        ([("video0", "a"), ("video1", "a.1")], [("video0", "a")], ["/dev/video1"]),
        # The kernel counts on, and the hardware sits where it did.
        ([("video0", "a"), ("video1", "a.1")], [("video2", "a"), ("video3", "a.1")], []),
        ([("video0", "a"), ("video1", "a.1")], [("video2", "a")], ["/dev/video1"]),
        ([("video0", "a")], [("video0", "b")], ["/dev/video0"]),
        # As many come to a place as go from it, one for one.
        ([("video0", "a"), ("video1", "a")], [("video2", "a")], ["/dev/video1"]),
        ([("video0", "a"), ("video1", "a")], [("video2", "a"), ("video3", "a")], []),
        ([], [("video0", "a")], []),
        # The serial number says more than the place.
        ([("video0", "a", "SN1")], [("video2", "a", "SN1")], []),
        ([("video0", "a", "SN1")], [("video2", "a", "SN2")], ["/dev/video0"]),
        ([("video0", "a", "SN1")], [("video2", "a")], []),
    ],
)
def test_a_member_is_missing_where_neither_it_nor_the_same_hardware_is_there(
    before: list[tuple[str, ...]], now: list[tuple[str, ...]], gone: list[str]
) -> None:
    was, present = ([member(*facts) for facts in several] for several in (before, now))
    assert [lost.path for lost in missing(was, present)] == gone


def test_a_member_that_stays_is_not_taken_for_its_neighbor_whatever_its_facts_say() -> None:
    stays = member("video1", "a.1")
    moved = replace(stays, hardware=member("video0", "a").hardware)
    lost = missing([member("video0", "a"), stays], [moved])
    assert [video.path for video in lost] == ["/dev/video0"]


def test_a_member_has_the_identity_by_which_it_would_be_known_again() -> None:
    cam = decide([VIDEO], CAM)[VIDEO.name].devices["cam"].device
    assert [video.hardware.location for video in cam.members] == ["/dev/video0", "/dev/video1"]
    assert cam.identities == tuple(video.hardware for video in cam.members)


def test_a_device_on_offer_need_not_wait_because_its_group_was_refused_under_another_name() -> None:
    before = decide([VIDEO], CAM[:1])
    listed = before[VIDEO.name]
    (entry,) = listed.devices.values()
    held = refused(entry.device.path, entry.device.key, Reason(Code.HELD, "a pod has it"))
    before[VIDEO.name] = replace(listed, entries=(*listed.entries, held))
    assert healthy(decide([VIDEO], CAM, before, now=1.0), "video") == ["cam"]
