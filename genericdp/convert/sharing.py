"""Several names for the same devices, which some plugins allow without saying so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from genericdp.glob import has_wildcard, matches, unescape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from genericdp.convert.output import ConvertedResource

_SHARES = "Its devices are those of {others}, too, as in the plugin."
_FIRST = (
    "Some of its devices are those of {others}, and belong to what comes first here. The plugin"
    " gives them under each name: for that, write replicas of more than 1, exclusive: false and an"
    " id of its own form into each of these resources."
)


def share_hardware(resources: Sequence[ConvertedResource]) -> None:
    """Let resources that select the same devices share them, whatever their order.

    Only where containers share each device anyway: with one container for each name there is a
    comment instead.
    """
    offered = [candidate for candidate in resources if not candidate.withheld]
    types = [candidate.name.rpartition("/")[2] for candidate in offered]
    for resource, kind in zip(offered, types, strict=True):
        others = [
            candidate
            for candidate in offered
            if candidate is not resource and _overlap(candidate, resource)
        ]
        if not others:
            continue
        names = ", ".join(other.name for other in others)
        can_share = all(sharer.replicas > 1 for sharer in (resource, *others))
        comment = (_SHARES if can_share else _FIRST).format(others=names)
        if comment not in resource.comments:
            resource.comments.append(comment)
        if can_share:
            own = kind if types.count(kind) == 1 else resource.name.replace("/", "_")
            resource.exclusive, resource.id = False, f"{own}{_own_part(resource)}"


def _own_part(resource: ConvertedResource) -> str:
    """Return the part that distinguishes the devices of a resource, for the end of their IDs."""
    if resource.group_by:
        return ""
    has_path = any("path" in entry.value for entry in resource.match)
    return "-$(device.name)" if has_path else "-$(usb.port)"


def _overlap(resource: ConvertedResource, other: ConvertedResource) -> bool:
    """Return whether two resources surely select a device in common, if it is there."""
    if any(
        json.dumps(mine.value, sort_keys=True) == json.dumps(theirs.value, sort_keys=True)
        for mine in resource.match
        for theirs in other.match
    ):
        return True
    return any(
        first == second
        or (not has_wildcard(first) and _finds(second, unescape(first)))
        or (not has_wildcard(second) and _finds(first, unescape(second)))
        for first in _globs(resource)
        for second in _globs(other)
    )


def _finds(pattern: str, path: str) -> bool:
    names = zip(pattern.split("/"), path.split("/"), strict=False)
    return pattern.count("/") == path.count("/") and all(
        matches(segment, name) for segment, name in names
    )


def _globs(resource: ConvertedResource) -> Iterator[str]:
    for entry in resource.match:
        globs = entry.value.get("path", ())
        yield from (globs,) if isinstance(globs, str) else globs
