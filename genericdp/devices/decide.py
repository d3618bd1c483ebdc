"""The decision: the device list of each resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.device import MOST_REASON, Device, Member, NotOffered, Report
from genericdp.devices.devicelist import (
    NOTHING,
    DeviceList,
    advance,
    next_change,
    ranked,
    resolve_conflicts,
    settled,
    with_health,
    within_limit,
)
from genericdp.devices.injection import group, make
from genericdp.devices.inventory import Inventory
from genericdp.devices.matching import Owners, match, of_file, path_globs
from genericdp.printing import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.devices.devicelist import AllocatedDevices, Arriving, Ranked
    from genericdp.devices.matching import Match
    from genericdp.devices.sysdevice import Host
    from genericdp.model import Resource

DeviceLists = dict[str, DeviceList]
"""By resource name, in the order of the config."""
Reports = Mapping[str, Mapping[str, Report]]
"""What probes say, by resource and ID."""

EVERYTHING = "(all)"
"""Stands for the path of whatever a resource might offer."""


@dataclass(slots=True, kw_only=True)
class _Made:
    """The devices of one resource, before it is known what others want."""

    match: Match
    devices: Sequence[Device]
    refused: list[NotOffered]
    arriving: Mapping[str, Arriving] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The device list of each resource, and when one may change by itself."""

    lists: DeviceLists
    due: float | None = None
    """When time alone changes a list, on the monotonic clock, in seconds."""
    failures: Mapping[str, Exception] = field(default_factory=dict)
    """By resource, why it could not be decided: it keeps what it had."""


def decide(
    resources: Sequence[Resource],
    host: Host,
    *,
    node_name: str,
    previous: Mapping[str, DeviceList],
    now: float,
    health: Reports | None = None,
    allocated: AllocatedDevices | None = None,
) -> Decision:
    """Return the device lists, by what host and probes say and what was listed before.

    The same answers give the same decision. ``now`` is on the monotonic clock, in seconds.
    ``health``: what probes say of each device; None: nobody probes. ``allocated``: what pods hold
    stays; None: nobody asks.
    """
    inventory = Inventory(host, node_name)
    while True:
        made = _make_all(resources, inventory, previous)
        lists = _assemble(resources, made, inventory, previous, now=now, allocated=allocated)
        if all(made[name] is None for name in inventory.failures):
            break
        # Decided by what a resource took that has failed since: again, without that.
    dues = [
        next_change(lists[one.name], one.forget_after_seconds, now=now)
        for one in resources
        if one.name not in inventory.failures
    ]
    if _gives_up_devices(previous, lists):
        dues.append(now)  # somebody may get what they had
    for name, one in lists.items():
        before = previous.get(name, NOTHING)
        reports = None if health is None else health.get(name, {})
        known = inventory.attempt(name, partial(with_health, one, before, reports, now=now))
        lists[name] = known or _as_it_was(name, before, inventory.failures[name])
    due = min((moment for moment in dues if moment is not None), default=None)
    return Decision(lists=lists, due=due, failures=inventory.failures)


def _gives_up_devices(previous: Mapping[str, DeviceList], lists: DeviceLists) -> bool:
    """Return whether a device has left a list while something is not offered."""
    return any(one.not_offered for one in lists.values()) and any(
        previous[name].devices.keys() - one.devices.keys()
        for name, one in lists.items()
        if name in previous
    )


def _make_all(
    resources: Sequence[Resource], inventory: Inventory, previous: Mapping[str, DeviceList]
) -> dict[str, _Made | None]:
    """Make the devices of each resource; None where that fails.

    Such a resource keeps what it had. Of what had never been decided nobody knows what it would
    take: later resources get nothing that it might.
    """
    owners = Owners()
    made: dict[str, _Made | None] = {}
    for resource in resources:
        name, before = resource.name, previous.get(resource.name, NOTHING)
        work = partial(_make, resource, owners, inventory)
        made[name] = one = None if name in inventory.failures else inventory.attempt(name, work)
        if one is not None:
            owners.enter(name, one.match.claimed)
            continue
        owners.enter(name, (key for device in before.kept for key in device.keys))
        owners.enter(name, before.owned or ())
        if before.owned is None:
            owners.reserve(resource)
    return made


