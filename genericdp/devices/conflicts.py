"""Conflicts: which device gets an ID or a node that several want (D8).

Which resource gets a candidate that several match is decided before: ``Owners`` in ``matching``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from genericdp.devices.devicelist import is_pending
from genericdp.devices.inventory import natural_key
from genericdp.devices.transitions import Event, State
from genericdp.reasons import Code, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from genericdp.devices.device import Device, DeviceNode
    from genericdp.devices.devicelist import DeviceList, Entry, Subject

_Right = tuple[int, tuple[tuple[str | int, ...], str]]
_KEEPS_ID = 3
"""Rank of a device whose ID has changed, or of one that has been held since before the start."""
_NEWCOMER = 4
"""Rank of a device that has no right yet to the things that it wants."""


def arbitrated(
    lists: Mapping[str, DeviceList],
    absent: Mapping[str, Iterable[Device]],
    former: Mapping[str, Callable[[Device], Sequence[Entry[Device]]]],
) -> dict[str, DeviceList]:
    """Return lists of the devices that were just made, in which no two want the same thing.

    ``absent`` are listed devices that are unavailable now: no other device gets their IDs and
    nodes. ``former`` returns the entry of a device in the last list. All are by resource.
    """
    taken = _Taken()
    for resource, devices in absent.items():
        for device in devices:
            taken.take(resource, device)
    pending = [
        (_right(entry.device, former[resource]), resource, entry)
        for resource, made in lists.items()
        for entry in filter(is_pending, made.entries)
    ]
    decided: dict[str, list[Entry[Subject]]] = {
        resource: [entry for entry in made.entries if not is_pending(entry)]
        for resource, made in lists.items()
    }
    for _, resource, entry in sorted(pending, key=lambda ranked: ranked[0]):
        if (reason := taken.refusal(resource, entry.device)) is None:
            taken.take(resource, entry.device)
            decided[resource].append(entry.after(Event.MADE))
        else:
            decided[resource].append(entry.after(Event.REFUSED, reason))
    return {
        resource: replace(made, entries=tuple(decided[resource]))
        for resource, made in lists.items()
    }


def _right(device: Device, former: Callable[[Device], Sequence[Entry[Device]]]) -> _Right:
    """Return the right of a device to the things that it wants: the lowest value comes first.

    The order: listed devices that want nothing new, devices that come back unchanged, those that
    want a new node, those with a new ID, then new devices by syspath. A container may have a listed
    device, so none of its nodes goes to another device that now wants it.
    """
    # It may be listed twice: as it is, and as Unhealthy under a former ID.
    rank = min((_rank(device, before) for before in former(device)), default=_NEWCOMER)
    if rank == _NEWCOMER and device.renamed_to:
        rank = _KEEPS_ID
    syspath = device.identity.syspath or device.path
    return rank, natural_key(syspath) if rank == _NEWCOMER else ((), "")


def _rank(device: Device, before: Entry[Device]) -> int:
    """Return the rank of a device; ``before`` is its entry in the last list."""
    had = {node.key for node in before.device.nodes} | {member.key for member in before.lost}
    more = any(node.exclusive and node.key not in had for node in device.nodes)
    if before.state is State.MISSING:
        return _NEWCOMER if more or before.device.id != device.id else 1
    if before.device.id != device.id:
        return _KEEPS_ID
    return 2 if more else 0


@dataclass(slots=True)
class _Taken:
    """The owners of the IDs of a resource, and of nodes of the host."""

    ids: dict[tuple[str, str], Device] = field(default_factory=dict)
    shared_ids: dict[str, tuple[str, Device]] = field(default_factory=dict)
    """Devices of resources with ``exclusive: false``, by ID, which no two of them share."""
    nodes: dict[str, list[tuple[str, Device]]] = field(default_factory=dict)

    def refusal(self, resource: str, device: Device) -> Reason | None:
        if (other := self.ids.get((resource, device.id))) is not None:
            return Reason(
                Code.ID_TAKEN,
                f"its id {device.id!r} is that of {other.path}"
                " (add something to id that tells them apart)",
            )
        name, twin = self.shared_ids.get(device.id, (resource, device))
        if name != resource and not device.exclusive:
            return Reason(
                Code.ID_TAKEN,
                f"its id {device.id!r} is that of {twin.path} of {name} (of resources with"
                " exclusive: false, each needs an id of its own form)",
            )
        for node in device.nodes if self.nodes else ():
            for name, owner in self.nodes.get(node.key, ()) if node.exclusive else ():
                if name == resource or owner.exclusive or device.exclusive:
                    why = _why_not_its_node(resource, node, name, owner)
                    return Reason(Code.NODE_TAKEN, why, node.host_path)
        return None

    def take(self, resource: str, device: Device) -> None:
        self.ids[resource, device.id] = device
        if not device.exclusive:
            self.shared_ids[device.id] = (resource, device)
        for node in device.nodes:
            if node.exclusive:
                self.nodes.setdefault(node.key, []).append((resource, device))


def _why_not_its_node(resource: str, node: DeviceNode, name: str, owner: Device) -> str:
    # Another device needs it exclusively: sharing it would give both devices to each container.
    hint = "exclude one of the two, or give each its own nodes"
    if name == resource:
        hint = "exclude one of the two, or make one device of them with groupBy"
    return f"its node {node.host_path} belongs to device {owner.id} of {name} ({hint})"
