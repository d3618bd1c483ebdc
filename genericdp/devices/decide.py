"""The decision: what each resource offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.candidates import of_file
from genericdp.devices.checks import Report
from genericdp.devices.conflicts import resolve_conflicts
from genericdp.devices.device import MOST_REASON, Device, Member, NotOffered
from genericdp.devices.devicelist import (
    NOTHING,
    DeviceList,
    advance,
    next_change,
    with_health,
    within_limit,
)
from genericdp.devices.grouping import group
from genericdp.devices.injecting import make
from genericdp.devices.inventory import Inventory
from genericdp.devices.matching import Owners, match_one, path_globs
from genericdp.devices.membership import complete, settled
from genericdp.printing import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from genericdp.devices.holders import AllocatedDevices
    from genericdp.devices.inventory import Identity
    from genericdp.devices.matching import Match
    from genericdp.devices.membership import Arriving
    from genericdp.devices.sysdevice import Host
    from genericdp.model import Resource

DeviceLists = dict[str, DeviceList]
"""By resource name, in the order of the config."""
Reports = Mapping[str, Mapping[str, Report]]
"""What probes say, by resource and ID."""

EVERYTHING = "(all)"
"""Stands for the path of whatever a resource might offer."""
_STAYS = "what was offered stays as it was"


@dataclass(slots=True, kw_only=True)
class Decided:
    """What is decided about one resource before it is known what others want."""

    match: Match
    devices: Sequence[Device]
    refused: list[NotOffered]
    arriving: Mapping[str, Arriving] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What each resource offers, and when that may change by itself."""

    lists: DeviceLists
    due: float | None = None
    """When time alone changes an offer, on the monotonic clock, in seconds."""
    empty_globs: tuple[tuple[str, str], ...] = ()
    """Resource and glob of each selector that found nothing."""
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
    holders: AllocatedDevices | None = None,
) -> Decision:
    """Return what each resource offers, by what host and probes say and what was offered before.

    The same answers give the same decision. ``now`` is on the monotonic clock, in seconds.
    ``health``: what probes say of each device; None: nobody probes. ``holders``: what pods hold
    stays; None: nobody asks.
    """
    inventory = Inventory(host)
    offers = None
    while offers is None:
        found = _decided(resources, inventory, node_name, previous)
        offers = assemble(resources, found, inventory, previous, now=now, holders=holders)
        if any(found[name] is not None for name in inventory.failures):
            offers = None  # decided by what a resource took that has failed since: without that
    decided = [one for one in resources if one.name not in inventory.failures]
    dues = [next_change(offers[one.name], one.forget_after_seconds, now=now) for one in decided]
    if _gives_up_devices(previous, offers):
        dues.append(now)  # somebody may get what they had
    return Decision(
        lists={
            name: with_health(
                offer,
                previous.get(name, NOTHING),
                None if health is None else health.get(name, {}),
                now=now,
            )
            for name, offer in offers.items()
        },
        due=min((moment for moment in dues if moment is not None), default=None),
        empty_globs=tuple(
            (resource.name, pattern)
            for resource in decided
            for pattern in sorted({*path_globs((*resource.match, *resource.exclude))})
            if not inventory.found(pattern) and pattern not in inventory.hanging
        ),
        failures=inventory.failures,
    )


def _gives_up_devices(previous: Mapping[str, DeviceList], offers: DeviceLists) -> bool:
    """Return whether a device has left a list while something is not offered."""
    return any(offer.not_offered for offer in offers.values()) and any(
        previous[name].devices.keys() - offer.devices.keys()
        for name, offer in offers.items()
        if name in previous
    )


def _decided(
    resources: Sequence[Resource],
    inventory: Inventory,
    node_name: str,
    previous: Mapping[str, DeviceList],
) -> dict[str, Decided | None]:
    """Decide each resource as far as it does not depend on later ones; None where that fails.

    Such a resource keeps what it had. Of what had never been decided nobody knows what it would
    take: later resources get nothing that it might.
    """
    owners = Owners()
    found: dict[str, Decided | None] = {}
    for resource in resources:
        name, before = resource.name, previous.get(resource.name, NOTHING)
        work = partial(_decide, resource, owners, inventory, node_name)
        found[name] = one = None if name in inventory.failures else inventory.attempt(name, work)
        if one is not None:
            owners.enter(name, one.match.claimed)
            continue
        owners.enter(name, (key for device in before.kept for key in device.keys))
        owners.enter(name, before.owned or ())
        if before.owned is None:
            owners.reserve(resource, inventory, node_name)
    return found


