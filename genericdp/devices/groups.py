"""From candidates to groups: what is one device, of which resource, and by what ID."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from genericdp.devices.carry_over import KeptId
from genericdp.devices.device import NamingRule, as_id
from genericdp.devices.devicelist import refused
from genericdp.devices.hardware import place_of, rank_name
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
from genericdp.printing import printable, shortened
from genericdp.reasons import Code, Reason
from genericdp.template import LackingValueError, UnusableValueError, expand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from genericdp.devices.carry_over import KeptIds
    from genericdp.devices.device import Unmade
    from genericdp.devices.devicelist import Entry
    from genericdp.devices.identity import HardwareIdentity
    from genericdp.devices.inventory import Candidate, FoundFile, Host, Inventory, SysDevice
    from genericdp.model import Resource


@dataclass(frozen=True, kw_only=True, slots=True)
class CandidateGroup:
    """What is to be one device."""

    members: tuple[Candidate, ...]
    """At least one, in natural order of their paths."""
    text: str | None = None
    """What they have in common; None: the resource groups nothing."""

    @property
    def key(self) -> str:
        """What the device is on the host."""
        return self.members[0].key if self.text is None else f"group {self.text}"

    def refused(self, reason: Reason) -> Entry[Unmade]:
        """Return why it is not offered: one line, and every member knows of it."""
        keys = tuple(one.key for one in self.members)
        return refused(self.members[0].file.printable_path, self.key, reason, keys)


def grouped(
    resource: Resource, candidates: Iterable[Candidate], inventory: Inventory
) -> tuple[list[CandidateGroup], list[Entry[Unmade]]]:
    """Return groups in the order of their first members, and what is in none or incomplete.

    Index and order of discovery play no part (D2): only the text counts.
    """
    if resource.group_by is None:
        return [CandidateGroup(members=(one,)) for one in candidates], []
    members: dict[str, list[Candidate]] = {}
    lacking: list[Entry[Unmade]] = []
    for one in candidates:
        names = Names(one, resource=resource, inventory=inventory)
        try:
            text = expand(resource.group_by, names.get_text)
        except UnusableValueError as error:
            reason = Reason(error.code, f"groupBy: {error}")
            lacking.append(refused(one.file.printable_path, one.key, reason))
            continue
        if not text:
            why = f"groupBy '{resource.group_by}' gives an empty text"
            lacking.append(refused(one.file.printable_path, one.key, Reason(Code.BAD_VALUE, why)))
            continue
        members.setdefault(text, []).append(one)
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
    """Return which of the members that ``groupNeeds`` asks for a group lacks; empty if none."""
    needs, here, entries = resource.group_needs, len(members), len(resource.match)
    if needs is None:
        return ""
    if isinstance(needs, int):
        missing = needs - here
        return f"{here} of {needs} members: {missing} missing (groupNeeds)" if missing > 0 else ""
    present = {i for member in members for i in member.entries}
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
    for one in group.members:
        names = Names(one, resource=resource, inventory=inventory)
        try:
            texts.setdefault(
                expand(resource.name_template, names.get_text), one.file.printable_path
            )
        except LackingValueError as error:  # as the network card beside a GPU has no GPU model
            lacking = error
    if not texts:
        raise LackingValueError(f"name: {lacking}") from lacking
    text = _only(texts, "its members have different names")
    if reason := why_not(text):
        raise UnusableValueError(f"the name {shortened(text)!r} {reason}")
    return text


def _only(texts: Mapping[str, str], what: str) -> str:
    """Return the only text of members, by which there is the path of one that has it."""
    if len(texts) > 1:
        both = [f"{text!r} ({path})" for text, path in texts.items()]
        raise UnusableValueError(f"{what}: {both[0]} and {both[1]}")
    return next(iter(texts))


class Naming(NamedTuple):
    """The ID of a device, as ``Device`` has it."""

    id: str
    identities: tuple[HardwareIdentity, ...]
    named_by: NamingRule | None
    renamed_to: str = ""
    weak: str = ""


class Namer:
    """Says what the devices of one resource are, and gives them their IDs."""

    def __init__(
        self, resource: Resource, groups: Sequence[CandidateGroup], inventory: Inventory
    ) -> None:
        self._resource = resource
        self._groups = groups
        self._inventory = inventory
        self._host = inventory.host
        self._is_interchangeable = interchangeable_models(resource)
        self._declared = declared_attributes(resource)

    def identity_of(self, file: FoundFile, device: SysDevice | None) -> HardwareIdentity:
        """Return what something is; raise UnusableValueError if that cannot be read."""
        return identity_of(
            file,
            device,
            self._host,
            interchangeable=self._is_interchangeable,
            declared=self._declared,
            siblings=self._inventory.siblings,
        )

    def _identity(self, member: Candidate, ids: KeptIds) -> HardwareIdentity:
        """Return what a member is; raise UnusableValueError if that cannot be read and is new."""
        known = ids.former.hardware_of(member.file.identity)
        if known is not None and known.is_complete:
            return known  # it has not been plugged in again since
        try:
            return self.identity_of(member.file, member.device)
        except UnusableValueError:
            if known is None:
                raise
            return known

    def naming(self, group: CandidateGroup, names: Sequence[Names], ids: KeptIds) -> Naming:
        """Return the ID of a device: the one that it has already, else what the config gives it.

        Raise UnusableValueError if it has none and none can be made.
        """
        identities = tuple(self._identity(member, ids) for member in group.members)
        is_group = group.text is not None
        kept = ids.kept(
            group.key,
            [member.file.identity for member in group.members],
            identities,
            is_group=is_group,
            groups=self._group_keys if is_group else frozenset(),
        )
        if kept is not None and kept.named_by == ids.rule and not is_group:
            return Naming(kept.id, identities, ids.rule, weak=kept.weak)
        text, weak = self._id_text(group, names)
        if self._resource.id is None and not is_group and identities[0].is_ambiguous:
            weak = weak or WHY_AMBIGUOUS
        wish = as_id(text)
        if kept is None and (former_id := self._former_id(group, ids)):
            kept = KeptId(former_id)
        if kept is None or kept.id == wish:
            return Naming(wish, identities, ids.rule, weak=weak)
        if kept.named_by == ids.rule:
            return Naming(kept.id, identities, ids.rule)
        return Naming(kept.id, identities, kept.named_by, renamed_to=wish)

    def _former_id(self, group: CandidateGroup, ids: KeptIds) -> str:
        """Return the default ID that an earlier version gave a device, if a pod still holds it.

        Empty if it does not.
        """
        first = group.members[0]
        if group.text is not None or self._resource.id is not None or first.device is None:
            return ""
        former_id = as_id(rank_name(first.device, self._host) or "")
        if former_id and ids.was_given(former_id, lambda: self._default_ids):
            return former_id
        return ""

    # Each device asks for all of them.
    @cached_property
    def _group_keys(self) -> frozenset[str]:
        return frozenset(group.key for group in self._groups)

    @cached_property
    def _default_ids(self) -> frozenset[str]:
        members = (group.members[0] for group in self._groups)
        return frozenset(as_id(_default_name(member, self._host).text) for member in members)

    def _id_text(self, group: CandidateGroup, names: Sequence[Names]) -> DefaultName:
        """Return what the ID is made of, which is the same for every member."""
        template = self._resource.id
        if template is None:
            if group.text is not None:
                return DefaultName(group.text)
            return _default_name(group.members[0], self._host)
        texts: dict[str, str] = {}
        for member, its in zip(group.members, names, strict=True):
            texts.setdefault(expand(template, its.get_text), member.file.printable_path)
        if not (text := _only(texts, "its members have different ids")):
            raise UnusableValueError(f"its id '{template}' is an empty text")
        return DefaultName(text)


def _default_name(candidate: Candidate, host: Host) -> DefaultName:
    """Return what stays while the hardware stays where it is, else how it was found.

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
