"""Device lists from one reconcile to the next: conflicts, vanished devices, health, size."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from genericdp.devices.device import Device, Member, NotOffered, share_number
from genericdp.devices.held import Held, Name
from genericdp.devices.natural import natural_key
from genericdp.printing import plural
from genericdp.reasons import NOT_PROBED, Code, Reason, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from genericdp.devices.device import DeviceNode, Report
    from genericdp.devices.empty import NoDevices
    from genericdp.model import Resource

MAX_LIST_BYTES = 4_194_304
"""What a kubelet takes in one message; one byte more ends the stream (LAW-6)."""
GROUP_SECONDS = 0.3
"""How long the members of a new group have to stay the same before it is offered."""

EntryBytes: TypeAlias = "Callable[[str, Sequence[int]], int]"
"""Returns the size of a share, with its NUMA nodes, in a list for the kubelet, as Unhealthy."""
_Right = tuple[int, tuple[tuple[str | int, ...], str]]
_KEEPS_ID = 3
"""Rank of a device that has another ID than before, or a held one since before the start."""
_NEWCOMER = 4
"""Rank of a device that has no right yet to what it wants."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedDevice:
    """A device in the list that the kubelet gets, with its state."""

    device: Device
    missing: tuple[Reason, ...] = ()
    """Why it is Unhealthy whatever its probes say: it or a part of it is not there."""
    failing: tuple[Reason, ...] = ()
    """Why it is not healthy although it is there, mostly by its probes; empty: it is healthy."""
    since: float = -inf
    """When it became Healthy or Unhealthy, on the monotonic clock, in seconds."""
    gone_since: float | None = None
    """When it was first not found any more, on the monotonic clock, in seconds."""
    lost: tuple[Lost, ...] = ()
    """The members of its group that it lacks and is Unhealthy for."""
    withheld: Mapping[str, Reason] = field(default_factory=dict)
    """Why shares of it are Unhealthy although the device is healthy, by share."""

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why it is Unhealthy; empty: Healthy."""
        return self.missing or self.failing

    @property
    def unhealthy(self) -> str:
        """Why it is Unhealthy, in words; empty: Healthy."""
        return text_of(self.reasons)

    @property
    def is_probed(self) -> bool:
        """Whether each of its probes has a result."""
        return all(one.code is not Code.NOT_PROBED for one in self.failing)

    @property
    def explanation(self) -> str:
        """Why it is Unhealthy, or what about a Healthy one differs from the config."""
        if self.reasons or not (self.withheld or self.device.renamed_to):
            return self.unhealthy
        if self.withheld:
            share, reason = next(iter(self.withheld.items()))
            count = f"{len(self.withheld)} of {plural(self.device.replicas, 'share')}"
            return f"{count} Unhealthy ({share}: {reason})"
        return f"it becomes {self.device.renamed_to} once it is free"

    @property
    def offered_shares(self) -> int:
        """How many shares of it containers can get."""
        return 0 if self.reasons else self.device.replicas - len(self.withheld)

    def share_reasons(self, share: str) -> tuple[Reason, ...]:
        """Return why a share of it is Unhealthy; empty: it is Healthy."""
        withheld = self.withheld.get(share)
        return self.reasons or (() if withheld is None else (withheld,))


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceList:
    """One resource: its devices by id, in natural order, and what it cannot offer."""

    devices: Mapping[str, ListedDevice]
    not_offered: tuple[NotOffered, ...] = ()
    arriving: Mapping[str, Arriving] = field(default_factory=dict)
    """Groups that are not listed, by key: other members may join in a moment, or they lost."""
    owned: frozenset[str] | None = None
    """The keys of the candidates that are its own; None: nothing has been decided yet."""
    failed: str = ""
    """Why nothing could be decided at last: what it had stays. Empty: it was decided."""
    warnings: Mapping[str, str] = field(default_factory=dict)
    """By ID, why a device should not be on offer."""
    empty: NoDevices | None = None
    """Why there are no devices; None: there are."""
    template: str = ""
    """The name in the config that the resource's name results from; empty: they are the same."""

    @property
    def numa_spoiler(self) -> str:
        """Return a device that has no NUMA node while another has one; empty if there is none.

        With topology on some devices only, a kubelet refuses pods although devices are free
        (LAW-8): then none carries it.
        """
        lacking = [
            name
            for name, one in self.devices.items()
            if not (one.device.numa_nodes or one.device.is_served_by_dra)
        ]
        return lacking[0] if lacking and len(lacking) < len(self.devices) else ""

    @property
    def is_probed(self) -> bool:
        """Whether each probe of its devices has a result."""
        return all(one.is_probed for one in self.devices.values())

    @property
    def why_empty(self) -> tuple[str, str]:
        """Return why there are no devices, as text and as ``EmptyCause``; empty texts: there are.

        There is no cause where the devices are those of the resources that result from the name.
        """
        return (self.empty.reason, self.empty.cause or "") if self.empty else ("", "")

    @property
    def is_shown(self) -> bool:
        """Whether there is more to tell than that others have its devices, as of a template."""
        return self.empty is None or self.empty.cause is not None or bool(self.not_offered)

    @property
    def kept(self) -> tuple[Device, ...]:
        """The devices that nobody else may get while nothing can be decided."""
        owned = self.owned or frozenset()
        return tuple(
            one.device
            for one in self.devices.values()
            if one.gone_since is None or not owned.isdisjoint(one.device.keys)
        )


