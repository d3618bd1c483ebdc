"""The decision: the device list of each resource.

Match, group, make, arbitrate between all resources, carry over what was listed, apply what probes
and others say, and cap: each step turns device lists into others.
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
    is_wanting,
    next_due,
    refused,
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
"""Stands for the path of whatever a resource might offer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The device list of each resource, and when one may change by itself."""

    lists: DeviceLists
    now: float = 0.0
    """When it was made, on the monotonic clock, in seconds."""
    due: float | None = None
    """When time alone changes a list."""
    failures: Mapping[str, Exception] = field(default_factory=dict)
    """By resource, why it could not be decided: it keeps what it had."""
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
    """Return the device lists, by what the host says and what was listed before.

    The same answers give the same decision; what probes and CDI specs add to it, ``with_states``
    says. ``now`` is on the monotonic clock, in seconds. ``held``: what pods and claims have, or may
    have.
    """
    inventory = Inventory(host, node_name)
    while True:
        run = _Pass(
            resources=resources,
            inventory=inventory,
            previous=previous,
            name_owners=NameOwners(resources, previous),
            now=now,
            held=held or Held(),
        )
        run.make_all()
        run.arbitrate()
        lists = run.carry_over(entry_bytes)
        if run.matches.keys().isdisjoint(inventory.failures):
            break
        # Decided by what a resource took that has failed since: again, without that.
    lists = with_warnings(lists, resources, inventory)
    return Decision(
        lists=lists,
        now=now,
        due=_due(lists, previous, now=now),
        failures=inventory.failures,
        awaited=frozenset(run.awaited),
    )


def _due(lists: DeviceLists, previous: Mapping[str, DeviceList], *, now: float) -> float | None:
    """Return when time alone changes one of the lists; None: never."""
    dues = [next_due(it, now=now) for it in lists.values() if it.undecided is None]
    has_left = any(
        before.devices.keys() - lists.get(name, NOTHING).devices.keys()
        for name, before in previous.items()
    )
    if has_left and any(devices.not_offered for devices in lists.values()):
        dues.append(now)  # what left a list may go to another device
    return min((due for due in dues if due is not None), default=None)


def with_states(
    decision: Decision,
    previous: Mapping[str, DeviceList],
    health: Reports,
    spec_errors: Mapping[str, str],
) -> Decision:
    """Return a decision with what probes and specs say, and since when each device is so.

    ``health``: what probes report of each device. ``spec_errors``: by resource, why none of its
    devices can be had now.
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
        # Without what probes and specs said before.
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
        # Who compares ten thousand on the loop is soon done if they are mostly the same objects.
        listed.append(before if before is not None and before == fresh else fresh)
    return replace(devices, entries=(*listed, *devices.not_offered))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    """One way through all resources: what each makes, then what each gets."""

    resources: Sequence[Resource]
    inventory: Inventory
    previous: Mapping[str, DeviceList]
    name_owners: NameOwners
    now: float
    held: Held
    lists: DeviceLists = field(default_factory=dict)
    """What has been decided so far, of all names that result."""
    matches: dict[str, Match] = field(default_factory=dict)
    """What each resource matches; a resource that cannot be decided has none."""
    former: dict[str, FormerDevices] = field(default_factory=dict)
    """By name, the devices of the last list."""
    awaited: dict[Name, str] = field(default_factory=dict)
    """The names of held hardware that is to be offered under another name, and that name."""

    def before(self, name: str, template: str = "") -> DeviceList:
        """Return the last list of a resource.

        For a name that has just resulted from a template: an empty list that counts as decided.
        """
        of_template = self.previous.get(template, NOTHING)
        return self.previous.get(name, replace(NOTHING, owned=of_template.owned))

    def _listed_names(self, resource: Resource) -> list[str]:
        """Return the names under which a resource that cannot be decided has been listed."""
        names = self.name_owners.of(resource)
        return [name for name in names if name == resource.name or name in self.previous]

    def make_all(self) -> None:
        """Make the devices of each resource, but for those where that fails, by resulting names.

        Such a resource keeps what it had. Of what had never been decided it is unknown what it
        would take: later resources get nothing that it might.
        """
        owners = Owners(listed=cache(self._listed))
        for resource in self.resources:
            name = resource.name
            if name not in self.inventory.failures:
                with self.inventory.deciding(name):
                    self._make(resource, owners)
            if name in self.matches:
                owners.enter(resource, self.lists[name].owned or (), self.matches[name])
                continue
            for before in map(self.before, self._listed_names(resource)):
                owners.enter(resource, (key for device in before.kept for key in device.keys))
                owners.enter(resource, before.owned or ())
            if self.before(name).owned is None:
                owners.reserve(resource)

    def _listed(self) -> dict[Identity, set[str]]:
        """Return the resources that had things when they last were decided, by what these are."""
        listed: dict[Identity, set[str]] = {}
        for name, before in self.previous.items():
            # Not what they had lost by then, as to another resource.
            for entry in (it for it in before.devices.values() if it.is_present):
                for identity in entry.device.appearances:
                    listed.setdefault(identity, set()).add(before.template or name)
        return listed

    def _make(self, resource: Resource, owners: Owners) -> None:
        """Match, group and make: enter the lists of a resource and of what results from its name.

        What is made of a group may have to wait until its members stay the same.
        """
        found = match(resource, owners, self.inventory)
        may_have = partial(self.name_owners.enter, resource)
        former = partial(self._former, resource)
        made = make_devices(resource, found, self.inventory, may_have, former, self.held)
        wanting = filter(is_wanting, chain(*made.values()))
        claimed = found.claimed - self._held_by_others(resource, wanting)
        lists = {}
        for name in self.name_owners.of(resource):
            template = "" if name == resource.name else resource.name
            entries = (*(() if template else found.refused), *made.get(name, ()))
            devices = DeviceList(entries=entries, owned=claimed, template=template)
            if owners.reserved:
                devices = devices.each_wanting(partial(self._unless_reserved, resource, owners))
            if resource.group_by is not None:
                before = self.before(name, template)
                devices = devices.each_wanting(settling(before, now=self.now))
            lists[name] = devices
        # All at once: it may fail until here.
        self.matches[resource.name] = found
        self.lists.update(lists)

    def _former(self, resource: Resource, name: str) -> FormerDevices:
        """Return the devices that were last listed under a name of a resource."""
        if name not in self.former:
            template = "" if name == resource.name else resource.name
            self.former[name] = FormerDevices(self.before(name, template))
        return self.former[name]

    def _held_by_others(self, resource: Resource, made: Iterable[Entry[Device]]) -> frozenset[str]:
        """Return the keys of candidates that are held under the name of another resource.

        They are not claimed: if that resource comes later in the config, it keeps its device.
        """
        own = {Name(name, "", resource.served_by) for name in self.name_owners.of(resource)}
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
        """Refuse a device if a resource before might match one of its nodes."""
        device = entry.device
        for node in device.nodes:
            file = self.inventory.file(node.host_path) if node.exclusive else None
            if file is not None and (
                why := owners.why_reserved(self.inventory.of_file(file), resource, device.identity)
            ):
                why = f"its node {node.host_path} {why}"
                return entry.after(Event.REFUSED, Reason(Code.TAKEN, why))
        return entry

    def _absent(self, resource: Resource, name: str) -> tuple[Device, ...]:
        """Return the listed devices that cannot be had just now and keep what is theirs.

        Their hardware and match are still there, or a folder that does not answer hides both. The
        node of a group's member may be that of other hardware by now.
        """
        if (found := self.matches.get(resource.name)) is None:
            return self.before(name).kept
        here = {
            entry.device.id
            for other in self._names(resource)
            for made in filter(is_wanting, self.lists[other].entries)
            for entry in self._former(resource, name).of_device(made.device)
        }
        matched = {candidate.file.identity for candidate in found.members}
        before = self.before(name, self.lists[name].template)
        return tuple(
            device
            for device in (entry.device for entry in before.devices.values())
            if device.id not in here
            and (
                not matched.isdisjoint(device.appearances)
                or not found.unreadable.isdisjoint(device.keys)
                or hidden_by(resource, device, self.inventory)
            )
        )

    def _names(self, resource: Resource) -> list[str]:
        """Return the name of a resource and those that result from it, or have been listed."""
        is_made = resource.name in self.matches
        return self.name_owners.of(resource) if is_made else self._listed_names(resource)

    def arbitrate(self) -> None:
        """Refuse what is held under other names, and what another device has or gets."""
        present = frozenset(
            identity
            for made in self.lists.values()
            for entry in filter(is_wanting, made.entries)
            for identity in entry.device.identities
        )
        names = [(name, it) for it in self.resources for name in self._names(it)]
        # Before anything is refused: what is not offered under one name may be under another one.
        absent = {name: self._absent(resource, name) for name, resource in names}
        for name, resource in names:
            if name in self.lists:
                unless_held = partial(self._unless_held, name, resource, present)
                self.lists[name] = self.lists[name].each_wanting(unless_held)
        # Unguarded, since no resource can make it fail: it looks up and sorts texts. The longest,
        # a path, cannot have the more than 4,300 digits at which int() raises (natural_key).
        former = {
            name: self._former(resource, name).of_device
            for name, resource in names
            if name in self.lists
        }
        self.lists.update(arbitrated(self.lists, absent, former))

    def _unless_held(
        self,
        name: str,
        resource: Resource,
        present: Collection[HardwareIdentity],
        entry: Entry[Device],
    ) -> Entry[Device]:
        """Refuse a device that is held under another name."""
        device = entry.device
        its_name = Name(name, device.id, resource.served_by)
        if device.renamed_to:
            self.awaited[its_name] = device.renamed_to
        if (hold := self.held.blocking(its_name, device, present)) is None:
            return entry
        self.awaited.setdefault(hold.name, str(its_name))
        return entry.after(Event.REFUSED, Reason(Code.HELD, why_blocked(hold, its_name, device)))

    def carry_over(self, entry_bytes: EntryBytes) -> DeviceLists:
        """Return the lists that follow those of before, each no larger than a kubelet takes."""
        lists = {}
        for resource in self.resources:
            for name in self._names(resource):
                lists[name] = before = self.before(name)
                with self.inventory.deciding(resource.name):
                    if name in self.lists:
                        lists[name] = self._list(name, resource, before, entry_bytes)
                    else:
                        failure = self.inventory.failures[resource.name]
                        lists[name] = _as_it_was(resource, before, failure)
                if lists[name].template and not lists[name].entries:
                    del lists[name]
        for name, others in results(lists).items():
            # One that had resulted may be a resource of the config by now, of no template.
            if name in lists and lists[name].undecided is None:
                names = ", ".join(others)
                empty = Reason(Code.RENAMED, f"its devices are those of {names}", names)
                lists[name] = replace(lists[name], empty=empty)
        return lists

    def _list(
        self, name: str, resource: Resource, before: DeviceList, entry_bytes: EntryBytes
    ) -> DeviceList:
        made, found = self.lists[name], self.matches[resource.name]
        others = {other: self.lists[other] for other in self._names(resource)}
        named = with_name(resource, name) if made.template else resource
        entries = carried_over(
            made,
            before,
            named,
            why_gone=WhyGone(named, found, made, others, self.inventory),
            stays=partial(self._stays, name, resource, found),
            held=self.held,
            now=self.now,
        )
        listed = [
            self._with_holds(Name(name, entry.device.id, resource.served_by), entry)
            for entry in entries
            if is_listed(entry)
        ]
        listed.sort(key=lambda entry: natural_key(entry.device.id))
        devices = replace(made, entries=(*listed, *made.not_offered))
        devices = within_limit(devices, before.devices, entry_bytes)
        if devices.devices:
            return devices
        empty = why_empty(named, found, devices.not_offered)
        return replace(devices, empty=empty)

    def _stays(self, name: str, resource: Resource, found: Match, device: Device) -> bool:
        """Return whether a held device that is to be offered under another name stays listed.

        Its pod would be rejected at the next restart of the kubelet if it were Unhealthy.
        """
        its_name = Name(name, device.id, resource.served_by)
        own = self.held.by_name.get(its_name)
        if its_name not in self.awaited or own is None or not own.may_be_held:
            return False
        file = self.inventory.file(device.path)
        return (
            file is not None
            and file.identity == device.identity
            and not found.excluded.reason(file)
        )

    def _with_holds(self, name: Name, entry: Entry[Device]) -> Entry[Device]:
        """Return a listed device with what follows from who holds it."""
        own, other = self.held.by_name.get(name), self.awaited.get(name)
        if other and own is not None and not own.may_be_held:
            why = f"it becomes {other} once the kubelet confirms that no pod holds it"
            entry = entry.after(Event.RENAMED, Reason(Code.RENAMED, why))
        return with_shares(entry, name, self.held)


def _as_it_was(resource: Resource, before: DeviceList, error: Exception) -> DeviceList:
    """Return what a resource keeps that cannot be decided, with the reason."""
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
        undecided=Reason(Code.UNDECIDED, failed, type(error).__name__),
        empty=None if before.devices else why_undecided(resource, failed),
    )
