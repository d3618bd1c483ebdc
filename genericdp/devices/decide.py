"""The decision: the device list of each resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.control_nodes import with_control_nodes
from genericdp.devices.device import (
    Device,
    Member,
    NotOffered,
    Report,
    naming_rule,
)
from genericdp.devices.devicelist import (
    NOTHING,
    Arriving,
    DeviceList,
    next_due,
    resolve_conflicts,
    stable_groups,
    weightless,
    with_health,
    with_shares,
    with_vanished,
    within_limit,
)
from genericdp.devices.empty import EmptyCause, NoDevices, why_empty
from genericdp.devices.held import Held, Name, why_blocked
from genericdp.devices.in_use import with_warnings
from genericdp.devices.inventory import Inventory
from genericdp.devices.making import MadeDevices, make_devices
from genericdp.devices.matching import Owners, match
from genericdp.devices.recognition import FormerDevices, KeptIds
from genericdp.devices.resourcenames import NameOwners, resulting, results, with_name
from genericdp.devices.selectors import path_globs
from genericdp.printing import shortened
from genericdp.reasons import MAX_REASON, Code, Reason
from genericdp.regex import SearchTimeError

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Sequence

    from genericdp.devices.devicelist import EntryBytes, ListedDevice
    from genericdp.devices.identity import HardwareIdentity
    from genericdp.devices.inventory import Host, Identity
    from genericdp.devices.matching import Match
    from genericdp.model import Resource

DeviceLists = dict[str, DeviceList]
"""By resource name, in the order of the config."""
Reports = Mapping[str, Mapping[str, Report]]
"""What probes say, by resource and ID."""

EVERYTHING = "(all)"
"""Stands for the path of whatever a resource might offer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The device list of each resource, and when one may change by itself."""

    lists: DeviceLists
    due: float | None = None
    """When time alone changes a list, on the monotonic clock, in seconds."""
    failures: Mapping[str, Exception] = field(default_factory=dict)
    """By resource, why it could not be decided: it keeps what it had."""
    awaited: frozenset[Name] = frozenset()
    """The names of held hardware that is to be offered under another name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """The devices of one resource, before it is known what others want."""

    resource: Resource
    template: str
    """As ``DeviceList.template``."""
    match: Match
    devices: Sequence[Device]
    absent: Sequence[Device]
    """Listed devices that cannot be had just now and keep what is theirs."""
    refused: list[NotOffered]
    without_name: Sequence[NotOffered]
    """What of its match has got no name, and why."""
    resource_of_key: Mapping[str, str]
    """The name of the resource that has a device of its match, by the device's key."""
    arriving: Mapping[str, Arriving]
    claimed: frozenset[str]
    """The keys of the candidates that no later resource gets."""
    former: FormerDevices


def decide(
    resources: Sequence[Resource],
    host: Host,
    *,
    node_name: str,
    previous: Mapping[str, DeviceList],
    now: float,
    health: Reports | None = None,
    held: Held | None = None,
    spec_errors: Mapping[str, str] | None = None,
    entry_bytes: EntryBytes = weightless,
) -> Decision:
    """Return the device lists, by what host and probes say and what was listed before.

    The same answers give the same decision. ``now`` is on the monotonic clock, in seconds.
    ``health``: what probes report of each device; None: nothing is probed. ``held``: what pods and
    claims have, or may have. ``spec_errors``: by resource, why none of its devices can be had now.
    """
    inventory = Inventory(host, node_name)
    failures = inventory.failures
    while True:
        one = _Pass(
            resources=resources,
            inventory=inventory,
            previous=previous,
            name_owners=NameOwners(resources, previous),
            now=now,
            held=held or Held(),
            entry_bytes=entry_bytes,
        )
        drafts = one.drafts()
        lists = one.lists(drafts)
        if drafts.keys().isdisjoint(failures):
            break
        # Decided by what a resource took that has failed since: again, without that.
    dues = [
        next_due(lists[name], one.forget_after_seconds, now=now)
        for name, one in resulting(resources, lists).items()
        if not lists[name].failed
    ]
    left = (
        one.devices.keys() - lists.get(name, NOTHING).devices.keys()
        for name, one in previous.items()
    )
    if any(one.not_offered for one in lists.values()) and any(left):
        dues.append(now)  # somebody may get what left a list
    due = min((moment for moment in dues if moment is not None), default=None)
    lists = with_control_nodes(with_warnings(lists, inventory), resources, inventory)
    return Decision(
        lists=with_states(lists, previous, health, spec_errors or {}, now=now),
        due=due,
        failures=failures,
        awaited=frozenset(one.awaited),
    )