NOTHING = DeviceList(devices={})


def with_vanished(
    resource: Resource,
    previous: Mapping[str, ListedDevice],
    devices: Iterable[Device],
    *,
    why_gone: Callable[[Device], tuple[Reason, ...]],
    why_lost: Callable[[Member], Reason],
    stays: Callable[[Device], bool],
    now: float,
    held: Held,
) -> dict[str, ListedDevice]:
    """Return the next list: what is present, and what was and has not been missing for too long.

    A device that disappears is kept as Unhealthy, because a kubelet reports one that is missing
    from the list as healthy (LAW-10); one that is held, beyond its time too. So is, unless
    ``groupNeeds`` says what suffices, one that has lost a member. ``stays`` returns whether a
    device that is listed under no other name stays as it is.
    """
    whole_groups = resource.group_needs is None
    forget_before = now - resource.forget_after_seconds
    listed: dict[str, ListedDevice] = {}
    for device in devices:
        before = previous.get(device.id)
        lost: tuple[Lost, ...] = ()
        if whole_groups and before is not None:
            lost = _lost(before, device, forget_before, now=now)
        reasons = (*device.missing, *(why_lost(one.member) for one in lost))
        listed[device.id] = ListedDevice(device=device, missing=reasons, lost=lost)
    for device_id in previous.keys() - listed.keys():
        before = previous[device_id]
        # A member that was lost before the others is still lost when these return.
        lost = tuple(one for one in before.lost if whole_groups and one.since > forget_before)
        if stays(before.device):
            reasons = tuple(why_lost(one.member) for one in lost)
            listed[device_id] = replace(before, gone_since=None, missing=reasons, lost=lost)
            continue
        since = now if before.gone_since is None else before.gone_since
        due = since + resource.forget_after_seconds
        name = Name(resource.name, device_id, resource.served_by)
        if now < due or name in held.by_name:
            listed[device_id] = ListedDevice(
                device=before.device, missing=why_gone(before.device), lost=lost, gone_since=since
            )
    return {device_id: listed[device_id] for device_id in sorted(listed, key=natural_key)}


def _lost(
    before: ListedDevice, device: Device, forget_before: float, *, now: float
) -> tuple[Lost, ...]:
    """Return what a device lacks of all that it had and has not lacked for too long."""
    late = now if before.gone_since is None else before.gone_since
    since = {one.member: one.since for one in before.lost}
    had = tuple(dict.fromkeys((*before.device.members, *since)))
    lost = (Lost(member=one, since=since.get(one, late)) for one in missing(had, device.members))
    return tuple(one for one in lost if one.since > forget_before)


def with_health(
    devices: DeviceList,
    previous: DeviceList,
    reports: Mapping[str, Report] | None,
    *,
    spec_error: str,
    now: float,
) -> DeviceList:
    """Return a list with what probes say of its devices, and since when each is as it is.

    ``reports`` are by ID; None: nobody probes. ``spec_error``: why none can be had now, or empty.
    """
    listed = {}
    without_spec = (Reason(Code.SPEC_FAILED, spec_error),) if spec_error else ()
    for device_id, one in devices.devices.items():
        failing = without_spec or _why_failing(one, reports)
        before, is_unhealthy = previous.devices.get(device_id), bool(one.missing or failing)
        stays = before is not None and bool(before.reasons) is is_unhealthy
        since = before.since if before is not None and stays else now
        new = replace(one, failing=failing, since=since)
        # Who compares ten thousand on the loop is soon done if they are mostly the same objects.
        listed[device_id] = before if before is not None and before == new else new
    return replace(devices, devices=listed)