def _decide(resource: Resource, owners: Owners, inventory: Inventory, node_name: str) -> Decided:
    found = match_one(resource, owners, inventory, node_name)
    groups, refused = group(resource, found.members, inventory, node_name)
    made = make(resource, groups, found.excluded, inventory, node_name)
    if owners.have_reserved:
        made = [_unreserved(resource, one, owners, inventory) for one in made]
    return Decided(
        match=found,
        devices=[one for one in made if isinstance(one, Device)],
        refused=[
            *found.refused,
            *(one for one in made if isinstance(one, NotOffered)),
            *refused,
        ],
    )


def _unreserved(
    resource: Resource, made: Device | NotOffered, owners: Owners, inventory: Inventory
) -> Device | NotOffered:
    """Refuse a device that brings along what an undecided resource might take."""
    for node in made.nodes if isinstance(made, Device) else ():
        file = inventory.file(node.host_path)
        known = None if file is None else of_file(file, inventory).device
        if file is not None and node.exclusive and (why := owners.why_reserved(file, known)):
            reason = f"its node {node.host_path} {why}"
            return NotOffered(resource=resource.name, path=made.path, key=made.key, reason=reason)
    return made


def assemble(
    resources: Sequence[Resource],
    found: Mapping[str, Decided | None],
    inventory: Inventory,
    previous: Mapping[str, DeviceList],
    *,
    now: float,
    holders: AllocatedDevices | None = None,
) -> DeviceLists:
    """Give what each resource offers now, from what it offered before.

    ``holders``: what pods hold stays; None: nobody asks.
    """
    holding: dict[str, tuple[Device, ...]] = {}
    for resource in resources:
        name, before = resource.name, previous.get(resource.name)
        one = found[name]
        if one is None:
            holding[name] = (before or NOTHING).kept
            continue
        inventory.attempt(name, partial(_let_arrive, resource, one, before, now=now))
        held = inventory.attempt(
            name, partial(_holding, resource, one, inventory, before or NOTHING)
        )
        holding[name] = held or ()
    devices = {name: () if one is None else one.devices for name, one in found.items()}
    winners, losers = resolve_conflicts(devices, holding, previous)
    for refusal in losers:
        if (one := found[refusal.resource]) is not None:
            one.refused.append(refusal)
    offers = {}
    for resource in resources:
        name, before = resource.name, previous.get(resource.name, NOTHING)
        one, offer = found[name], None
        if one is not None:
            work = partial(
                _offer, resource, one, winners[name], before, inventory, holders=holders, now=now
            )
            offer = inventory.attempt(name, work)
        offers[name] = offer or _as_it_was(name, before, inventory.failures.get(name))
    return offers


def _as_it_was(name: str, before: DeviceList, error: Exception | None) -> DeviceList:
    """Return what a resource keeps that cannot be decided, with the reason."""
    what = "there is not enough memory" if isinstance(error, MemoryError) else repr(error)
    failed = shortened(f"it cannot be decided what is offered: {what}", MOST_REASON)
    if before.failed == failed:
        return before
    known = (one for one in before.not_offered if one.path != EVERYTHING)
    told = NotOffered(resource=name, path=EVERYTHING, key="", reason=f"{failed}; {_STAYS}")
    return replace(before, failed=failed, not_offered=(told, *known))


def _let_arrive(resource: Resource, one: Decided, before: DeviceList | None, *, now: float) -> None:
    """Take out the groups that have just appeared; what is there at the first look is complete."""
    if resource.group_by is None:
        return
    if before is None or (before.failed and before.owned is None):
        one.arriving = {device.key: complete(device, now=now) for device in one.devices}
        return
    on_offer = frozenset(
        listed.device.key for listed in before.devices.values() if listed.gone_since is None
    )
    one.devices, waiting, one.arriving = settled(
        resource.name, one.devices, on_offer, before.arriving, now=now
    )
    one.refused += waiting


def _holding(
    resource: Resource, one: Decided, inventory: Inventory, before: DeviceList
) -> tuple[Device, ...]:
    """Give the devices on offer that cannot be had just now and keep what is theirs.

    Their hardware and match are still there, or a folder that does not answer hides both. The
    node of a group's member may be that of other hardware by now.
    """
    here = {device.key for device in one.devices}
    gone = [it.device for it in before.devices.values() if it.device.key not in here]
    if not gone:
        return ()
    matched = {(it.key, it.file.identity.syspath) for it in one.match.members}
    return tuple(
        device
        for device in gone
        if any((it.key, it.identity.syspath) in matched for it in device.members or (device,))
        or not one.match.withheld.isdisjoint(device.keys)
        or _hidden_by(resource, device, inventory)
    )


