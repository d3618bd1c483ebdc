"""The decision: the device list of each resource.

Match, group, make, arbitrate between all resources, carry over listed devices, apply the results of
probes and CDI specs, and limit the size: each step turns device lists into new ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING

from genericdp.devices.carry_over import (
    WhyGone,
    carried_over,
    hidden_by,
    settling,
)
from genericdp.devices.conflicts import arbitrated
from genericdp.devices.devicelist import (
    NOTHING,
    DeviceList,
    Entry,
    is_listed,
    is_pending,
    next_due,
    refused,
    still_forgotten,
    weightless,
    within_limit,
)
from genericdp.devices.groups import FormerDevices
from genericdp.devices.held import Held, Name, why_blocked, with_shares
from genericdp.devices.in_use import with_warnings
from genericdp.devices.inventory import Inventory, natural_key
from genericdp.devices.making import make_devices
from genericdp.devices.matching import Owners, match, why_empty, why_undecided
from genericdp.devices.resourcenames import NameOwners, results, with_name
from genericdp.devices.transitions import Event
from genericdp.printing import shortened
from genericdp.reasons import MAX_REASON, NOT_PROBED, Code, Reason
from genericdp.regex import SearchTimeError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import EntryBytes, Reports
    from genericdp.devices.identity import HardwareIdentity
    from genericdp.devices.inventory import Host, Identity
    from genericdp.devices.matching import Match
    from genericdp.model import Resource

DeviceLists = dict[str, DeviceList]
"""By resource name, in the order of the config."""

EVERYTHING = "(all)"
"""Placeholder for the path of anything that a resource might offer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The device list of each resource, and when a list may change without an event."""

    lists: DeviceLists
    now: float = 0.0
    """When it was made, on the monotonic clock, in seconds."""
    due: float | None = None
    """When time alone changes a list."""
    failures: Mapping[str, Exception] = field(default_factory=dict)
    """Why a resource could not be decided, by name: it keeps its last list."""
    awaited: frozenset[Name] = frozenset()
    """The names of held hardware that is to be offered under another name."""


def decide(
    resources: Sequence[Resource],
    host: Host,
    *,
    node_name: str,
    previous: Mapping[str, DeviceList],
    now: float,
    held: Held | None = None,
    entry_bytes: EntryBytes = weightless,
) -> Decision:
    """Return the device lists, from the state of the host and the last lists.

    The same answers lead to the same decision; ``with_states`` adds the results of probes and CDI
    specs. ``now`` is on the monotonic clock, in seconds. ``held`` is the hardware that pods and
    claims have or may have.
    """
    inventory = Inventory(host, node_name)
    while True:
        run = _Pass(
            resources=resources,
            inventory=inventory,
            previous=previous,
            now=now,
            held=held or Held(),
            entry_bytes=entry_bytes,
        )
        parts = run.make()
        failed = set(inventory.failures)
        made, awaited = run.arbitrate(parts)
        lists = run.carry_over(parts, made, awaited)
        if inventory.failures.keys() == failed:
            break
        # A resource that failed later had influenced others: decide again without it.
    lists = with_warnings(lists, resources, inventory)
    return Decision(
        lists=lists,
        now=now,
        due=_due(lists, previous, now=now),
        failures=inventory.failures,
        awaited=frozenset(awaited),
    )


def _due(lists: DeviceLists, previous: Mapping[str, DeviceList], *, now: float) -> float | None:
    """Return when time alone changes one of the lists; None if never."""
    dues = [next_due(listed, now=now) for listed in lists.values() if listed.undecided is None]
    has_left = any(
        before.devices.keys() - lists.get(name, NOTHING).devices.keys()
        for name, before in previous.items()
    )
    if has_left and any(devices.not_offered for devices in lists.values()):
        dues.append(now)  # another device may get what belonged to a device that left a list
    return min((due for due in dues if due is not None), default=None)


def with_states(
    decision: Decision,
    previous: Mapping[str, DeviceList],
    health: Reports,
    spec_errors: Mapping[str, str],
) -> Decision:
    """Return a decision with the results of probes and specs, and since when each state holds.

    ``health`` has the results of each device's probes, ``spec_errors`` why none of a resource's
    devices can be used now, by resource.
    """
    lists = {
        name: _with_states(
            devices,
            previous.get(name, NOTHING),
            health.get(name, {}),
            spec_errors.get(name, ""),
            now=decision.now,
        )
        for name, devices in decision.lists.items()
    }
    return replace(decision, lists=lists)


def _with_states(
    devices: DeviceList,
    previous: DeviceList,
    reports: Mapping[tuple[str, Identity], tuple[Reason, ...]],
    spec_error: str,
    *,
    now: float,
) -> DeviceList:
    listed = []
    for device_id, entry in devices.devices.items():
        # Without earlier results of probes and specs.
        fresh = entry.after(Event.MADE) if entry.reasons and entry.is_complete else entry
        if spec_error:
            fresh = fresh.after(Event.SPEC_FAILED, Reason(Code.SPEC_FAILED, spec_error))
        if entry.device.probes:
            reasons = reports.get((device_id, entry.device.identity), (NOT_PROBED,))
            is_probed = all(reason.code is not Code.NOT_PROBED for reason in reasons)
            if reasons:
                fresh = fresh.after(Event.FAILING if is_probed else Event.NOT_PROBED, *reasons)
        before = previous.devices.get(device_id)
        stays = before is not None and before.state is fresh.state
        fresh = replace(fresh, since=before.since if before is not None and stays else now)
        # Comparing ten thousand on the loop is fast if they are mostly the same objects.
        listed.append(before if before is not None and before == fresh else fresh)
    return replace(devices, entries=(*listed, *devices.not_offered))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A name of a resource while it is decided: its own, or one that results from a template."""

    name: str
    resource: Resource
    """The resource, as in the config."""
    before: DeviceList
    """The last list; for a name that has just resulted, an empty one that counts as decided."""
    former: FormerDevices
    """The devices of that list."""
    found: Match | None = None
    """What the resource matches; None if it cannot be decided."""
    made: DeviceList = NOTHING
    """The devices that were made from the match for this name."""

    def name_of(self, device: Device) -> Name:
        """Return the name under which a device of it is offered."""
        return Name(self.name, device.id, self.resource.served_by)


