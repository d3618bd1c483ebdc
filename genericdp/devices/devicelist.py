"""Device lists: the devices that a resource reports to the kubelet, and why others are left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeGuard, TypeVar

from genericdp.devices.device import Unmade
from genericdp.devices.transitions import LISTED, Event, State, next_state
from genericdp.model import TaintEffect
from genericdp.printing import first_few, plural
from genericdp.reasons import OF_HEALTH, Code, Reason, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from genericdp.devices.device import Device, Member
    from genericdp.devices.inventory import Identity
    from genericdp.model import Expectation

MAX_FORGOTTEN = 100
"""At most this many forgotten devices of a resource are remembered."""
MAX_LIST_BYTES = 4_194_304
"""Maximum size of a message that a kubelet accepts; one byte more ends the stream (LAW-6)."""

EntryBytes: TypeAlias = "Callable[[str, Sequence[int]], int]"
"""Returns the size of an Unhealthy share, with its NUMA nodes, in a list for the kubelet."""
Reports: TypeAlias = "Mapping[str, Mapping[tuple[str, Identity], tuple[Reason, ...]]]"
"""Why devices are not healthy, by resource, and then by ID and identity; no reasons if healthy."""
Subject: TypeAlias = "Device | Unmade"
SubjectT_co = TypeVar("SubjectT_co", bound=Subject, covariant=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry(Generic[SubjectT_co]):
    """A device, or candidates that could not become one, with its state."""

    device: SubjectT_co
    state: State = State.NOT_OFFERED
    reasons: tuple[Reason, ...] = ()
    """Why it is not Healthy; a Healthy device has none."""
    since: float = -inf
    """Since when it is in this state, on the monotonic clock, in seconds."""
    lost: Mapping[Member, float] = field(default_factory=dict)
    """Its missing members, each with the time since when."""
    withheld: Mapping[str, Reason] = field(default_factory=dict)
    """Why shares of it are Unhealthy although the device is healthy, by share."""
    gone_since: float = inf
    """Since when its hardware has been missing, on that clock; infinite if that is not known."""
    is_long_gone: bool = False
    """Whether its hardware has been missing long enough to evict the pods that have it."""
    has_former_shares: bool = False
    """Whether pods have shares of it that the config no longer offers."""
    due: float = inf
    """When time alone changes it, on that clock: when it or a lost member is to be forgotten, its
    pods may be evicted, or its group is complete. If that time has passed, the device is held.
    """

    def after(self, event: Event, *reasons: Reason) -> Entry[SubjectT_co]:
        """Return the entry after an event, according to the table of transitions."""
        if (state := next_state(self.state, event)) is None:
            return self
        return replace(self, state=state, reasons=() if state is State.HEALTHY else reasons)

    @property
    def text(self) -> str:
        """The reasons in words; empty if it is Healthy."""
        return text_of(self.reasons)

    @property
    def code(self) -> Code:
        """The code of the first reason, if it is not Healthy."""
        return self.reasons[0].code

    @property
    def is_healthy(self) -> bool:
        """Return whether containers can get it."""
        return self.state is State.HEALTHY

    @property
    def is_present(self) -> bool:
        """Return whether it is listed and its hardware is present."""
        return self.state in LISTED and self.state is not State.MISSING

    @property
    def is_complete(self) -> bool:
        """Return whether all of its hardware is present, whatever the results of its probes."""
        return self.is_present and all(reason.code in OF_HEALTH for reason in self.reasons)


def is_listed(entry: Entry[Subject]) -> TypeGuard[Entry[Device]]:
    """Return whether the entry is in the list that the kubelet gets; then it has a device."""
    return entry.state in LISTED


def is_pending(entry: Entry[Subject]) -> TypeGuard[Entry[Device]]:
    """Return whether a device was made, but it is undecided whether it gets its ID and nodes."""
    return not entry.reasons and entry.state is State.NOT_OFFERED


def refused(path: str, key: str, reason: Reason, keys: tuple[str, ...] = ()) -> Entry[Unmade]:
    """Return the entry for candidates that cannot become a device; ``keys`` are those of the
    members.
    """
    return Entry(device=Unmade(path=path, key=key, keys=keys or (key,))).after(
        Event.REFUSED, reason
    )


def explanation(entry: Entry[Device]) -> str:
    """Return why a device is Unhealthy, or how a Healthy one differs from the config."""
    device, withheld = entry.device, entry.withheld
    if not entry.is_healthy or not (withheld or device.renamed_to):
        return entry.text
    if withheld:
        share, reason = next(iter(withheld.items()))
        count = f"{len(withheld)} of {plural(device.replicas, 'share')}"
        return f"{count} Unhealthy ({share}: {reason})"
    return f"it becomes {device.renamed_to} once it is free"


def offered_shares(entry: Entry[Device]) -> int:
    """Return how many shares of a device containers can get."""
    return entry.device.replicas - len(entry.withheld) if entry.is_healthy else 0


def share_reasons(entry: Entry[Device], share: str) -> tuple[Reason, ...]:
    """Return why a share of a device is Unhealthy; empty if it is Healthy."""
    withheld = entry.withheld.get(share)
    return entry.reasons or (() if withheld is None else (withheld,))


@dataclass(frozen=True, kw_only=True)
class DeviceList:
    """The entries of one resource: those that are listed in natural order of their IDs."""

    entries: tuple[Entry[Subject], ...] = ()
    owned: frozenset[str] | None = None
    """The keys of its own candidates; None if nothing has been decided yet."""
    undecided: Reason | None = None
    """Why the last decision failed, so that the old list stays; None if it did not fail."""
    empty: Reason | None = None
    """Why there are no devices; None if there are."""
    warnings: Mapping[str, str] = field(default_factory=dict)
    """Why a device should not be on offer, by ID."""
    template: str = ""
    """The name in the config that the resource's name results from; empty if they are the same."""
    expect: Expectation | None = None
    """How many devices should be Healthy; None for any number."""
    unhealthy_taint: TaintEffect = TaintEffect.NO_SCHEDULE
    """The effect of the taints of devices that are not Healthy, if DRA serves them."""
    forgotten: tuple[str, ...] = ()
    """The IDs of devices that were forgotten and have not returned, those of the last ones."""

    @cached_property
    def devices(self) -> Mapping[str, Entry[Device]]:
        """The entries that the kubelet gets, by ID."""
        return {entry.device.id: entry for entry in self.entries if is_listed(entry)}

    @cached_property
    def not_offered(self) -> tuple[Entry[Subject], ...]:
        """The entries that the kubelet does not get."""
        return tuple(entry for entry in self.entries if not is_listed(entry))

    def each_pending(self, decide: Callable[[Entry[Device]], Entry[Device]]) -> DeviceList:
        """Return the list with the decision about each pending device."""
        others = (entry for entry in self.entries if not is_pending(entry))
        decided = map(decide, filter(is_pending, self.entries))
        return replace(self, entries=(*others, *decided))

    @property
    def numa_spoiler(self) -> str:
        """Return the ID of a device that has no NUMA node while another has one; empty if there is
        none.

        With topology on some devices only, a kubelet refuses pods although devices are free
        (LAW-8): then no device has topology.
        """
        lacking = [
            name
            for name, entry in self.devices.items()
            if not (entry.device.numa_nodes or entry.device.is_served_by_dra)
        ]
        return lacking[0] if lacking and len(lacking) < len(self.devices) else ""

    @property
    def is_probed(self) -> bool:
        """Return whether each probe of its devices has a result."""
        return all(entry.state is not State.PROBING for entry in self.devices.values())

    @property
    def off_by(self) -> int | None:
        """Return by how many Healthy devices the list differs from ``expect``, negative if there
        are too few; None if that is unknown, because a device is probed or completed for the first
        time, or nothing is expected.
        """
        if self.expect is None or self.owned is None:
            return None
        states = Counter(entry.state for entry in self.entries)
        healthy, pending = states[State.HEALTHY], states[State.PROBING] + states[State.WAITING]
        if self.expect.max is not None and healthy > self.expect.max:
            return healthy - self.expect.max
        if healthy >= self.expect.min:
            return 0
        return min(0, healthy + pending - self.expect.min) or None

    @property
    def why_unexpected(self) -> Reason | None:
        """Return the reason if there are fewer or more Healthy devices than expected."""
        if not (off_by := self.off_by):
            return None
        healthy = sum(entry.is_healthy for entry in self.devices.values())
        text = f"{plural(healthy, 'device')} Healthy, expected {self.expect}"
        if off_by > 0:
            return Reason(Code.TOO_MANY, text)
        lacking = {
            "not Healthy": [name for name, entry in self.devices.items() if not entry.is_healthy],
            "forgotten": self.forgotten,
        }
        named = (f"; {what}: {first_few(ids, 5)}" for what, ids in lacking.items() if ids)
        return Reason(Code.TOO_FEW, text + "".join(named))

    @property
    def why_empty(self) -> tuple[str, str]:
        """Return why there are no devices, as text and as the code; empty strings if there are.

        There is no code if the devices are those of the resources that result from the name.
        """
        if self.empty is None:
            return "", ""
        return self.empty.text, "" if self.empty.code is Code.RENAMED else self.empty.code

    @property
    def is_shown(self) -> bool:
        """Return whether there is more to show than a note that other names have the devices."""
        return self.empty is None or self.empty.code is not Code.RENAMED or bool(self.not_offered)

    @property
    def kept(self) -> tuple[Device, ...]:
        """The devices that no other resource may get while nothing can be decided."""
        owned = self.owned or frozenset()
        return tuple(
            entry.device
            for entry in self.devices.values()
            if entry.is_present or not owned.isdisjoint(entry.device.keys)
        )


