"""Members that come and go: what is missing, and how long a new group has to stay the same."""

from __future__ import annotations

import pytest

from genericdp.devices.device import Member
from genericdp.devices.inventory import Identity
from genericdp.devices.membership import missing
from genericdp.devices.offers import next_change
from genericdp.template import parse
from tests.devices.making import decide, healthy, node, refusals, resource, unhealthy

WAITING = "it has just appeared: other members of its group may come within 0.3 s"
VIDEO = resource("video", "/dev/video*", group_by=parse("cam"), forget_after_seconds=300)
CAM = [node(f"/dev/video{n}", (81, n)) for n in range(4)]


def member(name: str, place: str, inode: int = 1) -> Member:
    """A video node: what it is called, and the hardware below."""
    syspath = f"/sys/devices/usb/{place}/{name}"
    identity = Identity(inode=inode, syspath=syspath)
    return Member(key=f"char:{name}", path=f"/dev/{name}", identity=identity, place=place)


@pytest.mark.parametrize(
    ("before", "now", "gone"),
    [
        ([("video0", "a"), ("video1", "a.1")], [("video0", "a"), ("video1", "a.1")], []),
        ([("video0", "a"), ("video1", "a.1")], [("video0", "a")], ["/dev/video1"]),
        # The kernel counts on, and the hardware sits where it did.
        ([("video0", "a"), ("video1", "a.1")], [("video2", "a"), ("video3", "a.1")], []),
        ([("video0", "a"), ("video1", "a.1")], [("video2", "a")], ["/dev/video1"]),
        ([("video0", "a")], [("video0", "b")], ["/dev/video0"]),
        ([], [("video0", "a")], []),
    ],
)
def test_a_member_is_missing_where_neither_it_nor_another_at_its_place_is_there(
    before: list[tuple[str, str]], now: list[tuple[str, str]], gone: list[str]
) -> None:
    was, here = ([member(*one) for one in several] for several in (before, now))
    assert [one.path for one in missing(was, here)] == gone


def test_one_that_moves_up_in_rank_is_not_taken_for_its_neighbour() -> None:
    stays = member("video1", "a.1")
    moved = Member(key=stays.key, path=stays.path, identity=stays.identity, place="a")
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
        due = next_change(offers[VIDEO.name], 300)
        assert due == (pytest.approx(1.3 if now == 1.0 else 1.5) if waits else None), now


def test_what_is_there_at_the_first_look_need_not_wait() -> None:
    assert healthy(decide([VIDEO], CAM), "video") == ["cam"]


def test_a_group_that_returns_waits_for_its_members_and_is_not_taken_for_half_of_it() -> None:
    offers = decide([VIDEO], CAM[:2])
    offers = decide([VIDEO], [], offers, now=10.0)
    offers = decide([VIDEO], CAM[:1], offers, now=11.0)
    assert unhealthy(offers, "video") == {"cam": f"/dev/video1 is missing; /dev/video0: {WAITING}"}
    offers = decide([VIDEO], CAM[:1], offers, now=11.4)
    assert unhealthy(offers, "video") == {"cam": "/dev/video1 is missing"}
    assert next_change(offers[VIDEO.name], 300) == 310.0
    offers = decide([VIDEO], CAM[:2], offers, now=12.0)
    assert healthy(offers, "video") == ["cam"]
