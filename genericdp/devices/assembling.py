"""One pass from drafts to offers: who gets a contested id or node, and what stays listed."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.device import Device, Member, NotOffered
from genericdp.devices.making import make
from genericdp.devices.matching import match, path_globs
from genericdp.devices.membership import complete, settled
from genericdp.devices.offers import NOTHING, Offer, advance, within_limit
from genericdp.devices.settling import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from genericdp.devices.holders import Holders
    from genericdp.devices.inventory import Identity, Inventory
    from genericdp.devices.matching import Matches
    from genericdp.devices.membership import Arriving
    from genericdp.model import Resource

Offers = dict[str, Offer]
"""By resource name, in the order of the config."""


Made = dict[str, list[Device | NotOffered]]
"""What was made of the candidates of each resource, by its name."""


def offers_of(
    resources: Sequence[Resource],
    inventory: Inventory,
    node_name: str,
    previous: Mapping[str, Offer],
    *,
    now: float,
    holders: Holders | None,
) -> Offers:
    """Give what each resource offers now, from what the host has and what was offered before.

    ``holders``: what pods hold stays; None: nobody asks.
    """
    matches = match(resources, inventory, node_name)
    made = {
        name: make(
            resource,
            matches.members[name],
            matches.excluded[name],
            inventory,
            node_name,
            before=previous.get(name, NOTHING),
        )
        for name, resource in ((resource.name, resource) for resource in resources)
    }
    return assemble(resources, matches, made, inventory, previous, now=now, holders=holders)


def assemble(
    resources: Sequence[Resource],
    matches: Matches,
    made: Mapping[str, Sequence[Device | NotOffered]],
    inventory: Inventory,
    previous: Mapping[str, Offer],
    *,
    now: float,
    holders: Holders | None = None,
) -> Offers:
    """Give what each resource offers now, from what it offered before.

    ``holders``: what pods hold stays; None: nobody asks.
    """
    refused: dict[str, list[NotOffered]] = {resource.name: [] for resource in resources}
    devices: dict[str, list[Device]] = {}
    for refusal in matches.refused:
        refused[refusal.resource].append(refusal)
    for name, results in made.items():
        devices[name] = [one for one in results if isinstance(one, Device)]
        refused[name] += (one for one in results if isinstance(one, NotOffered))
    arriving = _arriving(resources, devices, refused, previous, now=now)
    holding = {
        resource.name: tuple(
            _holding(resource, matches, devices[resource.name], inventory, previous)
        )
        for resource in resources
    }
    winners, losers = settle(devices, holding, previous)
    for refusal in losers:
        refused[refusal.resource].append(refusal)
    return {
        resource.name: _offer(
            resource,
            winners[resource.name],
            tuple(refused[resource.name]),
            previous.get(resource.name, NOTHING),
            inventory,
            arriving=arriving.get(resource.name, {}),
            matches=matches,
            holders=holders,
            now=now,
        )
        for resource in resources
    }


def _arriving(
    resources: Iterable[Resource],
    devices: dict[str, list[Device]],
    refused: Mapping[str, list[NotOffered]],
    previous: Mapping[str, Offer],
    *,
    now: float,
) -> dict[str, dict[str, Arriving]]:
    """Take out the groups that have just appeared; what is there at the first look is complete."""
    arriving = {}
    for resource in resources:
        name, before = resource.name, previous.get(resource.name)
        if resource.group_by is None:
            continue
        if before is None:
            arriving[name] = {one.key: complete(one, now=now) for one in devices[name]}
            continue
        on_offer = frozenset(
            one.device.key for one in before.offered.values() if one.gone_since is None
        )
        devices[name], waiting, arriving[name] = settled(
            name, devices[name], on_offer, before.arriving, now=now
        )
        refused[name] += waiting
    return arriving


def _holding(
    resource: Resource,
    matches: Matches,
    devices: Iterable[Device],
    inventory: Inventory,
    previous: Mapping[str, Offer],
) -> Iterator[Device]:
    """Give the devices on offer that cannot be had just now and keep what is theirs.

    Their hardware and match are still there, or a folder that does not answer hides both.
    """
    before = previous.get(resource.name, NOTHING).offered
    here = {device.key for device in devices}
    gone = [one.device for one in before.values() if one.device.key not in here]
    if not gone:
        return
    matched = {candidate.key for candidate in matches.members[resource.name]}
    matched |= matches.withheld.get(resource.name, frozenset())
    for device in gone:
        if not matched.isdisjoint(device.keys) or _hidden_by(resource, device, inventory):
            yield device


def _hidden_by(resource: Resource, device: Device, inventory: Inventory) -> str:
    """Give the glob that hangs and so hides whether the device is still there."""
    if not inventory.hanging:
        return ""
    found_by = (one for one in path_globs(resource.match) if glob.matches(one, device.path))
    excluding = path_globs(resource.exclude)
    return next((one for one in (*found_by, *excluding) if one in inventory.hanging), "")


def _offer(
    resource: Resource,
    devices: Sequence[Device],
    refused: tuple[NotOffered, ...],
    before: Offer,
    inventory: Inventory,
    *,
    arriving: Mapping[str, Arriving],
    matches: Matches,
    holders: Holders | None,
    now: float,
) -> Offer:
    why_lost = _why_lost(refused)
    lacking = _lacking(resource, matches, why_lost)
    offered = advance(
        before.offered,
        devices,
        why_gone=_why_gone(resource, refused, inventory, lacking, devices),
        why_lost=why_lost,
        now=now,
        forget_after_seconds=resource.forget_after_seconds,
        let_go=None if holders is None else partial(holders.have_let_go, resource.name),
        whole_groups=resource.group_needs is None,
    )
    kept, left_out = within_limit(resource.name, offered, before.offered)
    if arriving:
        won = {one.key for one in devices}
        arriving = {key: one for key, one in arriving.items() if key not in won}
    offer = Offer(offered=kept, not_offered=(*refused, *left_out), arriving=arriving)
    # The very same object where it is equal: who compares it with the last one is soon done.
    return before if offer == before and list(kept) == list(before.offered) else offer


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


def _lacking(
    resource: Resource, matches: Matches, why_lost: Callable[[Member], str]
) -> Callable[[Device], str]:
    """Have it said which members a group has lost, if some are still there."""

    @cache  # mostly nothing is gone, and nobody asks
    def matched() -> frozenset[str]:
        return frozenset(candidate.key for candidate in matches.members[resource.name])

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


def shared_ids(offers: Mapping[str, Offer]) -> frozenset[str]:
    """Give the ids that several resources use: kubelets up to 1.36 mix them up (LAW-4)."""
    seen: set[str] = set()
    repeated: set[str] = set()
    for offer in offers.values():
        repeated |= seen & offer.offered.keys()
        seen |= offer.offered.keys()
    return frozenset(repeated)