def _why_failing(one: ListedDevice, reports: Mapping[str, Report] | None) -> tuple[Reason, ...]:
    device = one.device
    if reports is None or not device.probes or one.gone_since is not None:
        return ()
    report = reports.get(device.id)
    if report is None or report.identity != device.identity:
        return (NOT_PROBED,)
    return report.reasons


def next_due(devices: DeviceList, forget_after_seconds: float, *, now: float) -> float | None:
    """Return the moment at which time alone changes the list.

    A vanished device has to leave it, a lost member is waited for no longer, a new group is
    complete. One that was to leave by ``now`` and has not is held: time alone changes nothing.
    """
    due = [one.due for one in devices.arriving.values() if one.due > now]
    for one in devices.devices.values():
        if one.gone_since is not None and (leaves := one.gone_since + forget_after_seconds) > now:
            due.append(leaves)
        ends = (lost.since + forget_after_seconds for lost in one.lost)
        due += (moment for moment in ends if moment > now)
    return min(due, default=None)


def weightless(share: str, numa_nodes: Sequence[int]) -> int:  # noqa: ARG001
    """Return 0: for lists that no kubelet gets."""
    return 0


def within_limit(
    listed: Mapping[str, ListedDevice],
    previous: Mapping[str, ListedDevice],
    entry_bytes: EntryBytes,
    limit: int = MAX_LIST_BYTES,
) -> tuple[dict[str, ListedDevice], tuple[NotOffered, ...]]:
    """Keep the list below what a kubelet takes (K11): devices that were listed stay."""
    sizes = {}
    for device_id, one in listed.items():
        replicas = one.device.replicas
        longest = f"{device_id}::{replicas - 1}" if replicas > 1 else device_id
        sizes[device_id] = replicas * entry_bytes(longest, one.device.numa_nodes)
    room = limit
    fitting: set[str] = set()
    for device_id in sorted(listed, key=lambda device_id: device_id not in previous):
        if sizes[device_id] <= room:
            room -= sizes[device_id]
            fitting.add(device_id)
    kept = {device_id: one for device_id, one in listed.items() if device_id in fitting}
    here, wanted = (sum(one.device.replicas for one in of.values()) for of in (kept, listed))
    reason = Reason(
        Code.LIST_FULL,
        f"list full: {here} of {wanted} devices, shares counted, fit into the {limit} bytes that"
        " a kubelet takes (use fewer replicas or shorter ids)",
    )
    left_out = (one.device for device_id, one in listed.items() if device_id not in kept)
    return kept, tuple(device.refused(reason) for device in left_out)


