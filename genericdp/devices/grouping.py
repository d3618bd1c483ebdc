"""Groups: the candidates that are one device together, by the text of ``groupBy``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.devices.candidates import entries
from genericdp.devices.device import MOST_REASON, NotOffered
from genericdp.devices.lookup import Names
from genericdp.devices.matching import not_offered
from genericdp.printing import printable, shortened
from genericdp.template import UnusableValueError, expand

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from genericdp.devices.candidates import Candidate
    from genericdp.devices.inventory import Inventory
    from genericdp.model import Resource
    from genericdp.template import Template


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """What is to be one device."""

    members: tuple[Candidate, ...]
    """At least one, in natural order of their paths."""
    text: str | None = None
    """What they have in common; None: the resource groups nothing."""

    @property
    def key(self) -> str:
        """What the device is on the host."""
        return self.members[0].file.key if self.text is None else f"group {self.text}"


def group(
    resource: Resource, candidates: Iterable[Candidate], inventory: Inventory, node_name: str
) -> tuple[list[Group], list[NotOffered]]:
    """Give the groups in the order of their first members, and what is in none or incomplete.

    Index and order of discovery play no part (D2): only the text counts.
    """
    if resource.group_by is None:
        return [Group(members=(one,)) for one in candidates], []
    members: dict[str, list[Candidate]] = {}
    refused = []
    for one in candidates:
        try:
            text = _text(resource, resource.group_by, one, inventory, node_name)
        except UnusableValueError as error:
            refused.append(not_offered(resource, one, str(error)))
        else:
            members.setdefault(text, []).append(one)
    groups = [Group(members=tuple(several), text=text) for text, several in members.items()]
    incomplete = _incomplete(resource, groups, inventory, node_name)
    refused += (refusal(resource, one, why) for one, why in incomplete)
    left_out = {one.text for one, _ in incomplete}
    return [one for one in groups if one.text not in left_out], refused


def refusal(resource: Resource, group: Group, reason: str) -> NotOffered:
    """Say why a group is not offered: one line, and every member knows of it."""
    if group.text is None:
        return not_offered(resource, group.members[0], reason)
    return NotOffered(
        resource=resource.name,
        path=group.members[0].file.shown,
        key=group.key,
        reason=shortened(reason, MOST_REASON),
        members=tuple(one.file.key for one in group.members),
    )


def _text(
    resource: Resource,
    template: Template,
    candidate: Candidate,
    inventory: Inventory,
    node_name: str,
) -> str:
    """Return what ``groupBy`` gives for one candidate; raises UnusableValueError."""
    names = Names(candidate, resource=resource, inventory=inventory, node_name=node_name)
    try:
        text = expand(template, names.get_text)
    except UnusableValueError as error:
        raise UnusableValueError(f"groupBy: {error}") from error
    if not text:
        raise UnusableValueError(f"groupBy '{template}' gives an empty text")
    return text


def _incomplete(
    resource: Resource, groups: Sequence[Group], inventory: Inventory, node_name: str
) -> list[tuple[Group, str]]:
    """Give the groups that lack members, and which."""
    needs = resource.group_needs
    if needs is None:
        return []
    if isinstance(needs, int):
        return [(one, _too_few(one, needs)) for one in groups if len(one.members) < needs]
    taking = entries(resource, inventory, node_name)
    everything = range(len(resource.match))
    lacking = []
    for one in groups:
        present = {i for member in one.members for i in taking.get(member.key, ())}
        if absent := [f"match[{i}]" for i in everything if i not in present]:
            lacking.append((one, _no_member(one, absent, len(everything))))
    return lacking


def _too_few(group: Group, needs: int) -> str:
    here = len(group.members)
    return (
        f"its group {_shown(group)} has {here} of {needs} members:"
        f" {needs - here} missing (groupNeeds)"
    )


def _no_member(group: Group, absent: Sequence[str], entries: int) -> str:
    return (
        f"its group {_shown(group)} has members of {entries - len(absent)} of {entries} entries:"
        f" {len(absent)} missing, {' and '.join(absent)} (groupNeeds: each)"
    )


def _shown(group: Group) -> str:
    return f"'{printable(group.text or '')}'"
