"""Groups: the candidates that are one device together, and their members that come and go."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.devices.lookup import Names
from genericdp.devices.matching import not_offered
from genericdp.printing import printable
from genericdp.template import UnusableValueError, expand

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from genericdp.devices.device import Device, Member, NotOffered
    from genericdp.devices.inventory import Inventory
    from genericdp.devices.matching import Candidate
    from genericdp.model import Resource
    from genericdp.template import Template

GROUP_SECONDS = 0.3
"""How long the members of a new group have to stay the same before it is offered."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """What is to be one device."""

    members: tuple[Candidate, ...]
    """At least one, in natural order of their paths."""
    text: str | None = None
    """What they have in common; None: the resource groups nothing."""

    @property
    def key(self) -> str:
        """What the device is on the host."""
        return self.members[0].key if self.text is None else f"group {self.text}"


def group(
    resource: Resource, candidates: Iterable[Candidate], inventory: Inventory
) -> tuple[list[Group], list[NotOffered]]:
    """Return the groups in the order of their first members, and what is in none or incomplete.

    Index and order of discovery play no part (D2): only the text counts.
    """
    if resource.group_by is None:
        return [Group(members=(one,)) for one in candidates], []
    members: dict[str, list[Candidate]] = {}
    refused = []
    for one in candidates:
        try:
            text = _text(resource, resource.group_by, one, inventory)
        except UnusableValueError as error:
            refused.append(not_offered(resource, one, str(error)))
        else:
            members.setdefault(text, []).append(one)
    groups = []
    for text, several in members.items():
        made = Group(members=tuple(several), text=text)
        if lacking := _lacking(resource, several):
            reason = f"its group '{printable(text)}' has {lacking}"
            refused.append(refusal(resource, made, reason))
        else:
            groups.append(made)
    return groups, refused


def refusal(resource: Resource, group: Group, reason: str) -> NotOffered:
    """Return why a group is not offered: one line, and every member knows of it."""
    keys = () if group.text is None else tuple(one.key for one in group.members)
    return not_offered(resource, group.members[0], reason, key=group.key, members=keys)


def _text(
    resource: Resource, template: Template, candidate: Candidate, inventory: Inventory
) -> str:
    """Return what ``groupBy`` gives for one candidate; raises UnusableValueError."""
    names = Names(candidate, resource=resource, inventory=inventory)
    try:
        text = expand(template, names.get_text)
    except UnusableValueError as error:
        raise UnusableValueError(f"groupBy: {error}") from error
    if not text:
        raise UnusableValueError(f"groupBy '{template}' gives an empty text")
    return text


def _lacking(resource: Resource, members: Sequence[Candidate]) -> str:
    """Return which of the members that ``groupNeeds`` asks for a group lacks; empty if none."""
    needs, here, entries = resource.group_needs, len(members), len(resource.match)
    if needs is None:
        return ""
    if isinstance(needs, int):
        missing = needs - here
        return f"{here} of {needs} members: {missing} missing (groupNeeds)" if missing > 0 else ""
    present = {i for member in members for i in member.entries}
    absent = [f"match[{i}]" for i in range(entries) if i not in present]
    if not absent:
        return ""
    return (
        f"members of {entries - len(absent)} of {entries} entries:"
        f" {len(absent)} missing, {' and '.join(absent)} (groupNeeds: each)"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """A member that a listed device had and lacks."""

    member: Member
    since: float
    """On the monotonic clock, in seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arriving:
    """A group that is not listed, whose members have to stay the same for a while."""

    members: tuple[str, ...]
    """Their keys."""
    since: float
    """Since when they are these, on the monotonic clock, in seconds."""

    @property
    def due(self) -> float:
        """When it will be listed if no other member comes."""
        return self.since + GROUP_SECONDS


def missing(before: Sequence[Member], members: Sequence[Member]) -> tuple[Member, ...]:
    """Return those that were there before and are not any more.

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


def settled(
    resource: str,
    devices: Iterable[Device],
    listed: frozenset[str],
    before: Mapping[str, Arriving],
    *,
    now: float,
) -> tuple[list[Device], list[NotOffered], dict[str, Arriving]]:
    """Return the devices that can be listed, those that must wait, and since when all are so.

    The kernel tells of the members of a group one after the other: a container that asks in
    between must not be given half of it. ``listed`` are the keys of what is complete already.
    What can be listed and then loses to another device need not wait once more.
    """
    ready: list[Device] = []
    waiting: list[NotOffered] = []
    arriving: dict[str, Arriving] = {}
    for device in devices:
        known = before.get(device.key)
        if device.key in listed:
            known = Arriving(members=device.keys, since=now - 2 * GROUP_SECONDS)
        elif known is None or known.members != device.keys:
            known = Arriving(members=device.keys, since=now)
        arriving[device.key] = known
        if known.due <= now:
            ready.append(device)
        else:
            waiting.append(
                device.refused(
                    resource,
                    "its group has just changed: other members may come within"
                    f" {GROUP_SECONDS:g} s",
                )
            )
    return ready, waiting, arriving
