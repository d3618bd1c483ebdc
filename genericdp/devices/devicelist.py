"""What a resource has on offer, from one pass to the next."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from genericdp.devices.checks import NOT_PROBED
from genericdp.devices.device import Device, Member, NotOffered
from genericdp.devices.membership import Arriving, Lost, still_lost
from genericdp.devices.natural import natural_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from genericdp.devices.checks import Report

LIST_LIMIT_BYTES = 4_194_304
"""What a kubelet takes in one message; one byte more ends the stream (LAW-6)."""
_ENTRY_BYTES = 2 + 2 + 2 + len("Unhealthy")
"""Of one entry without its ID and NUMA nodes: each length takes one byte."""
_MOST_ENTRY_BYTES = _ENTRY_BYTES + 63
_NODE_BYTES = 5
"""Of each NUMA node."""
_MOST_SHORT = 8
"""With more nodes, the lengths of the entry and of its nodes may take two bytes each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedDevice:
    """A device in the list that the kubelet gets, with its state."""

    device: Device
    missing: str = ""
    """Why it is Unhealthy whatever its probes say: it or a part of it is not there."""
    failing: str = ""
    """Why it is not healthy by its probes; empty: it is, or has none."""
    since: float = -inf
    """When it became Healthy or Unhealthy, on the monotonic clock, in seconds."""
    gone_since: float | None = None
    """When it was first not found any more, on the monotonic clock, in seconds."""
    lost: tuple[Lost, ...] = ()
    """The members of its group that it lacks and is Unhealthy for."""

    @property
    def unhealthy(self) -> str:
        """Why it is Unhealthy; empty: Healthy."""
        return self.missing or self.failing


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceList:
    """One resource: its devices by id, in natural order, and what it cannot offer."""

    devices: Mapping[str, ListedDevice]
    not_offered: tuple[NotOffered, ...] = ()
    arriving: Mapping[str, Arriving] = field(default_factory=dict)
    """Groups that are not on offer, by key: other members may join in a moment, or they lost."""
    owned: frozenset[str] | None = field(default=None, compare=False)
    """The keys of the candidates that are its own; None: nothing has been decided yet."""
    failed: str = ""
    """Why nothing could be decided in the last pass: what it had stays. Empty: it was decided."""

    @property
    def without_numa_node(self) -> str:
        """Give a device that has no NUMA node while another has one; empty if there is none.

        With topology on some devices only, a kubelet refuses pods although devices are free
        (LAW-8): then none carries it.
        """
        lacking = [name for name, one in self.devices.items() if not one.device.numa_nodes]
        return lacking[0] if lacking and len(lacking) < len(self.devices) else ""

    def keeps(self, device: Device) -> bool:
        """Tell whether a device on offer is still its own, as far as it is known."""
        if self.devices[device.id].gone_since is None:
            return True
        return self.owned is not None and not self.owned.isdisjoint(device.keys)

    @property
    def kept(self) -> tuple[Device, ...]:
        """The devices that nobody else may get while nothing can be decided."""
        return tuple(one.device for one in self.devices.values() if self.keeps(one.device))


NOTHING = DeviceList(devices={})


def advance(
    previous: Mapping[str, ListedDevice],
    devices: Iterable[Device],
    *,
    why_gone: Callable[[Device], str],
    why_lost: Callable[[Member], str] = lambda member: f"{member.path} is missing",
    now: float,
    forget_after_seconds: float,
    let_go: Callable[[str, float], bool] | None = None,
    whole_groups: bool = False,
) -> dict[str, ListedDevice]:
    """Give the next list: what is here, and what was and has not been gone for too long.

    A device that vanishes is kept as Unhealthy, because a kubelet reports one that is missing
    from the list as healthy (LAW-10); with ``let_go``, beyond its time too, until that says of its
    id and time that no pod holds it. So is, with ``whole_groups``, one that has lost a member.
    """
    offered: dict[str, ListedDevice] = {}
    for device in devices:
        before = previous.get(device.id)
        lost: tuple[Lost, ...] = ()
        if whole_groups and before is not None:
            lost = _lost(before, device, now - forget_after_seconds, now=now)
        reasons = (*device.missing, *(why_lost(one.member) for one in lost))
        offered[device.id] = ListedDevice(device=device, missing="; ".join(reasons), lost=lost)
    for device_id in previous.keys() - offered.keys():
        before = previous[device_id]
        since = now if before.gone_since is None else before.gone_since
        due = since + forget_after_seconds
        if now < due or (let_go is not None and not let_go(device_id, due)):
            offered[device_id] = ListedDevice(
                device=before.device, missing=why_gone(before.device), gone_since=since
            )
    return {device_id: offered[device_id] for device_id in sorted(offered, key=natural_key)}


