"""Conflicts: who gets an ID or node that two devices want: the listed device, else the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.devices.natural import natural_key

if TYPE_CHECKING:
    from genericdp.devices.device import Device, NotOffered
    from genericdp.devices.devicelist import DeviceList, ListedDevice

Devices = Mapping[str, Sequence["Device"]]
"""By the name of their resource."""

_NEWCOMER = 4


@dataclass(slots=True)
class _Claims:
    """Who has which ID of a resource, and which node of the host."""

    ids: dict[tuple[str, str], Device] = field(default_factory=dict)
    nodes: dict[str, tuple[str, str]] = field(default_factory=dict)

    def refusal(self, resource: str, device: Device) -> str:
        if (other := self.ids.get((resource, device.id))) is not None:
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

    def enter(self, resource: str, device: Device) -> None:
        self.ids[resource, device.id] = device
        for node in device.nodes:
            if node.exclusive:
                self.nodes[node.key] = (resource, device.id)


def resolve_conflicts(
    devices: Devices, absent: Devices, previous: Mapping[str, DeviceList]
) -> tuple[Devices, list[NotOffered]]:
    """Return what each resource wins, and who loses against whom.

    ``absent`` are listed devices that cannot be had just now: nobody gets what is theirs.
    """
    claims = _Claims()
    for resource, held in absent.items():
        for device in held:
            claims.enter(resource, device)
    winners: dict[str, list[Device]] = {resource: [] for resource in devices}
    losers: list[NotOffered] = []
    for resource, device in _by_right(devices, previous):
        if reason := claims.refusal(resource, device):
            losers.append(device.refused(resource, reason))
        else:
            claims.enter(resource, device)
            winners[resource].append(device)
    return winners, losers


def _by_right(devices: Devices, previous: Mapping[str, DeviceList]) -> list[tuple[str, Device]]:
    """Sort: what is listed and takes nothing more than it had, what comes back as it was, what
    takes another node, what is under another ID, newcomers by syspath.

    A container may have what is listed: no node of it goes to another device that comes to want
    it.
    """
    ranked = []
    for resource, several in devices.items():
        # A device may be listed twice: as what it is, and as Unhealthy under an ID that it had.
        listed: dict[str, list[ListedDevice]] = {}
        for one in previous[resource].devices.values() if resource in previous else ():
            listed.setdefault(one.device.key, []).append(one)
        for device in several:
            ranks = (_rank(device, one) for one in listed.get(device.key, ()))
            rank = min(ranks, default=_NEWCOMER)
            syspath = device.identity.syspath or device.path
            place = natural_key(syspath) if rank == _NEWCOMER else ((), "")
            ranked.append(((rank, place), resource, device))
    ranked.sort(key=lambda one: one[0])
    return [(resource, device) for _, resource, device in ranked]


def _rank(device: Device, before: ListedDevice) -> int:
    """Return which comes first; ``before``: as what it is in the list."""
    had = {node.key for node in before.device.nodes} | {lost.member.key for lost in before.lost}
    more = any(node.exclusive and node.key not in had for node in device.nodes)
    if before.gone_since is not None:
        return _NEWCOMER if more or before.device.id != device.id else 1
    if before.device.id != device.id:
        return 3
    return 2 if more else 0
