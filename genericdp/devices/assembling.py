"""One pass from drafts to offers: who gets a contested id or node, and what stays listed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from genericdp.devices.device import Device, NotOffered
from genericdp.devices.injecting import Draft, complete
from genericdp.devices.offers import NOTHING, Offer, Offered, advance, within_limit
from genericdp.natural import natural_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from genericdp.devices.inventory import Inventory
    from genericdp.devices.matching import Matches
    from genericdp.model import Resource

Offers = dict[str, Offer]
"""By resource name, in the order of the config."""


def assemble(
    resources: Sequence[Resource],
    matches: Matches,
    drafts: Iterable[Draft | NotOffered],
    inventory: Inventory,
    previous: Mapping[str, Offer],
    *,
    now: float,
) -> Offers:
    """Give what each resource offers now, from what it offered before."""
    refused = list(matches.refused)
    complete_devices: list[tuple[Resource, Device]] = []
    for made in drafts:
        device: Device | NotOffered
        if isinstance(made, NotOffered):
            device = made
        else:
            excluded = matches.excluded[made.resource.name]
            device = complete(made, inventory, excluded=excluded)
        if isinstance(device, NotOffered):
            refused.append(device)
        elif isinstance(made, Draft):
            complete_devices.append((made.resource, device))
    winners, losers = _settle(complete_devices, previous)
    refused += losers
    by_resource: dict[str, list[NotOffered]] = {resource.name: [] for resource in resources}
    for one in refused:
        by_resource[one.resource].append(one)
    offers: Offers = {}
    for resource in resources:
        before = previous.get(resource.name, NOTHING).offered
        own_refusals = tuple(by_resource[resource.name])
        offers[resource.name] = _offer(
            resource,
            winners.get(resource.name, []),
            own_refusals,
            before,
            why_gone=_why_gone(resource, own_refusals, inventory),
            now=now,
        )
    return offers


def _offer(
    resource: Resource,
    devices: Iterable[Device],
    refused: tuple[NotOffered, ...],
    before: Mapping[str, Offered],
    *,
    why_gone: Callable[[Device], str],
    now: float,
) -> Offer:
    offered = advance(
        before,
        devices,
        why_gone=why_gone,
        now=now,
        forget_after_seconds=resource.forget_after_seconds,
    )
    kept, left_out = within_limit(resource.name, offered, before)
    return Offer(offered=kept, not_offered=(*refused, *left_out))


def _why_gone(
    resource: Resource, refused: tuple[NotOffered, ...], inventory: Inventory
) -> Callable[[Device], str]:
    reasons = {one.key: one.reason for one in refused}
    globs = [pattern for entry in resource.match for pattern in _globs(entry.candidates)]
    hanging = [pattern for pattern in globs if pattern in inventory.hanging]
    present = {file.key for pattern in globs for file in inventory.found(pattern)}

    def reason(device: Device) -> str:
        if device.key in reasons:
            return f"{device.path}: {reasons[device.key]}"
        if hanging:
            return f"looking at {hanging[0]} does not end"
        if device.key in present:
            return f"{device.path} is no longer matched as this device"
        return f"{device.path} does not exist"

    return reason


def _globs(candidates: object) -> tuple[str, ...]:
    return getattr(candidates, "globs", ())


@dataclass(slots=True)
class _Claims:
    """Who has which id of a resource, and which node of the host."""

    ids: dict[tuple[str, str], Device] = field(default_factory=dict)
    nodes: dict[str, tuple[str, str]] = field(default_factory=dict)

    def refusal(self, resource: Resource, device: Device) -> str:
        if (other := self.ids.get((resource.name, device.id))) is not None:
            return (
                f"its id {device.id!r} is that of {other.path}"
                " (add something to id that tells them apart)"
            )
        for node in device.nodes:
            if node.exclusive and (owner := self.nodes.get(node.key)) is not None:
                return (
                    f"its node {node.host_path} belongs to device {owner[1]} of {owner[0]}"
                    " (say shared: true if several devices may have it)"
                )
        return ""

    def enter(self, resource: Resource, device: Device) -> None:
        self.ids[resource.name, device.id] = device
        for node in device.nodes:
            if node.exclusive:
                self.nodes[node.key] = (resource.name, device.id)


def _settle(
    devices: Sequence[tuple[Resource, Device]], previous: Mapping[str, Offer]
) -> tuple[dict[str, list[Device]], list[NotOffered]]:
    """Give each id and each exclusive node to one device: to the one on offer, else the first."""

    def newcomer(entry: tuple[Resource, Device]) -> bool:
        resource, device = entry
        before = previous.get(resource.name, NOTHING).offered.get(device.id)
        return before is None or before.device.key != device.key or before.gone_since is not None

    in_order = sorted(devices, key=lambda entry: natural_key(entry[1].path))
    claims = _Claims()
    winners: dict[str, list[Device]] = {}
    losers: list[NotOffered] = []
    for resource, device in sorted(in_order, key=newcomer):
        if reason := claims.refusal(resource, device):
            losers.append(
                NotOffered(resource=resource.name, path=device.path, key=device.key, reason=reason)
            )
        else:
            claims.enter(resource, device)
            winners.setdefault(resource.name, []).append(device)
    return winners, losers


def shared_ids(offers: Mapping[str, Offer]) -> frozenset[str]:
    """Give the ids that several resources use: kubelets up to 1.36 mix them up (LAW-4)."""
    seen: set[str] = set()
    repeated: set[str] = set()
    for offer in offers.values():
        repeated |= seen & offer.offered.keys()
        seen |= offer.offered.keys()
    return frozenset(repeated)


def without_times(offer: Offer) -> Offer:
    """Give the offer as the kubelet sees it: since when a device is gone does not matter."""
    offered = {
        device_id: replace(one, gone_since=None) if one.gone_since is not None else one
        for device_id, one in offer.offered.items()
    }
    return replace(offer, offered=offered)
