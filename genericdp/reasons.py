"""Reasons why a device is not offered, or is listed as Unhealthy.

A reason has a code, which programs compare, and a human-readable text, which no code compares or
parses: much of it comes from hardware, commands and configs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from genericdp.printing import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

MAX_REASON = 2000
"""The maximum length of a reason, which may quote untrusted strings."""


class Code(StrEnum):
    """The codes of reasons: the label of metrics, what it means, and whether it is routine.

    A routine reason follows from an edit of the config or passes by itself, and is logged at info.
    """

    meaning: str
    is_routine: bool

    def __new__(cls, label: str, meaning: str, routine: str = "") -> Self:
        """Make a code from a line of the table."""
        code = str.__new__(cls, label)
        code._value_, code.meaning, code.is_routine = label, meaning, bool(routine)
        return code

    EXCLUDED = "excluded", "`exclude` matches it, or its parent.", "routine"
    TAKEN = "taken", "A resource that comes first in the config matches it, or may.", "routine"
    HELD = (
        "held",
        "A pod or claim has the hardware under another name or ID, or may have it.",
        "routine",
    )
    FORBIDDEN = "forbidden", "The policy does not allow it, or a link on the way to it is not safe."
    UNREADABLE = "unreadable", "Something of it cannot be read."
    HANGING = "hanging", "Reading something of it timed out."
    UNDECIDED = "undecided", "The resource could not be decided, and keeps what it had.", "routine"
    WRONG_TYPE = "wrong_type", "The path leads to another type of file than `type` allows."
    LACKS_VALUE = "lacks_value", "It lacks a value that a template or `values` needs."
    BAD_VALUE = "bad_value", "A value cannot be used where the config has it."
    NO_NODE = "no_node", "It has no device file, and the resource needs one."
    NOT_BOUND = "not_bound", "Not all functions of its IOMMU group are bound to VFIO."
    NOTHING_TO_INJECT = "nothing_to_inject", "A container would be given nothing."
    CONFLICT = "conflict", "Two of its nodes or mounts have one container path."
    ID_TAKEN = "id_taken", "Another device has its ID."
    NODE_TAKEN = "node_taken", "Another device has one of its nodes."
    GROUP_INCOMPLETE = "group_incomplete", "Its group lacks what `groupNeeds` says."
    GROUP_SETTLING = (
        "group_settling",
        "Its group has just changed, and other members may follow.",
        "routine",
    )
    LIST_FULL = "list_full", "The list would be larger than a kubelet takes."
    GONE = "gone", "It does not exist any more."
    REPLACED = "replaced", "There is other hardware in its place."
    NOT_MATCHED = "not_matched", "No entry of `match` takes it any more.", "routine"
    RENAMED = "renamed", "It is listed under another name or ID, or will be.", "routine"
    MEMBER_LOST = "member_lost", "Its group has lost a member."
    NODE_MISSING = "node_missing", "A node that `inject` names does not exist."
    SHARE_WITHHELD = (
        "share_withheld",
        "The share is not offered, because of who holds others.",
        "routine",
    )
    SPEC_FAILED = "spec_failed", "Its CDI spec cannot be written."
    NOT_PROBED = "not_probed", "A probe has no result yet.", "routine"
    PROBE_FAILED = "probe_failed", "A probe fails."
    LOG_LINE = "log_line", "The kernel's log has a line about it."
    NOTHING_FOUND = (
        "nothing_found",
        "Nothing on the node is what a resource without devices matches.",
    )
    VALUE_MISSING = (
        "value_missing",
        "What a resource without devices matches lacks a value of `values`.",
    )
    TOO_FEW = "too_few", "Fewer devices are Healthy than `expect` says."
    TOO_MANY = "too_many", "More devices are Healthy than `expect` says."
    NOT_OFFERED = "not_offered", "All that a resource without devices matches is not offered."


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
"""Reasons why a complete device is not Healthy."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why a device, or a part of it, is not offered or not healthy."""

    code: Code
    text: str
    subject: str = ""
    """The subject of the code if there may be several: a probe, a member, a path."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", shortened(self.text, MAX_REASON))

    def __str__(self) -> str:
        return self.text


NOT_PROBED = Reason(Code.NOT_PROBED, "not probed yet")


def kinds_of(reasons: Iterable[Reason]) -> frozenset[tuple[Code, str]]:
    """Return the identity of reasons, regardless of their wording: codes and subjects."""
    return frozenset((reason.code, reason.subject) for reason in reasons)


def text_of(reasons: Iterable[Reason]) -> str:
    """Return reasons as one string, without repeats; empty without a reason."""
    return shortened("; ".join(dict.fromkeys(reason.text for reason in reasons)), MAX_REASON)