NOTHING = DeviceList()


def still_forgotten(before: DeviceList, entries: Collection[Entry[Device]]) -> tuple[str, ...]:
    """Return the IDs of devices that were forgotten and are not among the listed entries.

    ``entries`` are those of the next list, and those that it drops. A device that the config no
    longer matches, or lists under another name, is not lost.
    """
    dropped = (
        entry.device.id
        for entry in entries
        if not is_listed(entry) and not all(reason.code.is_routine for reason in entry.reasons)
    )
    gone = dict.fromkeys((*before.forgotten, *dropped))
    if not gone:  # as in most reconciles, which need not read the IDs of all devices
        return ()
    listed = {entry.device.id for entry in entries if is_listed(entry)}
    return tuple(name for name in gone if name not in listed)[-MAX_FORGOTTEN:]


def next_due(devices: DeviceList, *, now: float) -> float | None:
    """Return the next moment at which time alone changes an entry, or None."""
    return min((entry.due for entry in devices.entries if now < entry.due < inf), default=None)


def weightless(share: str, numa_nodes: Sequence[int]) -> int:  # noqa: ARG001
    """Return 0: for lists that no kubelet gets."""
    return 0


def within_limit(
    devices: DeviceList,
    previous: Mapping[str, Entry[Device]],
    entry_bytes: EntryBytes,
    limit: int = MAX_LIST_BYTES,
) -> DeviceList:
    """Keep the list below a kubelet's limit (K11): devices that were listed stay."""
    listed, room, fitting = devices.devices, limit, set[str]()
    for device_id in sorted(listed, key=lambda device_id: device_id not in previous):
        device = listed[device_id].device
        replicas = device.replicas
        longest = f"{device_id}::{replicas - 1}" if replicas > 1 else device_id
        size = replicas * entry_bytes(longest, device.numa_nodes)
        if size <= room:
            room -= size
            fitting.add(device_id)
    if len(fitting) == len(listed):
        return devices
    here, wanted = (
        sum(listed[device_id].device.replicas for device_id in ids) for ids in (fitting, listed)
    )
    reason = Reason(
        Code.LIST_FULL,
        f"list full: {here} of {wanted} devices, shares counted, fit into the {limit} bytes that"
        " a kubelet takes (use fewer replicas or shorter ids)",
    )
    kept = (entry for device_id, entry in listed.items() if device_id in fitting)
    left_out = (
        entry.after(Event.LEFT_OUT, reason)
        for device_id, entry in listed.items()
        if device_id not in fitting
    )
    return replace(devices, entries=(*kept, *devices.not_offered, *left_out))