_Parts = dict[str, list[_Part]]
"""By the name of the resource in the config, in the order of the config."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    """One pass over all resources: what each makes, what each gets, and what remains of the last
    lists.
    """

    resources: Sequence[Resource]
    inventory: Inventory
    previous: Mapping[str, DeviceList]
    now: float
    held: Held
    entry_bytes: EntryBytes

    def _part(self, resource: Resource, name: str) -> _Part:
        of_template = self.previous.get("" if name == resource.name else resource.name, NOTHING)
        before = self.previous.get(name, replace(NOTHING, owned=of_template.owned))
        return _Part(name=name, resource=resource, before=before, former=FormerDevices(before))

    def make(self) -> _Parts:
        """Make the devices of each resource, except where that fails.

        Such a resource keeps its last list. If it was never decided, its matches are unknown: later
        resources get nothing that it might match.
        """
        names = NameOwners(self.resources, self.previous)
        owners = Owners(listed=cache(self._listed))
        parts: _Parts = {}
        for resource in self.resources:
            if resource.name not in self.inventory.failures:
                with self.inventory.deciding(resource.name):
                    parts[resource.name] = self._made(resource, owners, names)
            if resource.name in parts:
                continue
            listed = [
                name
                for name in names.of(resource)
                if name == resource.name or name in self.previous
            ]
            parts[resource.name] = [self._part(resource, name) for name in listed]
            for before in (part.before for part in parts[resource.name]):
                owners.enter(resource, (key for device in before.kept for key in device.keys))
                owners.enter(resource, before.owned or ())
            if parts[resource.name][0].before.owned is None:
                owners.reserve(resource)
        return parts

    def _listed(self) -> dict[Identity, set[str]]:
        """Return, by identity, the resources that had each thing when they were last decided."""
        listed: dict[Identity, set[str]] = {}
        for name, before in self.previous.items():
            # Not what they had lost by then, for example to another resource.
            for entry in (entry for entry in before.devices.values() if entry.is_present):
                for identity in entry.device.appearances:
                    listed.setdefault(identity, set()).add(before.template or name)
        return listed

    def _made(self, resource: Resource, owners: Owners, names: NameOwners) -> list[_Part]:
        """Match, group and make the devices of a resource and of the names that result from it.

        A group may have to wait until its members stay the same.
        """
        found = match(resource, owners, self.inventory)
        part_of = cache(partial(self._part, resource))
        made = make_devices(
            resource,
            found,
            self.inventory,
            partial(names.enter, resource),
            lambda name: part_of(name).former,
            self.held,
        )
        wanting = filter(is_pending, chain(*made.values()))
        claimed = found.claimed - self._held_by_others(resource, names.of(resource), wanting)
        parts = []
        for part in map(part_of, names.of(resource)):
            template = "" if part.name == resource.name else resource.name
            entries = (*(() if template else found.refused), *made.get(part.name, ()))
            devices = DeviceList(entries=entries, owned=claimed, template=template)
            if owners.reserved:
                devices = devices.each_pending(partial(self._unless_reserved, resource, owners))
            if resource.group_by is not None:
                devices = devices.each_pending(settling(part.before, now=self.now))
            parts.append(replace(part, found=found, made=devices))
        owners.enter(resource, claimed, found)
        return parts

    def _held_by_others(
        self, resource: Resource, names: Iterable[str], made: Iterable[Entry[Device]]
    ) -> frozenset[str]:
        """Return the keys of candidates that are held under the name of another resource.

        Such candidates are not claimed: if the other resource comes later in the config, it keeps
        its device.
        """
        own = {Name(name, "", resource.served_by) for name in names}
        return frozenset(
            key
            for device in (entry.device for entry in made)
            if any(
                held.name._replace(device_id="") not in own and (held.exclusive or device.exclusive)
                for identity in device.identities
                for held in self.held.of(identity)
            )
            for key in device.keys
        )

    def _unless_reserved(
        self, resource: Resource, owners: Owners, entry: Entry[Device]
    ) -> Entry[Device]:
        """Refuse a device if an earlier resource might match one of its nodes."""
        device = entry.device
        for node in device.nodes:
            file = self.inventory.file(node.host_path) if node.exclusive else None
            if file is not None and (
                why := owners.why_reserved(self.inventory.of_file(file), resource, device.identity)
            ):
                why = f"its node {node.host_path} {why}"
                return entry.after(Event.REFUSED, Reason(Code.TAKEN, why))
        return entry

    def _absent(self, part: _Part, own: Iterable[_Part]) -> tuple[Device, ...]:
        """Return the listed devices that are unavailable now but keep their IDs and nodes.

        Their hardware still exists and matches, or a directory that does not answer hides it. The
        node of a group's member may belong to other hardware by now. ``own`` are the parts of the
        resource.
        """
        if (found := part.found) is None:
            return part.before.kept
        here = {
            entry.device.id
            for other in own
            for made in filter(is_pending, other.made.entries)
            for entry in part.former.of_device(made.device)
        }
        matched = {candidate.file.identity for candidate in found.members}
        return tuple(
            device
            for device in (entry.device for entry in part.before.devices.values())
            if device.id not in here
            and (
                not matched.isdisjoint(device.appearances)
                or not found.unreadable.isdisjoint(device.keys)
                or hidden_by(part.resource, device, self.inventory)
            )
        )

    def arbitrate(self, parts: _Parts) -> tuple[DeviceLists, dict[Name, str]]:
        """Refuse devices that are held under other names, or need something that another device has
        or gets.

        Also return, for held hardware that is to be offered under another name, that name by the
        one under which it is held.
        """
        present = frozenset(
            identity
            for part in chain(*parts.values())
            for entry in filter(is_pending, part.made.entries if self.held.by_name else ())
            for identity in entry.device.identities
        )
        # Before anything is refused: a device that is not offered under one name may be offered
        # under another.
        absent = {part.name: self._absent(part, own) for own in parts.values() for part in own}
        awaited: dict[Name, str] = {}
        decided = [part for part in chain(*parts.values()) if part.found is not None]
        lists = {
            part.name: part.made.each_pending(partial(self._unless_held, part, present, awaited))
            for part in decided
        }
        # Unguarded, since no resource can make it fail: it looks up and sorts strings. The longest,
        # a path, cannot have the more than 4,300 digits at which int() raises (natural_key).
        former = {part.name: part.former.of_device for part in decided}
        return arbitrated(lists, absent, former), awaited

    def _unless_held(
        self,
        part: _Part,
        present: Collection[HardwareIdentity],
        awaited: dict[Name, str],
        entry: Entry[Device],
    ) -> Entry[Device]:
        """Refuse a device that is held under another name."""
        device, its_name = entry.device, part.name_of(entry.device)
        if device.renamed_to:
            awaited[its_name] = device.renamed_to
        if (hold := self.held.blocking(its_name, device, present)) is None:
            return entry
        awaited.setdefault(hold.name, str(its_name))
        return entry.after(Event.REFUSED, Reason(Code.HELD, why_blocked(hold, its_name, device)))

    def carry_over(
        self, parts: _Parts, made: DeviceLists, awaited: Mapping[Name, str]
    ) -> DeviceLists:
        """Return the next lists, with listed devices carried over, each no larger than a kubelet
        accepts.
        """
        lists = {}
        for own in parts.values():
            others = {part.name: made.get(part.name, NOTHING) for part in own}
            for part in own:
                name, lists[part.name] = part.resource.name, part.before
                with self.inventory.deciding(name):
                    if part.found is None:
                        failure = self.inventory.failures[name]
                        lists[part.name] = _as_it_was(part.resource, part.before, failure)
                    else:
                        lists[part.name] = self._list(part, part.found, others, awaited)
                if lists[part.name].template and not lists[part.name].entries:
                    del lists[part.name]
        for name, resulting in results(lists).items():
            # A name that resulted from a template may be that of a resource without a template now.
            if name in lists and lists[name].undecided is None:
                names = ", ".join(resulting)
                empty = Reason(Code.RENAMED, f"its devices are those of {names}", names)
                lists[name] = replace(lists[name], empty=empty)
        return lists

    def _list(
        self, part: _Part, found: Match, others: DeviceLists, awaited: Mapping[Name, str]
    ) -> DeviceList:
        made, resource = others[part.name], part.resource
        named = with_name(resource, part.name) if made.template else resource
        carried = carried_over(
            made,
            part.before,
            named,
            why_gone=WhyGone(named, found, made, others, self.inventory),
            stays=partial(self._stays, part, found, awaited),
            held=self.held,
            now=self.now,
        )
        entries = tuple(carried)
        listed = [self._with_holds(part, awaited, entry) for entry in entries if is_listed(entry)]
        listed.sort(key=lambda entry: natural_key(entry.device.id))
        devices = replace(
            made,
            entries=(*listed, *made.not_offered),
            expect=resource.expect,
            unhealthy_taint=resource.unhealthy_taint,
            forgotten=still_forgotten(part.before, entries),
        )
        devices = within_limit(devices, part.before.devices, self.entry_bytes)
        if devices.devices:
            return devices
        return replace(devices, empty=why_empty(named, found, devices.not_offered))

    def _stays(
        self, part: _Part, found: Match, awaited: Mapping[Name, str], device: Device
    ) -> bool:
        """Return whether a held device stays listed although it is to be offered under another
        name.

        Its pod would be rejected at the next restart of the kubelet if it were Unhealthy.
        """
        own = self.held.by_name.get(part.name_of(device))
        if part.name_of(device) not in awaited or own is None or not own.may_be_held:
            return False
        file = self.inventory.file(device.path)
        return (
            file is not None
            and file.identity == device.identity
            and not found.excluded.reason(file)
        )

    def _with_holds(
        self, part: _Part, awaited: Mapping[Name, str], entry: Entry[Device]
    ) -> Entry[Device]:
        """Return a listed device, changed according to its holders."""
        name = part.name_of(entry.device)
        own, other = self.held.by_name.get(name), awaited.get(name)
        if other and own is not None and not own.may_be_held:
            why = f"it becomes {other} once the kubelet confirms that no pod holds it"
            entry = entry.after(Event.RENAMED, Reason(Code.RENAMED, why))
        return with_shares(entry, name, self.held)


def _as_it_was(resource: Resource, before: DeviceList, error: Exception) -> DeviceList:
    """Return the last list of a resource whose decision failed, with the reason."""
    what = str(error) if isinstance(error, SearchTimeError) else repr(error)
    if isinstance(error, MemoryError):
        what = "there is not enough memory"
    failed = shortened(f"it cannot be decided what is offered: {what}", MAX_REASON)
    reason = Reason(Code.UNDECIDED, f"{failed}; what was offered stays as it was")
    everything = refused(EVERYTHING, "", reason)
    others = (entry for entry in before.not_offered if entry.code is not Code.UNDECIDED)
    return replace(
        before,
        entries=(*before.devices.values(), everything, *others),
        expect=resource.expect,
        unhealthy_taint=resource.unhealthy_taint,
        undecided=Reason(Code.UNDECIDED, failed, type(error).__name__),
        empty=None if before.devices else why_undecided(resource, failed),
    )
