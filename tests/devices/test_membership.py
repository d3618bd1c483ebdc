"""Members that come and go: what is missing, and how long a new group has to stay the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from genericdp.devices.allocation import edits
from genericdp.devices.carry_over import missing
from genericdp.devices.device import Member
from genericdp.devices.devicelist import next_due, refused
from genericdp.devices.identity import HardwareIdentity
from genericdp.devices.inventory import Identity
from genericdp.devices.transitions import State
from genericdp.reasons import Code, Reason
from genericdp.template import parse
from tests.devices.making import decide, healthy, node, refusals, resource, unhealthy
from tests.devices.sound import CAPTURES, CONTROLS, paths, sound

WAITING = "its group has just changed: other members may come within 0.3 s"
VIDEO = resource("video", "/dev/video*", group_by=parse("cam"), forget_after_seconds=300)
CAM = [node(f"/dev/video{n}", (81, n)) for n in range(4)]


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
    was, here = ([member(*one) for one in several] for several in (before, now))
    assert [one.path for one in missing(was, here)] == gone


def test_a_member_that_stays_is_not_taken_for_its_neighbor_whatever_its_facts_say() -> None:
    stays = member("video1", "a.1")
    moved = replace(stays, hardware=member("video0", "a").hardware)
    assert [one.path for one in missing([member("video0", "a"), stays], [moved])] == ["/dev/video0"]


def test_a_new_group_is_offered_when_its_members_have_stayed_the_same_for_a_while() -> None:
    offers = decide([VIDEO], [])
    for now, count, state in [
        (1.0, 1, "waiting"),
        (1.2, 2, "waiting"),
        (1.4, 2, "waiting"),
        (1.49, 2, "waiting"),
        (1.51, 2, "on offer"),
        (1.52, 3, "on offer"),
    ]:
        offers = decide([VIDEO], CAM[:count], offers, now=now)
        assert healthy(offers, "video") == (["cam"] if state == "on offer" else []), now
        waits = state == "waiting"
        assert refusals(offers, "video") == ({"/dev/video0": WAITING} if waits else {}), now
        due = next_due(offers[VIDEO.name], now=now)
        assert due == (pytest.approx(1.3 if now == 1.0 else 1.5) if waits else None), now


def test_who_waits_does_not_hold_up_those_after_it() -> None:
    cams = resource("video", "/dev/*", group_by=parse("$(device.name)"), forget_after_seconds=300)
    before = decide([cams], [CAM[0], CAM[2]])
    after = decide([cams], CAM[:3], before, now=1.0)
    assert healthy(after, "video") == ["video0", "video2"]
    (waiting,) = after[cams.name].not_offered
    assert (waiting.state, waiting.device.path, waiting.device.key, waiting.device.keys) == (
        State.WAITING,
        "/dev/video1",
        "group video1",
        (CAM[1].key,),
    )


def test_a_member_has_the_identity_by_which_it_would_be_known_again() -> None:
    cam = decide([VIDEO], CAM[:2])[VIDEO.name].devices["cam"].device
    assert [one.hardware.location for one in cam.members] == ["/dev/video0", "/dev/video1"]
    assert cam.identities == tuple(one.hardware for one in cam.members)


def test_at_the_very_end_of_the_wait_a_group_is_offered() -> None:
    offers = decide([VIDEO], CAM[:1], decide([VIDEO], []), now=1.0)
    due = next_due(offers[VIDEO.name], now=1.0)
    assert due is not None
    assert healthy(decide([VIDEO], CAM[:1], offers, now=due), "video") == ["cam"]


def test_what_is_there_at_the_first_look_need_not_wait() -> None:
    assert healthy(decide([VIDEO], CAM), "video") == ["cam"]


def test_a_group_that_returns_waits_for_its_members_and_is_not_taken_for_half_of_it() -> None:
    offers = decide([VIDEO], CAM[:2])
    offers = decide([VIDEO], [], offers, now=10.0)
    offers = decide([VIDEO], CAM[:1], offers, now=11.0)
    assert unhealthy(offers, "video") == {"cam": f"/dev/video1 is missing; {WAITING}"}
    offers = decide([VIDEO], CAM[:1], offers, now=11.4)
    assert unhealthy(offers, "video") == {"cam": "/dev/video1 is missing"}
    assert next_due(offers[VIDEO.name], now=11.4) == 310.0
    offers = decide([VIDEO], CAM[:2], offers, now=12.0)
    assert healthy(offers, "video") == ["cam"]


def test_a_lost_member_makes_the_device_unhealthy_until_it_is_forgotten_or_back() -> None:
    one = sound(forget_after_seconds=300)
    pair = [CONTROLS[0], CAPTURES[0]]
    before = decide([one], pair)
    lost = decide([one], pair[:1], before, now=10.0)
    assert unhealthy(lost, "sound") == {"card0": "/dev/snd/pcmC0D0c is missing"}
    assert unhealthy(decide([one], pair[:1], lost, now=309.9), "sound") != {}
    back = decide([one], pair, lost, now=11.0)
    assert (healthy(back, "sound"), unhealthy(back, "sound")) == (["card0"], {})
    forgotten = decide([one], pair[:1], lost, now=310.0)
    assert healthy(forgotten, "sound") == ["card0"]
    assert paths(edits([forgotten[one.name].devices["card0"].device])) == ["/dev/snd/controlC0"]
    assert healthy(decide([one], pair[:1], forgotten, now=900.0), "sound") == ["card0"]


def test_a_member_that_was_lost_before_the_others_is_still_lost_when_these_return() -> None:
    """The kernel removes the nodes of a card one by one."""
    one, pair = sound(forget_after_seconds=300), [CONTROLS[0], CAPTURES[0]]
    offers = decide([one], pair)
    offers = decide([one], pair[:1], offers, now=10.0)
    offers = decide([one], [], offers, now=10.1)
    assert unhealthy(offers, "sound") == {"card0": "/dev/snd/controlC0 does not exist"}
    offers = decide([one], pair[:1], offers, now=20.0)
    offers = decide([one], pair[:1], offers, now=20.4)
    assert unhealthy(offers, "sound") == {"card0": "/dev/snd/pcmC0D0c is missing"}
    assert next_due(offers[one.name], now=20.4) == 310.0
    assert healthy(decide([one], pair[:1], offers, now=310.1), "sound") == ["card0"]
    assert healthy(decide([one], pair, offers, now=21.0), "sound") == ["card0"]


@pytest.mark.parametrize("needs", [1, 2])
def test_where_group_needs_still_holds_it_goes_on_without_a_lost_member(needs: int) -> None:
    several = [CONTROLS[0], CAPTURES[0], node("/dev/snd/pcmC0D1c", (116, 150))]
    before = decide([sound(needs=needs)], several)
    offers = decide([sound(needs=needs)], several[:2], before, now=1.0)
    assert healthy(offers, "sound") == ["card0"]
    device = offers["example.com/sound"].devices["card0"].device
    assert paths(edits([device])) == ["/dev/snd/controlC0", "/dev/snd/pcmC0D0c"]


def test_where_group_needs_holds_no_longer_the_device_is_unhealthy_and_says_why() -> None:
    before = decide([sound(needs="each")], [CONTROLS[0], CAPTURES[0]])
    offers = decide([sound(needs="each")], CONTROLS[:1], before, now=1.0)
    assert unhealthy(offers, "sound") == {
        "card0": "/dev/snd/pcmC0D0c is missing; its group 'card0' has members of 1 of 2 entries:"
        " 1 missing, match[1] (groupNeeds: each)"
    }
    gone = decide([sound(needs="each")], [], offers, now=2.0)
    assert unhealthy(gone, "sound") == {
        "card0": "/dev/snd/controlC0 and /dev/snd/pcmC0D0c do not exist"
    }


def test_a_new_member_joins_a_device_on_offer_at_once() -> None:
    before = decide([sound()], CONTROLS[:1])
    offers = decide([sound()], [CONTROLS[0], CAPTURES[0]], before, now=1.0)
    device = offers["example.com/sound"].devices["card0"].device
    assert healthy(offers, "sound") == ["card0"]
    assert paths(edits([device])) == ["/dev/snd/controlC0", "/dev/snd/pcmC0D0c"]


def test_a_device_on_offer_need_not_wait_because_its_group_was_refused_under_another_name() -> None:
    before = decide([sound()], CONTROLS[:1])
    listed = before["example.com/sound"]
    (entry,) = listed.devices.values()
    held = refused(entry.device.path, entry.device.key, Reason(Code.HELD, "a pod has it"))
    before["example.com/sound"] = replace(listed, entries=(*listed.entries, held))
    offers = decide([sound()], [CONTROLS[0], CAPTURES[0]], before, now=1.0)
    assert healthy(offers, "sound") == ["card0"]
