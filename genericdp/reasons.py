"""Reasons: in which ways a device ends up not offered, or listed as Unhealthy.

A reason has a code, which programs compare, and a text for people, which nothing ever compares or
parses: much of it comes from hardware, commands and configs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from genericdp.printing import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_REASON = 2000
"""The longest text of a reason, in characters: it may quote texts of anybody."""


class Code(StrEnum):
    """Why a device is in its state; the text is the label of metrics."""

    EXCLUDED = "excluded"
    TAKEN = "taken"
    HELD = "held"
    FORBIDDEN = "forbidden"
    UNREADABLE = "unreadable"
    HANGING = "hanging"
    UNDECIDED = "undecided"
    WRONG_TYPE = "wrong_type"
    LACKS_VALUE = "lacks_value"
    BAD_VALUE = "bad_value"
    NO_NODE = "no_node"
    NOT_BOUND = "not_bound"
    NOTHING_TO_INJECT = "nothing_to_inject"
    CONFLICT = "conflict"
    ID_TAKEN = "id_taken"
    NODE_TAKEN = "node_taken"
    GROUP_INCOMPLETE = "group_incomplete"
    GROUP_SETTLING = "group_settling"
    LIST_FULL = "list_full"
    GONE = "gone"
    REPLACED = "replaced"
    NOT_MATCHED = "not_matched"
    RENAMED = "renamed"
    MEMBER_LOST = "member_lost"
    NODE_MISSING = "node_missing"
    SHARE_WITHHELD = "share_withheld"
    SPEC_FAILED = "spec_failed"
    NOT_PROBED = "not_probed"
    PROBE_FAILED = "probe_failed"
    LOG_LINE = "log_line"
    NOTHING_FOUND = "nothing_found"
    VALUE_MISSING = "value_missing"
    NOT_OFFERED = "not_offered"


MEANINGS: Mapping[Code, str] = {
    Code.EXCLUDED: "`exclude` matches it, or what it sits on.",
    Code.TAKEN: "A resource that comes first in the config matches it, or may.",
    Code.HELD: "A pod or claim has the hardware under another name or ID, or may have it.",
    Code.FORBIDDEN: "The policy does not allow it, or a link on the way to it is not safe.",
    Code.UNREADABLE: "Something of it cannot be read.",
    Code.HANGING: "Reading something of it does not end.",
    Code.UNDECIDED: "The resource could not be decided, and keeps what it had.",
    Code.WRONG_TYPE: "The path leads to another type of file than `type` allows.",
    Code.LACKS_VALUE: "It lacks a value that a template or `values` asks for.",
    Code.BAD_VALUE: "A value cannot be used where the config has it.",
    Code.NO_NODE: "It has no device file, and the resource needs one.",
    Code.NOT_BOUND: "Not all functions of its IOMMU group are bound to VFIO.",
    Code.NOTHING_TO_INJECT: "A container would be given nothing.",
    Code.CONFLICT: "Two of its nodes or mounts have one container path.",
    Code.ID_TAKEN: "Another device has its ID.",
    Code.NODE_TAKEN: "Another device has one of its nodes.",
    Code.GROUP_INCOMPLETE: "Its group lacks what `groupNeeds` says.",
    Code.GROUP_SETTLING: "Its group has just changed, and other members may follow.",
    Code.LIST_FULL: "The list would be larger than a kubelet takes.",
    Code.GONE: "It does not exist any more.",
    Code.REPLACED: "There is other hardware in its place.",
    Code.NOT_MATCHED: "No entry of `match` takes it any more.",
    Code.RENAMED: "It is listed under another name or ID, or will be.",
    Code.MEMBER_LOST: "Its group has lost a member.",
    Code.NODE_MISSING: "A node that `inject` names does not exist.",
    Code.SHARE_WITHHELD: "The share is not offered, because of who holds others.",
    Code.SPEC_FAILED: "Its CDI spec cannot be written.",
    Code.NOT_PROBED: "A probe has no result yet.",
    Code.PROBE_FAILED: "A probe fails.",
    Code.LOG_LINE: "The kernel's log has a line about it.",
    Code.NOTHING_FOUND: "Nothing on the node is what a resource without devices looks at.",
    Code.VALUE_MISSING: "What a resource without devices looks at lacks a value of `values`.",
    Code.NOT_OFFERED: "All that a resource without devices matches is not offered.",
}
"""In which ways a device ends up not offered, or Unhealthy."""

EMPTY_CAUSES = (
    Code.NOTHING_FOUND,
    Code.NOT_MATCHED,
    Code.VALUE_MISSING,
    Code.EXCLUDED,
    Code.NOT_OFFERED,
    Code.UNDECIDED,
)
"""Why a resource has no devices."""

OF_HEALTH = frozenset({Code.SPEC_FAILED, Code.NOT_PROBED, Code.PROBE_FAILED, Code.LOG_LINE})
"""Why a device is not Healthy although all of it is there."""

_ROUTINE = frozenset(
    {
        Code.EXCLUDED,
        Code.TAKEN,
        Code.HELD,
        Code.UNDECIDED,
        Code.NOT_MATCHED,
        Code.RENAMED,
        Code.GROUP_SETTLING,
        Code.SHARE_WITHHELD,
        Code.NOT_PROBED,
    }
)
"""Logged at info: they follow from an edit of the config, or pass by themselves."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a device, or a part of it, is not offered or not healthy."""

    code: Code
    text: str
    subject: str = ""
    """What the code is about where there may be several: a probe, a member, a path."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", shortened(self.text, MAX_REASON))

    def __str__(self) -> str:
        return self.text


NOT_PROBED = Reason(Code.NOT_PROBED, "not probed yet")


def are_routine(reasons: Iterable[Reason]) -> bool:
    """Return whether all of these are routine, so that the log does not warn of them."""
    return all(one.code in _ROUTINE for one in reasons)


def kinds_of(reasons: Iterable[Reason]) -> frozenset[tuple[Code, str]]:
    """Return what tells reasons apart, whatever their texts: codes and subjects."""
    return frozenset((one.code, one.subject) for one in reasons)


def text_of(reasons: Iterable[Reason]) -> str:
    """Return the texts of reasons as one, without repeats; empty: there is no reason."""
    return shortened("; ".join(dict.fromkeys(one.text for one in reasons)), MAX_REASON)