def _make(resource: Resource, owners: Owners, inventory: Inventory) -> _Made:
    found = match(resource, owners, inventory)
    groups, refused = group(resource, found.members, inventory)
    devices, not_made = [], []
    for one in make(resource, groups, found.excluded, inventory):
        if isinstance(one, NotOffered):
            not_made.append(one)
        elif reason := _why_reserved(one, owners, inventory):
            not_made.append(
                NotOffered(resource=resource.name, path=one.path, key=one.key, reason=reason)
            )
        else:
            devices.append(one)
    return _Made(match=found, devices=devices, refused=[*found.refused, *not_made, *refused])


def _why_reserved(device: Device, owners: Owners, inventory: Inventory) -> str:
    """Return which node of a device an undecided resource might take; empty: none."""
    if not owners.undecided:
        return ""
    for node in device.nodes:
        file = inventory.file(node.host_path) if node.exclusive else None
        if file is not None and (why := owners.why_reserved(of_file(file, inventory))):
            return f"its node {node.host_path} {why}"
    return ""


def _assemble(
    resources: Sequence[Resource],
    made: Mapping[str, _Made | None],
    inventory: Inventory,
    previous: Mapping[str, DeviceList],
    *,
    now: float,
    allocated: AllocatedDevices | None,
) -> DeviceLists:
    """Resolve conflicts, and return the lists that follow those of before."""
    absent: dict[str, Sequence[Device]] = {}
    wanting: dict[str, Sequence[Ranked]] = {}
    for resource in resources:
        name, before = resource.name, previous.get(resource.name)
        one = made[name]
        if one is None:
            absent[name] = (before or NOTHING).kept
            continue
        inventory.attempt(name, partial(_let_arrive, resource, one, before, now=now))
        held = partial(_absent, resource, one, inventory, before or NOTHING)
        absent[name] = inventory.attempt(name, held) or ()
        by_right = partial(ranked, one.devices, before or NOTHING)
        wanting[name] = inventory.attempt(name, by_right) or ()
    winners, losers = resolve_conflicts(wanting, absent)
    for refusal in losers:
        if (one := made[refusal.resource]) is not None:
            one.refused.append(refusal)
    lists = {}
    for resource in resources:
        name, before = resource.name, previous.get(resource.name, NOTHING)
        one, new = made[name], None
        if one is not None:
            work = partial(
                _list, resource, one, winners[name], before, inventory, allocated=allocated, now=now
            )
            new = inventory.attempt(name, work)
        lists[name] = new or _as_it_was(name, before, inventory.failures.get(name))
    return lists


def _as_it_was(name: str, before: DeviceList, error: Exception | None) -> DeviceList:
    """Return what a resource keeps that cannot be decided, with the reason."""
    what = "there is not enough memory" if isinstance(error, MemoryError) else repr(error)
    failed = shortened(f"it cannot be decided what is offered: {what}", MOST_REASON)
    if before.failed == failed:
        return before
    others = (one for one in before.not_offered if one.path != EVERYTHING)
    reason = f"{failed}; what was offered stays as it was"
    everything = NotOffered(resource=name, path=EVERYTHING, key="", reason=reason)
    return replace(before, failed=failed, not_offered=(everything, *others))


def _let_arrive(resource: Resource, one: _Made, before: DeviceList | None, *, now: float) -> None:
    """Take out the groups that have just appeared; what is there at the first look is complete."""
    if resource.group_by is None:
        return
    here = [it.device for it in (before or NOTHING).devices.values() if it.gone_since is None]
    if before is None or (before.failed and before.owned is None):
        here = list(one.devices)
    one.devices, waiting, one.arriving = settled(
        resource.name,
        one.devices,
        frozenset(device.key for device in here),
        (before or NOTHING).arriving,
        now=now,
    )
    one.refused += waiting


