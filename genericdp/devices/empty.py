"""Why a resource has no devices: a cause for programs, and a reason for people."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.hardware import NOUNS
from genericdp.devices.selectors import complaint, conditions_before, selector_text, shown
from genericdp.model import UdevSelector
from genericdp.printing import first_few, plural, printable, shortened
from genericdp.reasons import MAX_REASON, Code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from genericdp.devices.device import NotOffered
    from genericdp.devices.matching import Match
    from genericdp.devices.selectors import Misses
    from genericdp.model import Candidates, Resource, Selector

_MAX_LISTED = 3
_MAX_SELECTOR = 160
"""Of the text of a selector, in characters: it may have a thousand globs."""


class EmptyCause(StrEnum):
    """Why a resource has no devices, for metrics and alerts."""

    NOTHING_FOUND = "nothing_found"
    NOT_MATCHED = "not_matched"
    VALUE_MISSING = "value_missing"
    EXCLUDED = "excluded"
    NOT_OFFERED = "not_offered"
    UNDECIDED = "undecided"


_NO_MATCH = ("nothing on this node matches", "match")
_BLAMED: Mapping[EmptyCause | None, tuple[str, str]] = {
    EmptyCause.EXCLUDED: ("all that is matched is excluded by", "exclude"),
    EmptyCause.UNDECIDED: ("it is not known what matches", "match"),
    EmptyCause.NOT_OFFERED: ("", ""),
    None: ("", ""),
}
"""What is said of which list of selectors; of other causes, that nothing matches."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NoDevices:
    """Why a resource has no devices."""

    resource: Resource
    cause: EmptyCause | None
    """None: its devices are those of the resources whose names result from its own."""
    seen: str
    """What is there instead, or what has failed."""

    @property
    def reason(self) -> str:
        """The same as a sentence, with the selectors that are to blame."""
        text, key = _BLAMED.get(self.cause, _NO_MATCH)
        blamed = f"{text} {_entries(self.resource, key)}" if key else ""
        return shortened(": ".join(filter(None, (blamed, self.seen))), MAX_REASON)

    @property
    def news(self) -> tuple[object, ...]:
        """What is logged when it changes: not what else comes and goes on the host."""
        named = self.seen if self.cause is None else ""
        return self.cause, named, self.resource.match, self.resource.exclude


def why_empty(resource: Resource, found: Match, not_offered: Sequence[NotOffered]) -> NoDevices:
    """Return why a resource whose devices have been decided has none; nothing is read for it."""
    paths = [printable(one.path) for one in not_offered]
    if paths and all(one.reason.code is Code.EXCLUDED for one in not_offered):
        cause, seen = EmptyCause.EXCLUDED, first_few(paths, _MAX_LISTED)
    elif paths:
        cause, first = EmptyCause.NOT_OFFERED, f"{paths[0]}: {not_offered[0].reason}"
        seen = f"{len(paths)} matched, but not offered: {first}"
    elif found.hidden:
        cause, seen = EmptyCause.UNDECIDED, found.hidden[0].why
    else:
        cause, seen = _why_not_matched(resource, found)
    return NoDevices(resource=resource, cause=cause, seen=seen)


def _why_not_matched(resource: Resource, found: Match) -> tuple[EmptyCause, str]:
    """Return of the entry of ``match`` that comes closest why nothing meets its conditions."""
    missed = []
    for i, misses in found.misses.items():
        selector = resource.match[i]
        if key := misses.nearest(selector):
            cause, seen = _why_missed(selector, misses, key)
            missed.append((_CLOSER.index(cause), conditions_before(selector, key), -i, seen))
    if not missed:
        return EmptyCause.NOTHING_FOUND, ""
    rank, _, place, seen = max(missed)
    beside = f"match[{-place}] comes closest: " if len(resource.match) > 1 else ""
    return _CLOSER[rank], f"{beside}{seen}"


_CLOSER = (EmptyCause.NOT_MATCHED, EmptyCause.VALUE_MISSING)
"""Of selectors that look at something, the one that comes closest has the last of these."""


def _entries(resource: Resource, key: str) -> str:
    """Return the selectors under a key with their places, of many the first ones."""
    selectors: Sequence[Selector] = resource.match if key == "match" else resource.exclude
    lines = resource.place.entries.get(key, ())
    named = [
        f"{key}[{i}] {{{shortened(selector_text(one), _MAX_SELECTOR)}}}"
        f" ({resource.place.file}:{lines[i] if i < len(lines) else resource.place.line})"
        for i, one in enumerate(selectors[:_MAX_LISTED])
    ]
    more = len(selectors) - _MAX_LISTED
    return " or ".join(named) + (f" or {plural(more, 'other selector')}" if more > 0 else "")


def _why_missed(selector: Selector, misses: Misses, key: str) -> tuple[EmptyCause, str]:
    """Return which condition nothing meets that a selector looks at, and what was found."""
    failed = [one for _, one in misses.samples[key].values()]
    texts = [shown(one.found) for one in failed if one.found is not None]
    one = next((one for one in failed if one.found is None), failed[0])
    cause = EmptyCause.NOT_MATCHED
    if key.startswith("values.") and not texts:
        cause = EmptyCause.VALUE_MISSING
    elif texts:
        one = replace(failed[0], found=first_few(texts, _MAX_LISTED))
    looked = sum(n for one, n in misses.counts.items() if one != selector.candidates.kind)
    return cause, f"{plural(looked, _noun(selector.candidates))}, none fits: {complaint(one)}"


def _noun(wanted: Candidates) -> str:
    if isinstance(wanted, UdevSelector) and len(wanted.subsystem) == 1:
        return f"{glob.unescape(wanted.subsystem[0])} device"
    return NOUNS.get(wanted.kind, "file")
