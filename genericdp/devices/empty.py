"""Why a resource has no devices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.hardware import KINDS
from genericdp.devices.selectors import complaint, conditions_before, selector_text, shown
from genericdp.model import UdevSelector
from genericdp.printing import first_few, plural, printable, shortened
from genericdp.reasons import Code, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from genericdp.devices.devicelist import Entry, Subject
    from genericdp.devices.matching import Match
    from genericdp.devices.selectors import Misses
    from genericdp.model import Candidates, Resource, Selector

_MAX_LISTED = 3
_MAX_SELECTOR = 160
"""Of the text of a selector, in characters: it may have a thousand globs."""


_BLAMED: Mapping[Code, tuple[str, str]] = {
    Code.EXCLUDED: ("all that is matched is excluded by", "exclude"),
    Code.UNDECIDED: ("it is not known what matches", "match"),
    Code.NOT_OFFERED: ("", ""),
}
"""What is said of which list of selectors; of other causes, that nothing matches."""
_NO_MATCH = ("nothing on this node matches", "match")


def why_empty(resource: Resource, found: Match, not_offered: Sequence[Entry[Subject]]) -> Reason:
    """Return why a resource whose devices have been decided has none; nothing is read for it."""
    paths = [printable(entry.device.path) for entry in not_offered]
    codes = {reason.code for entry in not_offered for reason in entry.reasons}
    if codes == {Code.EXCLUDED}:
        cause, seen = Code.EXCLUDED, first_few(paths, _MAX_LISTED)
    elif paths:
        cause, first = Code.NOT_OFFERED, f"{paths[0]}: {not_offered[0].text}"
        seen = f"{len(paths)} matched, but not offered: {first}"
    elif found.hidden:
        cause, seen = Code.UNDECIDED, found.hidden[0].why
    else:
        cause, seen = _why_not_matched(resource, found)
    return _reason(cause, resource, seen)


def why_undecided(resource: Resource, failed: str) -> Reason:
    """Return why a resource has no devices that cannot be decided."""
    return _reason(Code.UNDECIDED, resource, failed)


def _reason(cause: Code, resource: Resource, seen: str) -> Reason:
    """Return a cause as a sentence about the selectors that are to blame.

    Only another cause, or other selectors, are news: not what else comes and goes on the host.
    """
    text, key = _BLAMED.get(cause, _NO_MATCH)
    selectors: Sequence[Selector] = resource.exclude if key == "exclude" else resource.match
    texts = [shortened(selector_text(it), _MAX_SELECTOR) for it in selectors[:_MAX_LISTED]]
    blamed = f"{text} {_entries(resource, key, texts, len(selectors))}" if key else ""
    return Reason(cause, ": ".join(filter(None, (blamed, seen))), " or ".join(texts))


def _why_not_matched(resource: Resource, found: Match) -> tuple[Code, str]:
    """Return of the entry of ``match`` that comes closest why nothing meets its conditions."""
    missed = []
    for i, misses in found.misses.items():
        selector = resource.match[i]
        if key := misses.nearest(selector):
            cause, seen = _why_missed(selector, misses, key)
            missed.append((_CLOSER.index(cause), conditions_before(selector, key), -i, seen))
    if not missed:
        return Code.NOTHING_FOUND, ""
    rank, _, place, seen = max(missed)
    beside = f"match[{-place}] comes closest: " if len(resource.match) > 1 else ""
    return _CLOSER[rank], f"{beside}{seen}"


_CLOSER = (Code.NOT_MATCHED, Code.VALUE_MISSING)
"""Of selectors that look at something, the one that comes closest has the last of these."""


def _entries(resource: Resource, key: str, texts: Sequence[str], count: int) -> str:
    """Return the selectors under a key with their places, of many the first ones."""
    lines = resource.place.entries.get(key, ())
    named = [
        f"{key}[{i}] {{{text}}}"
        f" ({resource.place.file}:{lines[i] if i < len(lines) else resource.place.line})"
        for i, text in enumerate(texts)
    ]
    more = count - len(texts)
    return " or ".join(named) + (f" or {plural(more, 'other selector')}" if more > 0 else "")


def _why_missed(selector: Selector, misses: Misses, key: str) -> tuple[Code, str]:
    """Return which condition nothing meets that a selector looks at, and what was found."""
    failed = [one for _, one in misses.samples[key].values()]
    texts = [shown(one.found) for one in failed if one.found is not None]
    one = next((one for one in failed if one.found is None), failed[0])
    cause = Code.NOT_MATCHED
    if key.startswith("values.") and not texts:
        cause = Code.VALUE_MISSING
    elif texts:
        one = replace(failed[0], found=first_few(texts, _MAX_LISTED))
    looked = sum(n for one, n in misses.counts.items() if one != selector.candidates.kind)
    return cause, f"{plural(looked, _noun(selector.candidates))}, none fits: {complaint(one)}"


def _noun(wanted: Candidates) -> str:
    if isinstance(wanted, UdevSelector) and len(wanted.subsystem) == 1:
        return f"{glob.unescape(wanted.subsystem[0])} device"
    return KINDS[wanted.kind].noun if wanted.kind in KINDS else "file"