def with_states(
    lists: DeviceLists,
    previous: Mapping[str, DeviceList],
    health: Reports | None,
    spec_errors: Mapping[str, str],
    *,
    now: float,
) -> DeviceLists:
    """Return lists that have been decided with other health or errors; all as of ``decide``."""
    return {
        name: with_health(
            listed,
            previous.get(name, NOTHING),
            None if health is None else health.get(name, {}),
            spec_error=spec_errors.get(name, ""),
            now=now,
        )
        for name, listed in lists.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    """One way through all resources: what each makes, then what each gets."""

    resources: Sequence[Resource]
    inventory: Inventory
    previous: Mapping[str, DeviceList]
    name_owners: NameOwners
    now: float
    held: Held
    entry_bytes: EntryBytes
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

    def drafts(self) -> dict[str, dict[str, _Draft]]:
        """Make the devices of each resource, but for those where that fails, by resulting names.

        Such a resource keeps what it had. Of what had never been decided nobody knows what it
        would take: later resources get nothing that it might.
        """
        owners = Owners(listed=cache(self._listed))
        drafts: dict[str, dict[str, _Draft]] = {}
        for resource in self.resources:
            name = resource.name
            if name not in self.inventory.failures:
                with self.inventory.deciding(name):
                    drafts[name] = self._drafts_of(resource, owners)
            if name in drafts:
                draft = drafts[name][name]
                owners.enter(resource, draft.claimed, draft.match)
                continue
            for before in map(self.before, self._listed_names(resource)):
                owners.enter(resource, (key for device in before.kept for key in device.keys))
                owners.enter(resource, before.owned or ())
            if self.before(name).owned is None:
                owners.reserve(resource)
        return drafts

    def _listed(self) -> dict[Identity, set[str]]:
        """Return the resources that had things when they last were decided, by what these are."""
        listed: dict[Identity, set[str]] = {}
        for name, before in self.previous.items():
            # Not what they had lost by then, as to another resource.
            for device in (it.device for it in before.devices.values() if it.gone_since is None):
                for identity in device.appearances:
                    listed.setdefault(identity, set()).add(before.template or name)
        return listed

    def _drafts_of(self, resource: Resource, owners: Owners) -> dict[str, _Draft]:
        """Return the drafts of a resource and of those that result from its name."""
        found = match(resource, owners, self.inventory)
        may_have = partial(self.name_owners.enter, resource)
        kept: dict[str, KeptIds] = {}

        def ids_of(name: str) -> KeptIds:
            if name not in kept:
                kept[name] = self._kept_ids(name, resource)
            return kept[name]

        made = make_devices(resource, found, self.inventory, may_have, ids_of)
        claimed = found.claimed - self._held_by_others(resource, made)
        own = made[resource.name]
        own.refused[:0] = found.refused
        resource_of_key = {it.key: name for name, one in made.items() for it in one.devices}
        drafts = {}
        for name in self.name_owners.of(resource):
            template = "" if name == resource.name else resource.name
            one, before = made.get(name, MadeDevices()), self.before(name, template)
            devices, refused = self._free(one, resource, owners)
            arriving = dict[str, Arriving]()
            if resource.group_by is not None:
                devices, waiting, arriving = stable_groups(devices, before, now=self.now)
                refused += waiting
            former = ids_of(name).former
            others = (
                other for key, made_of in made.items() if key != name for other in made_of.devices
            )
            here = {
                listed.device.id
                for device in (*devices, *others)
                for listed in former.of_device(device)
            }
            drafts[name] = _Draft(
                resource=with_name(resource, name) if template else resource,
                template=template,
                match=found,
                devices=devices,
                absent=self._absent(resource, found, here, before),
                refused=refused,
                without_name=own.refused if template else (),
                resource_of_key=resource_of_key,
                arriving=arriving,
                claimed=claimed,
                former=former,
            )
        return drafts

    def _kept_ids(self, name: str, resource: Resource) -> KeptIds:
        template = "" if name == resource.name else resource.name
        return KeptIds(
            Name(name, "", resource.served_by),
            FormerDevices(self.before(name, template)),
            self.held,
            naming_rule(resource),
        )

    def _held_by_others(
        self, resource: Resource, made: Mapping[str, MadeDevices]
    ) -> frozenset[str]:
        """Return the keys of candidates that are held under the name of another resource.

        They are not claimed: if that resource comes later in the config, it keeps its device.
        """
        own = {Name(name, "", resource.served_by) for name in self.name_owners.of(resource)}
        return frozenset(
            key
            for one in made.values()
            for device in one.devices
            if any(
                held.name._replace(device_id="") not in own and (held.exclusive or device.exclusive)
                for identity in device.identities
                for held in self.held.of(identity)
            )
            for key in device.keys
        )

    def _free(
        self, made: MadeDevices, resource: Resource, owners: Owners
    ) -> tuple[list[Device], list[NotOffered]]:
        """Return the devices that no resource before might match, and what is refused."""
        devices, refused = [], [*made.refused]
        for one in made.devices:
            if reason := self._why_reserved(one, resource, owners):
                refused.append(one.refused(Reason(Code.TAKEN, reason)))
            else:
                devices.append(one)
        return devices, refused

    def _why_reserved(self, device: Device, resource: Resource, owners: Owners) -> str:
        """Return which node of a device a resource before might match."""
        if not owners.reserved:
            return ""
        for node in device.nodes:
            file = self.inventory.file(node.host_path) if node.exclusive else None
            if file is not None and (
                why := owners.why_reserved(self.inventory.of_file(file), resource, device.identity)
            ):
                return f"its node {node.host_path} {why}"
        return ""

    def _absent(
        self, resource: Resource, match: Match, here: Container[str], before: DeviceList
    ) -> tuple[Device, ...]:
        """Return the listed devices that cannot be had just now and keep what is theirs.

        Their hardware and match are still there, or a folder that does not answer hides both. The
        node of a group's member may be that of other hardware by now.
        """
        matched = {candidate.file.identity for candidate in match.members}
        return tuple(
            device
            for device in (it.device for it in before.devices.values())
            if device.id not in here
            and (
                not matched.isdisjoint(device.appearances)
                or not match.unreadable.isdisjoint(device.keys)
                or _hidden_by(resource, device, self.inventory)
            )
        )

    def lists(self, drafts: Mapping[str, Mapping[str, _Draft]]) -> DeviceLists:
        """Resolve conflicts, and return the lists that follow those of before."""
        by_name = {name: one for results in drafts.values() for name, one in results.items()}
        present = frozenset(
            identity
            for one in by_name.values()
            for device in one.devices
            for identity in device.identities
        )
        wanting = {name: self._not_held(name, one, present) for name, one in by_name.items()}
        resources = {
            name: resource
            for resource in self.resources
            for name in drafts.get(resource.name, self._listed_names(resource))
        }
        absent = {
            name: by_name[name].absent if name in by_name else self.before(name).kept
            for name in resources
        }
        # Unguarded, since no resource can make it fail: it looks up and sorts texts. The longest,
        # a path, cannot have the more than 4,300 digits at which int() raises (natural_key).
        former = {name: one.former.of_device for name, one in by_name.items()}
        winners, losers = resolve_conflicts(wanting, absent, former)
        for name, its in losers.items():
            by_name[name].refused.extend(its)
        lists = {}
        for name, resource in resources.items():
            before = lists[name] = self.before(name)
            with self.inventory.deciding(resource.name):
                if name in by_name:
                    lists[name] = self._list(by_name[name], winners[name])
                else:
                    failure = self.inventory.failures[resource.name]
                    lists[name] = _as_it_was(resource, before, failure)
            now = lists[name]
            if now.template and not (now.devices or now.arriving or now.not_offered):
                del lists[name]
        for name, others in results(lists).items():
            # One that had resulted may be a resource of the config by now, of no template.
            if name in lists and not lists[name].failed:
                seen = f"its devices are those of {', '.join(others)}"
                empty = NoDevices(resource=resources[name], cause=None, seen=seen)
                lists[name] = replace(lists[name], empty=empty)
        return lists

    def _not_held(
        self, name: str, draft: _Draft, present: Collection[HardwareIdentity]
    ) -> list[Device]:
        """Return the devices of a draft that are held under no other name; refuse the others."""
        free = []
        for device in draft.devices:
            its_name = Name(name, device.id, draft.resource.served_by)
            if device.renamed_to:
                self.awaited[its_name] = device.renamed_to
            if (hold := self.held.blocking(its_name, device, present)) is None:
                free.append(device)
                continue
            why = why_blocked(hold, its_name, device)
            draft.refused.append(device.refused(Reason(Code.HELD, why)))
            self.awaited.setdefault(hold.name, str(its_name))
        return free

    def _stays(self, draft: _Draft, device: Device) -> bool:
        """Return whether a held device that is to be offered under another name stays listed.

        Its pod would be rejected at the next restart of the kubelet if it were Unhealthy.
        """
        name = Name(draft.resource.name, device.id, draft.resource.served_by)
        if name not in self.awaited or not self.held.by_name[name].may_be_held:
            return False
        found = self.inventory.file(device.path)
        return (
            found is not None
            and found.identity == device.identity
            and not draft.match.excluded.reason(found)
        )

    def _with_holds(self, name: Name, listed: ListedDevice) -> ListedDevice:
        """Return a listed device with what follows from who holds it."""
        own, other = self.held.by_name.get(name), self.awaited.get(name)
        if other and own is not None and not own.may_be_held and not listed.missing:
            why = f"it becomes {other} once the kubelet confirms that no pod holds it"
            listed = replace(listed, missing=(Reason(Code.RENAMED, why),))
        return with_shares(listed, name, self.held)

    def _list(self, draft: _Draft, devices: Sequence[Device]) -> DeviceList:
        resource, name = draft.resource, draft.resource.name
        before = self.before(name).devices
        reasons = _Reasons(resource, draft, devices, self.inventory)
        listed = with_vanished(
            resource,
            before,
            devices,
            why_gone=reasons.of_device,
            why_lost=reasons.of_member,
            stays=partial(self._stays, draft),
            now=self.now,
            held=self.held,
        )
        listed = {
            device_id: self._with_holds(Name(name, device_id, resource.served_by), it)
            for device_id, it in listed.items()
        }
        kept, left_out = within_limit(listed, before, self.entry_bytes)
        won = {device.key for device in devices}
        not_offered, empty = (*draft.refused, *left_out), None
        if not kept:
            empty = why_empty(resource, draft.match, not_offered)
        return DeviceList(
            devices=kept,
            not_offered=not_offered,
            empty=empty,
            arriving={key: it for key, it in draft.arriving.items() if key not in won},
            owned=draft.claimed,
            template=draft.template,
        )


def _hidden_by(resource: Resource, device: Device, inventory: Inventory) -> str:
    """Return the glob that hangs and so hides whether the device is still there."""
    found_by = (one for one in path_globs(resource.match) if glob.matches(one, device.path))
    globs = (*found_by, *path_globs(resource.exclude))
    return next((one for one in globs if one in inventory.hanging), "")


def _as_it_was(resource: Resource, before: DeviceList, error: Exception) -> DeviceList:
    """Return what a resource keeps that cannot be decided, with the reason."""
    what = str(error) if isinstance(error, SearchTimeError) else repr(error)
    if isinstance(error, MemoryError):
        what = "there is not enough memory"
    failed = shortened(f"it cannot be decided what is offered: {what}", MAX_REASON)
    others = (one for one in before.not_offered if one.reason.code is not Code.UNDECIDED)
    reason = Reason(Code.UNDECIDED, f"{failed}; what was offered stays as it was")
    everything = NotOffered(path=EVERYTHING, key="", reason=reason)
    undecided = NoDevices(resource=resource, cause=EmptyCause.UNDECIDED, seen=failed)
    return replace(
        before,
        failed=failed,
        not_offered=(everything, *others),
        empty=None if before.devices else undecided,
    )


class _Reasons:
    """Why devices of a list, and members of them, are not there any more."""

    def __init__(
        self, resource: Resource, draft: _Draft, devices: Sequence[Device], inventory: Inventory
    ) -> None:
        self._resource = resource
        self._inventory = inventory
        self._refused = {it.key: it.reason for it in (*draft.without_name, *draft.refused)}
        self._resource_of_key = draft.resource_of_key
        self._matched = frozenset(it.key for it in draft.match.members)
        # Another config gives another ID.
        self._ids = {it.appearances: it.id for it in devices}

    def of_member(self, member: Member) -> Reason:
        """Return why a group has lost a member."""
        if (refused := self._refused.get(member.key)) is not None:
            return replace(refused, text=f"{member.path}: {refused}", subject=member.path)
        return Reason(Code.MEMBER_LOST, f"{member.path} is missing", member.path)

    def of_device(self, device: Device) -> tuple[Reason, ...]:
        """Return why a device is gone."""
        if (refused := self._refused.get(device.key)) is not None:
            if not device.members:
                refused = replace(refused, text=f"{device.path}: {refused}")
            return (*self._lost_members(device), refused)
        refusals = [self.of_member(one) for one in device.members if one.key in self._refused]
        return tuple(refusals) or (self._gone(device),)

    def _gone(self, device: Device) -> Reason:
        """Return why a device is gone that nothing keeps from being offered."""
        if hanging := _hidden_by(self._resource, device, self._inventory):
            return Reason(Code.HANGING, f"looking at {hanging} does not end")
        new_id = self._ids.get(device.appearances, "")
        found = self._inventory.file(device.path)
        if found is None:
            now = f"; it is {new_id} now" if new_id else ""
            return Reason(Code.GONE, f"{self._not_existing(device)}{now}")
        if found.key != device.keys[0]:
            now = f"; its device is {new_id} now" if new_id else ""
            refused = self._refused.get(found.key)
            why = f"; that is not offered: {refused}" if refused else ""
            return Reason(Code.REPLACED, f"{device.path} is something else now{now}{why}")
        if new_id:
            return Reason(Code.RENAMED, f"{device.path} is now {new_id}")
        if self._inventory.host.awaited(found.identity.syspath or ""):
            why = f"{device.path} is back, but udev has not recorded it yet"
            return Reason(Code.UNREADABLE, why)
        # Another resource of the same template may have it now.
        name = self._resource_of_key.get(device.key, self._resource.name)
        if name != self._resource.name:
            return Reason(Code.RENAMED, f"{device.path} is one of {name} now")
        return Reason(Code.NOT_MATCHED, f"{device.path} is no longer matched")

    def _lost_members(self, device: Device) -> list[Reason]:
        """Return which members a group has lost, if some are still there."""
        if self._matched.isdisjoint(device.keys):
            return []
        return [self.of_member(one) for one in device.members if one.key not in self._matched]

    def _not_existing(self, device: Device) -> str:
        paths = [one.path for one in device.members if self._inventory.file(one.path) is None]
        if len(paths) < 2:
            return f"{device.path} does not exist"
        return f"{', '.join(paths[:-1])} and {paths[-1]} do not exist"
