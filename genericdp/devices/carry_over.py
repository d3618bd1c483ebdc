"""Carrying over: which devices of the last list stay, and why others are missing."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.device import Device, Member
from genericdp.devices.held import Name
from genericdp.devices.selectors import path_globs
from genericdp.devices.transitions import Event, State
from genericdp.model import TaintEffect
from genericdp.reasons import Code, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from genericdp.devices.devicelist import DeviceList, Entry, Subject
    from genericdp.devices.held import Held
    from genericdp.devices.inventory import Inventory
    from genericdp.devices.matching import Match
    from genericdp.model import Resource

    Reasons = tuple[Reason, ...]

GROUP_SECONDS = 0.3
"""How long the members of a new group have to stay the same before it is offered."""


EVICTION_SECONDS = 30.0
"""How long hardware has to be missing until pods that have it may be evicted: a reset of a device
or hub takes a few seconds.
"""
_HARDWARE = (Code.GONE, Code.REPLACED)
"""The reasons that are facts about the hardware, not about the config or a failed read."""


def settling(before: DeviceList, *, now: float) -> Callable[[Entry[Device]], Entry[Device]]:
    """Return a function that decides whether a group is offered, or waits until its members stay
    the same.

    The kernel reports the members of a group one after the other, and no container may get half of
    a group. A group that is listed, or present at the first scan, is complete. A group that has
    waited and then loses to another device need not wait again.
    """
    former: dict[str, Entry[Subject]] = {}
    for entry in before.entries:  # listed devices come first
        # A group that is missing from the list may be waiting to come back, too.
        known = former.setdefault(entry.device.key, entry)
        if known.state is State.MISSING:
            former[entry.device.key] = entry
    why = f"its group has just changed: other members may come within {GROUP_SECONDS:g} s"

    def settled(entry: Entry[Device]) -> Entry[Device]:
        known, since = former.get(entry.device.key, entry), now
        is_complete = before.owned is None
        if known.device.keys == entry.device.keys and isinstance(known.device, Device):
            since = known.since if known.state is State.WAITING else now
            is_known_here = known is not entry and known.state is State.NOT_OFFERED
            is_complete |= is_known_here or since + GROUP_SECONDS <= now
        waiting = replace(entry, state=known.state, since=since, due=since + GROUP_SECONDS)
        waiting = waiting.after(Event.SETTLING, Reason(Code.GROUP_SETTLING, why))
        return entry if is_complete or waiting.state is not State.WAITING else waiting

    return settled


def carried_over(
    made: DeviceList,
    before: DeviceList,
    resource: Resource,
    *,
    why_gone: WhyGone,
    stays: Callable[[Device], bool],
    held: Held,
    now: float,
) -> Iterator[Entry[Device]]:
    """Yield the devices that are present, and those of the last list that are not.

    What is to be forgotten is among them, in a state that is not listed: ``decide.py`` drops it.
    A device that disappears is kept as Unhealthy, because a kubelet reports one that is missing
    from the list as healthy (LAW-10); a device that is held is kept even longer. A device that has
    lost a member is kept as Unhealthy, too, unless ``groupNeeds`` is met. ``stays`` returns whether
    a device that is listed under no other name stays as it is.
    """

    for device_id, entry in made.devices.items():
        former = before.devices.get(device_id)
        lost = _lost(resource, former, entry.device.members, now) if former is not None else {}
        yield _completed(entry, lost, resource, why_gone)
    for device_id, former in before.devices.items():
        if device_id in made.devices:
            continue
        # A member that was lost before the others is still lost when these return.
        lost = _lost(resource, former, former.device.members, now)
        if stays(former.device):
            yield _completed(former.after(Event.MADE), lost, resource, why_gone)
            continue
        event, reasons = why_gone.of_device(former.device)
        since = _missing_since(former, now)
        due = _forgotten_at(resource, since)
        entry = former.after(event, *reasons)
        gone_since = inf
        if resource.unhealthy_taint is TaintEffect.NO_EXECUTE and reasons[0].code in _HARDWARE:
            gone_since = min(former.gone_since, now)
        evicted_at = gone_since + EVICTION_SECONDS
        is_long_gone = evicted_at <= now
        next_change = due if is_long_gone else min(due, evicted_at)
        entry = replace(
            entry,
            lost=lost,
            withheld={},
            since=since,
            due=next_change,
            gone_since=gone_since,
            is_long_gone=is_long_gone,
        )
        name = Name(resource.name, device_id, resource.served_by)
        if due <= now and name not in held.by_name:
            entry = entry.after(Event.FORGOTTEN, *reasons)
        yield entry


def _completed(
    entry: Entry[Device], lost: Mapping[Member, float], resource: Resource, why_gone: WhyGone
) -> Entry[Device]:
    """Return a present device, with its missing members."""
    lacking = (*entry.device.missing, *map(why_gone.of_member, lost))
    due = _forgotten_at(resource, min(lost.values(), default=inf))
    if lost or entry.lost or entry.withheld or entry.due != due:
        entry = replace(entry, lost=lost, withheld={}, due=due, gone_since=inf, is_long_gone=False)
    return entry.after(Event.INCOMPLETE, *lacking) if lacking else entry


def _lost(
    resource: Resource, former: Entry[Device], members: Sequence[Member], now: float
) -> dict[Member, float]:
    """Return the former members of a device that are missing, and since when."""
    if resource.group_needs is not None:
        return {}
    late = _missing_since(former, now)
    had = tuple(dict.fromkeys((*former.device.members, *former.lost)))
    lost = {member: former.lost.get(member, late) for member in missing(had, members)}
    return {name: since for name, since in lost.items() if now < _forgotten_at(resource, since)}


def _missing_since(former: Entry[Device], now: float) -> float:
    return former.since if former.state is State.MISSING else now


def _forgotten_at(resource: Resource, since: float) -> float:
    """Return when to forget something that has been missing since then, unless it is held."""
    return since + resource.forget_after_seconds


def missing(before: Sequence[Member], members: Sequence[Member]) -> tuple[Member, ...]:
    """Return the members that were present before and are missing now.

    A node that the kernel has made again with another number is present if it is the same hardware.
    """
    known = {former.identity for former in before}
    made_again = [member for member in members if member.identity not in known]
    lost = list[Member]()
    for former in before:
        if any(member.identity == former.identity for member in members):
            continue
        again = (member for member in made_again if member.hardware.is_same(former.hardware))
        if (successor := next(again, None)) is None:
            lost.append(former)
        else:
            made_again.remove(successor)  # one for one: several members may be equal hardware
    return tuple(lost)


def hidden_by(resource: Resource, device: Device, inventory: Inventory) -> str:
    """Return the glob that hangs, so that it is unknown whether a device is still there; or
    nothing.
    """
    found_by = (
        pattern for pattern in path_globs(resource.match) if glob.matches(pattern, device.path)
    )
    globs = (*found_by, *path_globs(resource.exclude))
    return next((pattern for pattern in globs if pattern in inventory.hanging), "")


class WhyGone:
    """The reasons why listed devices, and members of them, are missing."""

    def __init__(
        self,
        resource: Resource,
        match: Match,
        made: DeviceList,
        others: Mapping[str, DeviceList],
        inventory: Inventory,
    ) -> None:
        """``others``: the lists of all names that result from the template of the resource."""
        self._resource = resource
        self._inventory = inventory
        lists = [others[made.template], made] if made.template else [made]
        self._refused = {
            entry.device.key: entry.reasons[0] for listed in lists for entry in listed.not_offered
        }
        self._resource_of_key = {
            entry.device.key: name
            for name, listed in others.items()
            for entry in listed.entries
            if isinstance(entry.device, Device)
        }
        self._matched = frozenset(member.key for member in match.members)
        # A changed config leads to another ID.
        self._ids = {entry.device.appearances: entry.device.id for entry in made.devices.values()}

    def of_member(self, member: Member) -> Reason:
        """Return why a group has lost a member."""
        if (refused := self._refused.get(member.key)) is not None:
            return replace(refused, text=f"{member.path}: {refused}", subject=member.path)
        return Reason(Code.MEMBER_LOST, f"{member.path} is missing", member.path)

    def of_device(self, device: Device) -> tuple[Event, Reasons]:
        """Return what happened to a device, and why."""
        if (refused := self._refused.get(device.key)) is not None:
            if not device.members:
                refused = replace(refused, text=f"{device.path}: {refused}")
            return Event.REFUSED, (*self._lost_members(device), refused)
        refusals = [
            self.of_member(member) for member in device.members if member.key in self._refused
        ]
        if refusals:
            return Event.REFUSED, tuple(refusals)
        return Event.GONE, (self._gone(device),)

    def _gone(self, device: Device) -> Reason:
        """Return why a device that no rule excludes is missing."""
        if hanging := hidden_by(self._resource, device, self._inventory):
            return Reason(Code.HANGING, f"reading {hanging} timed out")
        new_id = self._ids.get(device.appearances, "")
        found = self._inventory.file(device.path)
        if found is None:
            now = f"; it is {new_id} now" if new_id else ""
            return Reason(Code.GONE, f"{self._not_existing(device)}{now}")
        if found.key != device.keys[0]:
            now = f"; its device is {new_id} now" if new_id else ""
            refused = self._refused.get(found.key)
            why = f"; that is not offered: {refused}" if refused else ""
            return Reason(Code.REPLACED, f"{device.path} is something else now{now}{why}")
        if new_id:
            return Reason(Code.RENAMED, f"{device.path} is now {new_id}")
        if self._inventory.host.awaited(found.identity.syspath or ""):
            why = f"{device.path} is back, but udev has not recorded it yet"
            return Reason(Code.UNREADABLE, why)
        # Another resource of the same template may have it now.
        name = self._resource_of_key.get(device.key, self._resource.name)
        if name != self._resource.name:
            return Reason(Code.RENAMED, f"{device.path} is one of {name} now")
        return Reason(Code.NOT_MATCHED, f"{device.path} is no longer matched")

    def _lost_members(self, device: Device) -> list[Reason]:
        """Return which members a group has lost, if some are still present."""
        if self._matched.isdisjoint(device.keys):
            return []
        return [
            self.of_member(member) for member in device.members if member.key not in self._matched
        ]

    def _not_existing(self, device: Device) -> str:
        paths = [
            member.path for member in device.members if self._inventory.file(member.path) is None
        ]
        if len(paths) < 2:
            return f"{device.path} does not exist"
        return f"{', '.join(paths[:-1])} and {paths[-1]} do not exist"