def _hidden_by(resource: Resource, device: Device, inventory: Inventory) -> str:
    """Give the glob that hangs and so hides whether the device is still there."""
    if not inventory.hanging:
        return ""
    found_by = (one for one in path_globs(resource.match) if glob.matches(one, device.path))
    excluding = path_globs(resource.exclude)
    return next((one for one in (*found_by, *excluding) if one in inventory.hanging), "")


def _offer(
    resource: Resource,
    one: Decided,
    devices: Sequence[Device],
    before: DeviceList,
    inventory: Inventory,
    *,
    holders: AllocatedDevices | None,
    now: float,
) -> DeviceList:
    refused, arriving = tuple(one.refused), one.arriving
    why_lost = _why_lost(refused)
    lacking = _lacking(one.match, why_lost)
    offered = advance(
        before.devices,
        devices,
        why_gone=_why_gone(resource, refused, inventory, lacking, devices),
        why_lost=why_lost,
        now=now,
        forget_after_seconds=resource.forget_after_seconds,
        let_go=None if holders is None else partial(holders.have_let_go, resource.name),
        whole_groups=resource.group_needs is None,
    )
    kept, left_out = within_limit(resource.name, offered, before.devices)
    if arriving:
        won = {device.key for device in devices}
        arriving = {key: it for key, it in arriving.items() if key not in won}
    return DeviceList(
        devices=kept,
        not_offered=(*refused, *left_out),
        arriving=arriving,
        owned=frozenset(one.match.claimed),
    )


def _not_existing(device: Device, inventory: Inventory) -> str:
    paths = [one.path for one in device.members if inventory.file(one.path) is None]
    if len(paths) < 2:
        return f"{device.path} does not exist"
    return f"{', '.join(paths[:-1])} and {paths[-1]} do not exist"


def _why_not_found(device: Device, inventory: Inventory, new_id: str) -> str:
    found = inventory.file(device.path)
    if found is None:
        now = f"; it is {new_id} now" if new_id else ""
        return f"{_not_existing(device, inventory)}{now}"
    if new_id:
        return f"{device.path} is now {new_id}"
    if found.key != device.keys[0]:
        return f"{device.path} is something else now"
    return f"{device.path} is no longer matched"


def _why_lost(refused: tuple[NotOffered, ...]) -> Callable[[Member], str]:
    """Return what says why a group has lost a member."""

    @cache  # mostly nothing is lost, and nobody asks
    def reasons() -> dict[str, str]:
        return {one.key: one.reason for one in refused}

    def why_lost(member: Member) -> str:
        reason = reasons().get(member.key)
        return f"{member.path}: {reason}" if reason else f"{member.path} is missing"

    return why_lost


def _lacking(match: Match, why_lost: Callable[[Member], str]) -> Callable[[Device], str]:
    """Have it said which members a group has lost, if some are still there."""

    @cache  # mostly nothing is gone, and nobody asks
    def matched() -> frozenset[str]:
        return frozenset(candidate.key for candidate in match.members)

    def lacking(device: Device) -> str:
        if matched().isdisjoint(device.keys):
            return ""
        gone = (one for one in device.members if one.key not in matched())
        return "".join(f"{why_lost(one)}; " for one in gone)

    return lacking


def _why_gone(
    resource: Resource,
    refused: tuple[NotOffered, ...],
    inventory: Inventory,
    lacking: Callable[[Device], str],
    devices: Sequence[Device],
) -> Callable[[Device], str]:
    @cache  # mostly nothing is gone, and nobody asks
    def reasons() -> dict[str, str]:
        return {one.key: one.reason for one in refused}

    @cache
    def ids() -> dict[tuple[tuple[str, ...], Identity], str]:
        """Give who is what now: another link, or another config, gives another id."""
        return {(one.keys, one.identity): one.id for one in devices}

    def reason(device: Device) -> str:
        if device.key in reasons():
            about = "" if device.members else f"{device.path}: "
            return f"{lacking(device)}{about}{reasons()[device.key]}"
        known = [one for one in device.members if one.key in reasons()]
        if known:
            return "; ".join(f"{one.path}: {reasons()[one.key]}" for one in known)
        if hanging := _hidden_by(resource, device, inventory):
            return f"looking at {hanging} does not end"
        return _why_not_found(device, inventory, ids().get((device.keys, device.identity), ""))

    return reason


def shared_ids(offers: Mapping[str, DeviceList]) -> frozenset[str]:
    """Give the ids that several resources use: kubelets up to 1.36 mix them up (LAW-4)."""
    seen: set[str] = set()
    repeated: set[str] = set()
    for offer in offers.values():
        repeated |= seen & offer.devices.keys()
        seen |= offer.devices.keys()
    return frozenset(repeated)