def _absent(
    resource: Resource, one: _Made, inventory: Inventory, before: DeviceList
) -> tuple[Device, ...]:
    """Return the listed devices that cannot be had just now and keep what is theirs.

    Their hardware and match are still there, or a folder that does not answer hides both. The
    node of a group's member may be that of other hardware by now.
    """
    here = {device.key for device in one.devices}
    matched = {(it.key, it.file.identity.syspath) for it in one.match.members}
    return tuple(
        device
        for device in (it.device for it in before.devices.values())
        if device.key not in here
        and (
            any((it.key, it.identity.syspath) in matched for it in device.members or (device,))
            or not one.match.withheld.isdisjoint(device.keys)
            or _hidden_by(resource, device, inventory)
        )
    )


def _hidden_by(resource: Resource, device: Device, inventory: Inventory) -> str:
    """Return the glob that hangs and so hides whether the device is still there."""
    found_by = (one for one in path_globs(resource.match) if glob.matches(one, device.path))
    globs = (*found_by, *path_globs(resource.exclude))
    return next((one for one in globs if one in inventory.hanging), "")


def _list(
    resource: Resource,
    one: _Made,
    devices: Sequence[Device],
    before: DeviceList,
    inventory: Inventory,
    *,
    allocated: AllocatedDevices | None,
    now: float,
) -> DeviceList:
    reasons = _Reasons(resource, one, devices, inventory)
    listed = advance(
        before.devices,
        devices,
        why_gone=reasons.of_device,
        why_lost=reasons.of_member,
        now=now,
        forget_after_seconds=resource.forget_after_seconds,
        let_go=None if allocated is None else partial(allocated.have_let_go, resource.name),
        whole_groups=resource.group_needs is None,
    )
    kept, left_out = within_limit(resource.name, listed, before.devices)
    won = {device.key for device in devices}
    return DeviceList(
        devices=kept,
        not_offered=(*one.refused, *left_out),
        arriving={key: it for key, it in one.arriving.items() if key not in won},
        owned=one.match.claimed,
    )


class _Reasons:
    """Why devices of a list, and members of them, are not there any more."""

    def __init__(
        self, resource: Resource, one: _Made, devices: Sequence[Device], inventory: Inventory
    ) -> None:
        self._resource = resource
        self._inventory = inventory
        self._refused = {it.key: it.reason for it in one.refused}
        self._matched = frozenset(it.key for it in one.match.members)
        # Another link, or another config, gives another ID.
        self._ids = {(it.keys, it.identity): it.id for it in devices}

    def of_member(self, member: Member) -> str:
        """Return why a group has lost a member."""
        reason = self._refused.get(member.key)
        return f"{member.path}: {reason}" if reason else f"{member.path} is missing"

    def of_device(self, device: Device) -> str:
        """Return why a device is gone."""
        if reason := self._refused.get(device.key):
            about = "" if device.members else f"{device.path}: "
            return f"{self._lost_members(device)}{about}{reason}"
        refused = [self.of_member(one) for one in device.members if one.key in self._refused]
        if refused:
            return "; ".join(refused)
        if hanging := _hidden_by(self._resource, device, self._inventory):
            return f"looking at {hanging} does not end"
        new_id = self._ids.get((device.keys, device.identity), "")
        found = self._inventory.file(device.path)
        if found is None:
            now = f"; it is {new_id} now" if new_id else ""
            return f"{self._not_existing(device)}{now}"
        if found.key != device.keys[0]:
            now = f"; its device is {new_id} now" if new_id else ""
            reason = self._refused.get(found.key, "")
            why = f"; that is not offered: {reason}" if reason else ""
            return f"{device.path} is something else now{now}{why}"
        if new_id:
            return f"{device.path} is now {new_id}"
        if self._inventory.host.awaited(found.identity.syspath or ""):
            return f"{device.path} is back, but udev has not recorded it yet"
        return f"{device.path} is no longer matched"

    def _lost_members(self, device: Device) -> str:
        """Return which members a group has lost, if some are still there."""
        if self._matched.isdisjoint(device.keys):
            return ""
        gone = (one for one in device.members if one.key not in self._matched)
        return "".join(f"{self.of_member(one)}; " for one in gone)

    def _not_existing(self, device: Device) -> str:
        paths = [one.path for one in device.members if self._inventory.file(one.path) is None]
        if len(paths) < 2:
            return f"{device.path} does not exist"
        return f"{', '.join(paths[:-1])} and {paths[-1]} do not exist"