def _lost(
    before: ListedDevice, device: Device, forgotten: float, *, now: float
) -> tuple[Lost, ...]:
    """Give what a device lacks and has not lacked for too long."""
    since = now if before.gone_since is None else before.gone_since
    lost = still_lost(before.device, before.lost, device, since=since)
    return tuple(one for one in lost if one.since > forgotten)


def with_health(
    offer: DeviceList, previous: DeviceList, reports: Mapping[str, Report] | None, *, now: float
) -> DeviceList:
    """Return an offer with what probes say of its devices, and since when each is as it is.

    ``reports`` are by ID; None: nobody probes.
    """
    offered = {}
    for device_id, one in offer.devices.items():
        failing = "" if reports is None else _why_failing(one, reports.get(device_id))
        before, is_unhealthy = previous.devices.get(device_id), bool(one.missing or failing)
        stays = before is not None and bool(before.unhealthy) is is_unhealthy
        since = before.since if before is not None and stays else now
        listed = replace(one, failing=failing, since=since)
        # Who compares ten thousand on the loop is soon done if they are mostly the same objects.
        offered[device_id] = before if before is not None and before == listed else listed
    return replace(offer, devices=offered)


def _why_failing(one: ListedDevice, report: Report | None) -> str:
    device = one.device
    if not device.probes or one.gone_since is not None:
        return ""
    if report is None or (report.key, report.identity) != (device.key, device.identity):
        return NOT_PROBED
    return report.reason


def next_change(offer: DeviceList, forget_after_seconds: float, *, now: float) -> float | None:
    """Give the moment at which time alone changes the list.

    A vanished device has to leave it, a lost member is waited for no longer, a new group is
    complete. One that was to leave by ``now`` and has not is held: time alone changes nothing.
    """
    due = [one.due for one in offer.arriving.values() if one.due > now]
    for one in offer.devices.values():
        if one.gone_since is not None and (leaves := one.gone_since + forget_after_seconds) > now:
            due.append(leaves)
        due += (lost.since + forget_after_seconds for lost in one.lost)
    return min(due, default=None)


def listed_bytes(device: Device) -> int:
    """Give what a device with all its shares takes of a list at most, in bytes."""
    # An id has at most 63 ASCII characters, so each length takes one byte.
    entry = _ENTRY_BYTES + len(device.id) + _topology_bytes(device)
    more = device.replicas - 1
    digits: int = sum(more - 10**place + 1 for place in range(len(str(more))))
    return entry * device.replicas + len("::") * more + digits


def most_bytes(device: Device) -> int:
    """Give what a share of a device takes of a list at most, whatever its id is."""
    return _MOST_ENTRY_BYTES + _topology_bytes(device)


def _topology_bytes(device: Device) -> int:
    """Return what the NUMA nodes of a share take at most."""
    nodes = len(device.numa_nodes)
    return 2 + nodes * _NODE_BYTES + (2 if nodes > _MOST_SHORT else 0) if nodes else 0


def within_limit(
    resource: str,
    offered: Mapping[str, ListedDevice],
    previous: Mapping[str, ListedDevice],
    limit: int = LIST_LIMIT_BYTES,
) -> tuple[dict[str, ListedDevice], tuple[NotOffered, ...]]:
    """Keep the list below what a kubelet takes (K11): devices on offer stay."""
    most = max((most_bytes(one.device) for one in offered.values()), default=0)
    if sum(one.device.replicas for one in offered.values()) * most <= limit:
        return dict(offered), ()
    total = sum(listed_bytes(one.device) for one in offered.values())
    if total <= limit:
        return dict(offered), ()
    room = limit
    kept: set[str] = set()
    for device_id in _incumbents_first(list(offered), previous):
        size = listed_bytes(offered[device_id].device)
        if size <= room:
            room -= size
            kept.add(device_id)
    fitting = sum(offered[device_id].device.replicas for device_id in kept)
    wanted = sum(one.device.replicas for one in offered.values())
    reason = (
        f"list full: {fitting} of {wanted} devices, shares counted, fit into the {limit} bytes that"
        " a kubelet takes (use fewer replicas or shorter ids)"
    )
    left_out = (one.device for device_id, one in offered.items() if device_id not in kept)
    refused = tuple(
        NotOffered(resource=resource, path=device.path, key=device.key, reason=reason)
        for device in left_out
    )
    return {device_id: one for device_id, one in offered.items() if device_id in kept}, refused


def _incumbents_first(ids: Sequence[str], previous: Mapping[str, ListedDevice]) -> list[str]:
    return sorted(ids, key=lambda device_id: device_id not in previous)