def missing(before: Sequence[Member], members: Sequence[Member]) -> tuple[Member, ...]:
    """Return those that were there before and are not any more.

    What the kernel has made again under another number is present if it is the same hardware.
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
            made_again.remove(successor)  # one for one: members of equal hardware may be several
    return tuple(lost)


def stable_groups(
    devices: Iterable[Device], before: DeviceList, *, now: float
) -> tuple[list[Device], list[NotOffered], dict[str, Arriving]]:
    """Return the groups that can be listed, those that must wait, and since when all are so.

    The kernel tells of the members of a group one after the other: a container that asks in
    between must not be given half of it. What is listed or there at the first look is complete.
    What can be listed and then loses to another device need not wait once more.
    """
    ready: list[Device] = []
    waiting: list[NotOffered] = []
    arriving: dict[str, Arriving] = {}
    listed = {one.device.key for one in before.devices.values() if one.gone_since is None}
    for device in devices:
        known = before.arriving.get(device.key)
        if before.owned is None or device.key in listed:
            known = Arriving(members=device.keys, since=-inf)
        elif known is None or known.members != device.keys:
            known = Arriving(members=device.keys, since=now)
        arriving[device.key] = known
        if known.due <= now:
            ready.append(device)
        else:
            why = f"its group has just changed: other members may come within {GROUP_SECONDS:g} s"
            waiting.append(device.refused(Reason(Code.GROUP_SETTLING, why)))
    return ready, waiting, arriving


@dataclass(slots=True)
class _Claims:
    """Who has which ID of a resource, and which node of the host."""

    ids: dict[tuple[str, str], Device] = field(default_factory=dict)
    shared_ids: dict[str, tuple[str, Device]] = field(default_factory=dict)
    """Devices of resources with ``exclusive: false``, by ID: no two of these have the same."""
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

    def enter(self, resource: str, device: Device) -> None:
        self.ids[resource, device.id] = device
        if not device.exclusive:
            self.shared_ids[device.id] = (resource, device)
        for node in device.nodes:
            if node.exclusive:
                self.nodes.setdefault(node.key, []).append((resource, device))


def _why_not_its_node(resource: str, node: DeviceNode, name: str, owner: Device) -> str:
    # Another device needs it alone: to share it would give both devices to each container.
    hint = "exclude one of the two, or give each its own nodes"
    if name == resource:
        hint = "exclude one of the two, or make one device of them with groupBy"
    return f"its node {node.host_path} belongs to device {owner.id} of {name} ({hint})"


def resolve_conflicts(
    wanting: Mapping[str, Iterable[Device]],
    absent: Mapping[str, Iterable[Device]],
    former: Mapping[str, Callable[[Device], Sequence[ListedDevice]]],
) -> tuple[dict[str, list[Device]], dict[str, list[NotOffered]]]:
    """Return what each resource wins, and what it loses against whom; all are by resource.

    ``absent`` are listed devices that cannot be had just now: nobody gets what is theirs.
    ``former`` returns what a device was in the last list.
    """
    claims = _Claims()
    for resource, held in absent.items():
        for device in held:
            claims.enter(resource, device)
    winners: dict[str, list[Device]] = {resource: [] for resource in wanting}
    losers: dict[str, list[NotOffered]] = {resource: [] for resource in wanting}
    all_wanting = [
        (rank, resource, device)
        for resource, devices in wanting.items()
        for rank, device in _ranked(devices, former[resource])
    ]
    for _, resource, device in sorted(all_wanting, key=lambda it: it[0]):
        if (reason := claims.refusal(resource, device)) is not None:
            losers[resource].append(device.refused(reason))
        else:
            claims.enter(resource, device)
            winners[resource].append(device)
    return winners, losers


def _ranked(
    devices: Iterable[Device], former: Callable[[Device], Sequence[ListedDevice]]
) -> Iterator[tuple[_Right, Device]]:
    """Yield devices of a resource, each after its right to what it wants: the lowest comes first.

    What is listed and takes nothing more than it had, what comes back as it was, what takes
    another node, what is under another ID, newcomers by syspath: a container may have what is
    listed, so no node of it goes to another device that comes to want it.
    """
    for device in devices:
        # It may be listed twice: as what it is, and as Unhealthy under an ID that it had.
        listed = former(device)
        rank = min((_rank(device, one) for one in listed), default=_NEWCOMER)
        if rank == _NEWCOMER and device.renamed_to:
            rank = _KEEPS_ID
        syspath = device.identity.syspath or device.path
        place = natural_key(syspath) if rank == _NEWCOMER else ((), "")
        yield (rank, place), device


def _rank(device: Device, before: ListedDevice) -> int:
    """Return which comes first; ``before``: as what it is in the list."""
    had = {node.key for node in before.device.nodes} | {lost.member.key for lost in before.lost}
    more = any(node.exclusive and node.key not in had for node in device.nodes)
    if before.gone_since is not None:
        return _NEWCOMER if more or before.device.id != device.id else 1
    if before.device.id != device.id:
        return _KEEPS_ID
    return 2 if more else 0


def with_shares(listed: ListedDevice, name: Name, held: Held) -> ListedDevice:
    """Return a listed device with the shares that are not offered because of who holds others.

    An edit of ``replicas`` gives no container what another one has alone, and takes from none the
    share that it has.
    """
    own, device = held.by_name.get(name), listed.device
    if own is None or not own.may_be_held:
        return listed
    config_replicas = device.replicas
    known = {number: share for share in own.holders if (number := share_number(share)) is not None}
    if not own.is_known and not own.holders:
        known = dict.fromkeys(range(own.replicas), "")
    most = max(known, default=0) + 1
    is_conflict = (own.replicas == 1) is not (config_replicas == 1)
    withheld = {}
    device = replace(device, replicas=max(config_replicas, most))
    for number, share in enumerate(device.shares):
        if number in known:
            continue
        if number >= config_replicas:
            withheld[share] = f"the config offers {plural(config_replicas, 'share')} of it"
        elif is_conflict:
            withheld[share] = f"{own.holder} holds it with replicas: {own.replicas}"
    withheld |= {share: why for share, why in own.withheld.items() if device.has_share(share)}
    reasons = {share: Reason(Code.SHARE_WITHHELD, why) for share, why in withheld.items()}
    return replace(listed, device=device, withheld=reasons)
