"""From candidates to groups: which candidates are one device, of which resource, with which ID."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from genericdp.devices.device import NamingRule, as_id
from genericdp.devices.devicelist import refused
from genericdp.devices.hardware import place_of, rank_name
from genericdp.devices.held import Name
from genericdp.devices.identity import (
    WHY_AMBIGUOUS,
    DefaultName,
    declared_attributes,
    default_name,
    identity_of,
    interchangeable_models,
    why_name_is_weak,
)
from genericdp.devices.lookup import Names
from genericdp.devices.transitions import State
from genericdp.printing import printable, shortened
from genericdp.reasons import Code, Reason
from genericdp.template import LackingValueError, UnusableValueError, expand

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from genericdp.devices.device import Device, Unmade
    from genericdp.devices.devicelist import DeviceList, Entry
    from genericdp.devices.held import Held
    from genericdp.devices.identity import HardwareIdentity
    from genericdp.devices.inventory import (
        Candidate,
        FoundFile,
        Host,
        Identity,
        Inventory,
        SysDevice,
    )
    from genericdp.model import Resource


@dataclass(frozen=True, kw_only=True, slots=True)
class CandidateGroup:
    """The candidates that are to be one device."""

    members: tuple[Candidate, ...]
    """At least one, in natural order of their paths."""
    text: str | None = None
    """The result of ``groupBy``; None if the resource has none."""

    @property
    def key(self) -> str:
        """The appearance of the device on the host."""
        return self.members[0].key if self.text is None else f"group {self.text}"

    def refused(self, reason: Reason) -> Entry[Unmade]:
        """Return why it is not offered: one entry, which has the keys of all members."""
        keys = tuple(member.key for member in self.members)
        return refused(self.members[0].file.printable_path, self.key, reason, keys)


def grouped(
    resource: Resource, candidates: Iterable[Candidate], inventory: Inventory
) -> tuple[list[CandidateGroup], list[Entry[Unmade]]]:
    """Return groups in the order of their first members, and the candidates in no group or an
    incomplete one.

    Index and order of discovery do not matter (D2): only the text counts.
    """
    if resource.group_by is None:
        return [CandidateGroup(members=(member,)) for member in candidates], []
    members: dict[str, list[Candidate]] = {}
    lacking: list[Entry[Unmade]] = []
    for candidate in candidates:
        names = Names(candidate, resource=resource, inventory=inventory)
        try:
            text = expand(resource.group_by, names.get_text)
        except UnusableValueError as error:
            reason = Reason(error.code, f"groupBy: {error}")
            lacking.append(refused(candidate.file.printable_path, candidate.key, reason))
            continue
        if not text:
            why = f"groupBy '{resource.group_by}' gives an empty string"
            lacking.append(
                refused(candidate.file.printable_path, candidate.key, Reason(Code.BAD_VALUE, why))
            )
            continue
        members.setdefault(text, []).append(candidate)
    groups = []
    for text, several in members.items():
        group = CandidateGroup(members=tuple(several), text=text)
        if why := _lacking(resource, several):
            why = f"its group '{printable(text)}' has {why}"
            lacking.append(group.refused(Reason(Code.GROUP_INCOMPLETE, why)))
        else:
            groups.append(group)
    return groups, lacking


def _lacking(resource: Resource, members: Sequence[Candidate]) -> str:
    """Return which of the members that ``groupNeeds`` requires a group lacks; empty if none."""
    needs, here, entries = resource.group_needs, len(members), len(resource.match)
    if needs is None:
        return ""
    if isinstance(needs, int):
        missing = needs - here
        return f"{here} of {needs} members: {missing} missing (groupNeeds)" if missing > 0 else ""
    present = {i for member in members for i, why in member.entries.items() if not why}
    absent = [f"match[{i}]" for i in range(entries) if i not in present]
    if not absent:
        return ""
    return (
        f"members of {entries - len(absent)} of {entries} entries:"
        f" {len(absent)} missing, {' and '.join(absent)} (groupNeeds: each)"
    )


def resource_name(
    group: CandidateGroup,
    resource: Resource,
    inventory: Inventory,
    why_not: Callable[[str], str],
) -> str:
    """Return the name of a group's resource, which is the same for all members that have one.

    Raises UnusableValueError.
    """
    if resource.name_template is None:
        return resource.name
    texts = dict[str, str]()
    lacking: LackingValueError | None = None
    for member in group.members:
        names = Names(member, resource=resource, inventory=inventory)
        try:
            texts.setdefault(
                expand(resource.name_template, names.get_text), member.file.printable_path
            )
        except (
            LackingValueError
        ) as error:  # for example, a network card in the group of a GPU has no GPU model
            lacking = error
    if not texts:
        raise LackingValueError(f"name: {lacking}") from lacking
    text = _only(texts, "its members have different names")
    if reason := why_not(text):
        raise UnusableValueError(f"the name {shortened(text)!r} {reason}")
    return text


def _only(texts: Mapping[str, str], what: str) -> str:
    """Return the single text of all members; the mapping has the path of a member for each."""
    if len(texts) > 1:
        both = [f"{text!r} ({path})" for text, path in texts.items()]
        raise UnusableValueError(f"{what}: {both[0]} and {both[1]}")
    return next(iter(texts))


class FormerDevices:
    """The devices of a resource's last list, recognized by their hardware."""

    def __init__(self, before: DeviceList) -> None:
        self._known: dict[object, list[Entry[Device]]] = {}
        """By the key of a group, and by appearance and by place of each member."""
        self._hardware: dict[Identity, HardwareIdentity] = {}
        self._of_devices: dict[int, tuple[Device, list[Entry[Device]]]] = {}
        """Results, each with the device that it is about, by the ``id`` of that object."""
        for listed in before.devices.values():
            device = listed.device
            traits: list[object] = [device.key] if device.members else []
            for appearance, hardware in zip(device.appearances, device.identities, strict=True):
                self._hardware[appearance] = hardware
                traits += (appearance, (hardware.location, hardware.part))
            for trait in traits:
                self._known.setdefault(trait, []).append(listed)

    def hardware_of(self, appearance: Identity) -> HardwareIdentity | None:
        """Return the identity of a device that has not been replugged since; None if unknown."""
        return self._hardware.get(appearance)

    def of(
        self,
        key: str,
        appearances: Sequence[Identity],
        identities: Sequence[HardwareIdentity],
        *,
        is_group: bool,
        groups: Collection[str] = (),
    ) -> list[Entry[Device]]:
        """Return the entries of a device in the list, present ones first.

        A group is recognized by its text, or by its members if no other group has the text now. It
        may be listed under several IDs: the present one, and former ones.
        """
        found = (
            {former.device.id: former for former in self._known.get(key, ())} if is_group else {}
        )
        places = ((hardware.location, hardware.part) for hardware in identities)
        for trait in chain(*zip(appearances, places, strict=True)):
            for listed in self._known.get(trait, ()):
                device = listed.device
                if device.id in found:
                    continue
                if is_group and (not device.members or device.key == key or device.key in groups):
                    continue
                if bool(device.members) is is_group and _contains(device, appearances, identities):
                    found[device.id] = listed
        return sorted(found.values(), key=_last_seen, reverse=True)

    def of_device(self, device: Device) -> list[Entry[Device]]:
        """Return the entries of a finished device in the list."""
        if id(device) not in self._of_devices:
            appearances, is_group = device.appearances, bool(device.members)
            listed = self.of(device.key, appearances, device.identities, is_group=is_group)
            self._of_devices[id(device)] = device, listed
        return self._of_devices[id(device)][1]


