"""Resources that may find the same devices: the first has them, which many a peer does not do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.glob import has_wildcard, is_glob, matches, unescape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.converting.draft import Draft, Resource, Values

MAX_SELECTORS = 500
"""Of so many selectors, globs and words each is compared with each other."""
_SHARED = "What {names} above may also find is offered there only; {peer} offers it in both."
_MANY = "What several resources find is offered in the first of them only; {peer} offers it in all."


def tell(draft: Draft, peer: str) -> None:
    """Say at each resource which ones before it may have what it finds."""
    offered = [one for one in draft.resources if not one.withheld]
    if sum(_size(said.value) for one in offered for said in one.match) > MAX_SELECTORS:
        draft.head.append(_MANY.format(peer=peer))
        return
    for i, resource in enumerate(offered):
        names = [other.name for other in offered[:i] if _may_meet(other, resource)]
        if names:
            shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
            resource.comments.append(_SHARED.format(names=shown, peer=peer))


def _may_meet(one: Resource, other: Resource) -> bool:
    return any(_selected(a.value, b.value) for a in one.match for b in other.match)


def _selected(one: Values, other: Values) -> bool:
    """Say whether a device may be what both selectors want; one of path and one of usb cannot."""
    common = one.keys() & other.keys()
    return bool(common) and all(_both(one[key], other[key]) for key in common)


def _both(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_both(one[key], other[key]) for key in one.keys() & other.keys())
    return any(globs_meet(a, b) for a in _globs(one) for b in _globs(other))


def _globs(value: object) -> Sequence[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def globs_meet(one: str, other: str) -> bool:
    """Say whether a text may match both: false only where none can."""
    if not has_wildcard(one):
        return matches(other, unescape(one))
    if not has_wildcard(other):
        return matches(one, unescape(other))
    starts, ends = [_start(one), _start(other)], [_start(one[::-1]), _start(other[::-1])]
    return all(
        long.startswith(short) for short, long in (sorted(pair, key=len) for pair in (starts, ends))
    )


def _start(glob: str) -> str:
    """Give what stands before all that is no plain character; a bracket's end counts, too."""
    end = next((i for i, one in enumerate(glob) if one == "]" or is_glob(one)), len(glob))
    return glob[:end]


def _size(value: object) -> int:
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    return len(value) if isinstance(value, list) else 1
