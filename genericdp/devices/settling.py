"""Who gets a contested id or node: the device on offer, else the first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.devices.device import NotOffered
from genericdp.natural import natural_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from genericdp.devices.device import Device
    from genericdp.devices.offers import Offer
    from genericdp.model import Resource

Owned = tuple["Resource", "Device"]


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


def settle(
    devices: Sequence[Owned], holding: Iterable[Owned], previous: Mapping[str, Offer]
) -> tuple[dict[str, list[Device]], list[NotOffered]]:
    """Give what each resource wins, and who loses against whom.

    ``holding`` are devices on offer that cannot be had just now: nobody gets what is theirs.
    """
    claims = _Claims()
    for resource, device in holding:
        claims.enter(resource, device)
    winners: dict[str, list[Device]] = {}
    losers: list[NotOffered] = []
    for resource, device in _by_right(devices, previous):
        if reason := claims.refusal(resource, device):
            losers.append(
                NotOffered(resource=resource.name, path=device.path, key=device.key, reason=reason)
            )
        else:
            claims.enter(resource, device)
            winners.setdefault(resource.name, []).append(device)
    return winners, losers


def _by_right(devices: Sequence[Owned], previous: Mapping[str, Offer]) -> list[Owned]:
    """Sort: what is on offer under its id, what is under another id, newcomers by syspath."""
    on_offer = {
        name: {
            one.device.key: device_id
            for device_id, one in offer.offered.items()
            if one.gone_since is None
        }
        for name, offer in previous.items()
    }

    def standing(resource: Resource, device: Device) -> int:
        before = on_offer.get(resource.name, {}).get(device.key)
        return 2 if before is None else int(before != device.id)

    def place(owned: Owned) -> tuple[object, ...]:
        device = owned[1]
        return natural_key(device.identity.syspath or device.path)

    ranks: tuple[list[Owned], ...] = ([], [], [])
    for owned in devices:
        ranks[standing(*owned)].append(owned)
    same_id, other_id, newcomers = ranks
    return [*same_id, *other_id, *sorted(newcomers, key=place)]
