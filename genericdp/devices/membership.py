"""Members of a group that come and go: what is waited for, and how long."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.devices.device import Device, Member, NotOffered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

GROUP_SECONDS = 0.3
"""How long the members of a new group have to stay the same before it is offered."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """A member that a device on offer had and lacks."""

    member: Member
    since: float
    """On the monotonic clock, in seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arriving:
    """A group that is not on offer, whose members have to stay the same for a while."""

    members: tuple[str, ...]
    """Their keys."""
    since: float
    """Since when they are these, on the monotonic clock, in seconds."""

    @property
    def due(self) -> float:
        """When it will be offered if no other member comes."""
        return self.since + GROUP_SECONDS


def missing(before: Sequence[Member], members: Sequence[Member]) -> tuple[Member, ...]:
    """Give those that were there before and are not any more.

    What the kernel has made anew under another number is there again if it sits where the old one
    did. What is still the very same comes first: its neighbours' going may move its rank.
    """
    here, there = {one.identity for one in members}, {one.identity for one in before}
    new_places = Counter(one.place for one in members if one.identity not in there)
    gone = []
    for one in before:
        if one.identity in here:
            continue
        if new_places[one.place]:
            new_places[one.place] -= 1
        else:
            gone.append(one)
    return tuple(gone)


def still_lost(
    before: Device, lost: Sequence[Lost], device: Device, *, since: float
) -> tuple[Lost, ...]:
    """Give what a device lacks of all that it had: of late, and of what was lost already.

    ``since`` is when it lost what it had of late.
    """
    known = {one.member: one.since for one in lost}
    had = tuple(dict.fromkeys((*before.members, *known)))
    return tuple(
        Lost(member=one, since=known.get(one, since)) for one in missing(had, device.members)
    )


def settled(
    resource: str,
    devices: Iterable[Device],
    on_offer: frozenset[str],
    before: Mapping[str, Arriving],
    *,
    now: float,
) -> tuple[list[Device], list[NotOffered], dict[str, Arriving]]:
    """Give the devices that can be offered, those that must wait, and since when all are so.

    The kernel tells of the members of a group one after the other: a container that asks in
    between must not be given half of it. ``on_offer`` are the keys of what is on offer already.
    What can be offered and then loses to another device need not wait once more.
    """
    ready: list[Device] = []
    waiting: list[NotOffered] = []
    arriving: dict[str, Arriving] = {}
    for device in devices:
        known = before.get(device.key)
        if device.key in on_offer:
            known = complete(device, now=now)
        elif known is None or known.members != device.keys:
            known = Arriving(members=device.keys, since=now)
        arriving[device.key] = known
        if known.due <= now:
            ready.append(device)
        else:
            waiting.append(_waiting(resource, device))
    return ready, waiting, arriving


def complete(device: Device, *, now: float) -> Arriving:
    """Give what needs to wait no longer."""
    return Arriving(members=device.keys, since=now - 2 * GROUP_SECONDS)


def _waiting(resource: str, device: Device) -> NotOffered:
    return NotOffered(
        resource=resource,
        path=device.path,
        key=device.key,
        reason=f"its group has just changed: other members may come within {GROUP_SECONDS:g} s",
        members=device.keys,
    )