def _last_seen(listed: Entry[Device]) -> float:
    return listed.since if listed.state is State.MISSING else inf


def _contains(
    device: Device, appearances: Sequence[Identity], identities: Sequence[HardwareIdentity]
) -> bool:
    """Return whether a device has all of these members: the same appearance, or the same
    hardware.
    """
    return all(
        appearance in device.appearances or any(own.is_same(hardware) for own in device.identities)
        for appearance, hardware in zip(appearances, identities, strict=True)
    )


class Naming(NamedTuple):
    """The ID of a device, as ``Device`` has it."""

    id: str
    named_by: NamingRule | None = None
    renamed_to: str = ""
    weak: str = ""


def _naming_rule(resource: Resource) -> NamingRule:
    """Return the config's rule for the IDs of a resource."""
    templates = (resource.id, resource.group_by)
    references = (ref for template in templates if template for ref in template.references)
    uses_values = any(reference.scope == "value" for reference in references)
    values = tuple(sorted(resource.values.items())) if uses_values else ()
    return NamingRule(*templates, values)


class Namer:
    """Identifies the devices of one resource, and gives them their IDs.

    A device keeps the ID that it has: no fact and no neighbor changes an ID.
    """

    def __init__(
        self,
        resource: Resource,
        groups: Sequence[CandidateGroup],
        inventory: Inventory,
        former: Callable[[str], FormerDevices],
        held: Held,
    ) -> None:
        """``former`` returns the devices that were listed under a name of the resource."""
        self._resource = resource
        self._rule = _naming_rule(resource)
        self._former, self._held = former, held
        self._groups = groups
        self._inventory = inventory
        self._host = inventory.host
        self._is_interchangeable = interchangeable_models(resource)
        self._declared = declared_attributes(resource)

    def identity_of(self, file: FoundFile, device: SysDevice | None) -> HardwareIdentity:
        """Return the identity of candidates; raise UnusableValueError if it cannot be read."""
        return identity_of(
            file,
            device,
            self._host,
            interchangeable=self._is_interchangeable,
            declared=self._declared,
            siblings=self._inventory.siblings,
        )

    def identity_of_member(self, member: Candidate, name: str) -> HardwareIdentity:
        """Return the identity of a member; raise UnusableValueError if it is new and cannot be
        read.
        """
        known = self._former(name).hardware_of(member.file.identity)
        if known is not None and known.is_complete:
            return known  # it has not been replugged since
        try:
            return self.identity_of(member.file, member.device)
        except UnusableValueError:
            if known is None:
                raise
            return known

    def naming(
        self,
        group: CandidateGroup,
        name: str,
        names: Sequence[Names],
        identities: Sequence[HardwareIdentity],
    ) -> Naming:
        """Return the ID of a device: the one that it already has, else that of the config.

        ``name`` is that of its resource. Raise UnusableValueError if none can be made, and it has
        none or is a group: its text says which group it is.
        """
        is_group, kept = group.text is not None, self._kept(group, name, identities)
        if kept is not None and kept.named_by == self._rule and not is_group:
            return kept
        text, weak = self._id_text(group, names)
        if self._resource.id is None and not is_group and identities[0].is_ambiguous:
            weak = weak or WHY_AMBIGUOUS
        wish = as_id(text)
        kept = kept or self._of_earlier_version(group, name)
        if kept is None or kept.id == wish:
            return Naming(wish, self._rule, weak=weak)
        renamed_to = "" if kept.named_by == self._rule else wish
        return Naming(kept.id, kept.named_by, renamed_to)

    def _kept(
        self, group: CandidateGroup, name: str, identities: Sequence[HardwareIdentity]
    ) -> Naming | None:
        """Return the ID that a device keeps, or None.

        An ID from an earlier rule is kept as long as the device may be held.
        """
        is_group, served_by = group.text is not None, self._resource.served_by
        listed = self._former(name).of(
            group.key,
            [member.file.identity for member in group.members],
            identities,
            is_group=is_group,
            groups=self._group_keys if is_group else frozenset(),
        )
        for device in (entry.device for entry in listed):
            is_held = Name(name, device.id, served_by) in self._held.by_name
            if device.named_by == self._rule or is_held:
                return Naming(device.id, device.named_by, weak=device.weak_id)
        for held in (hold for own in identities if not listed for hold in self._held.of(own)):
            if (held.name.resource, held.name.served_by) == (name, served_by):
                return Naming(held.name.device_id)
        return None

    def _of_earlier_version(self, group: CandidateGroup, name: str) -> Naming | None:
        """Return the default ID that an earlier version gave a device, if a pod still holds it.

        If it is unknown which version made an ID, an ID that looks like a current default ID counts
        as one.
        """
        first, held = group.members[0], self._held
        if group.text is not None or self._resource.id is not None or first.device is None:
            return None
        former_id = as_id(rank_name(first.device, self._host) or "")
        if former_id in held.former_ids.get(name, ()) and (
            held.is_upgrade or former_id not in self._default_ids
        ):
            return Naming(former_id)
        return None

    # Each device needs all of them.
    @cached_property
    def _group_keys(self) -> frozenset[str]:
        return frozenset(group.key for group in self._groups)

    @cached_property
    def _default_ids(self) -> frozenset[str]:
        members = (group.members[0] for group in self._groups)
        return frozenset(as_id(_default_name(member, self._host).text) for member in members)

    def _id_text(self, group: CandidateGroup, names: Sequence[Names]) -> DefaultName:
        """Return the text for the ID, which is the same for every member."""
        template = self._resource.id
        if template is None:
            if group.text is not None:
                return DefaultName(group.text)
            return _default_name(group.members[0], self._host)
        texts: dict[str, str] = {}
        for member, variables in zip(group.members, names, strict=True):
            texts.setdefault(expand(template, variables.get_text), member.file.printable_path)
        if not (text := _only(texts, "its members have different ids")):
            raise UnusableValueError(f"its id '{template}' is an empty string")
        return DefaultName(text)


def _default_name(candidate: Candidate, host: Host) -> DefaultName:
    """Return the default ID from the place of the hardware, else from the path that found it.

    Raise UnusableValueError if a fact that it depends on cannot be read.
    """
    device, file = candidate.device, candidate.file
    if device is not None and (place_of(device, host) is not None or not file.is_link):
        if (found := default_name(device, host)) is not None:
            return found
        return DefaultName(device.name, why_name_is_weak(device.name, device))
    if file.identity.syspath and not file.is_link:
        return DefaultName(file.kernel_name, why_name_is_weak(file.kernel_name, None))
    name = candidate.path.removeprefix("/dev/")
    is_counted = candidate.has_node and not file.is_link
    return DefaultName(name, why_name_is_weak(name, None) if is_counted else "")
