"""Limits of a resource and a config: text, selectors, globs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from genericdp.config.schema import resource_schema
from genericdp.config.texts import formatted, place_of
from genericdp.template import MAX_TEXT, MAX_TEXTS, byte_length

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.config.document import Field

_MAX_PER_RESOURCE = 256
"""Limit of a resource's selectors, and of its globs; the schema has the same limit for each list.
"""
_MAX_PER_CONFIG = 4096
_TOO_MANY = {
    "selectors": "one selector takes a list of globs, as path: [/dev/ttyUSB*, /dev/ttyACM*]",
    "globs": "one glob covers many paths, as /dev/ttyUSB*",
}
"""What is limited, and what to do about it."""
_ON_THE_HOST = {"glob", "path-glob", "path-glob-template", "path-template"}
"""Formats of strings that are looked up on the host."""


def check_sizes(resource: Field) -> None:
    """Find strings that are too long, alone or together."""
    sizes = Counter[str | int]()
    for field in resource.strings():
        size = byte_length(str(field.value))
        if place_of(field)[0] in {"inject", "health", "hooks"}:
            sizes[field.path[3] if field.path[2] == "match" else ""] += size
        if size > MAX_TEXT:
            field.refuse(
                f"the text has {size:,} bytes, at most {MAX_TEXT:,} are possible",
                "give long strings to containers as files (see inject.mounts)",
            )
    total = sizes.pop("", 0) + max(sizes.values(), default=0)  # each device comes from one entry
    if total > MAX_TEXTS:
        message = (
            f"the strings of a device have {total:,} bytes, at most {MAX_TEXTS:,} are possible"
        )
        resource.refuse(message, "inject, health and hooks count together")


def check_counts(resources: Sequence[Field]) -> None:
    """Find where a resource, or the config with it, exceeds the limits."""
    totals: Counter[str] = Counter()
    for resource in resources:
        for kind, keys in (("selectors", _selectors(resource)), ("globs", _globs(resource))):
            if len(keys) > _MAX_PER_RESOURCE:
                message = f"the resource has {len(keys)} {kind}: at most {_MAX_PER_RESOURCE}"
                at_fault = resource[keys[_MAX_PER_RESOURCE]]
                at_fault.refuse(f"{message} are allowed", _TOO_MANY[kind], of_key=True)
            before = totals[kind]
            totals[kind] += len(keys)
            if before <= _MAX_PER_CONFIG < totals[kind]:
                message = f"with this resource the config has {totals[kind]} {kind}: at most"
                resource.refuse(f"{message} {_MAX_PER_CONFIG} are allowed", _TOO_MANY[kind])


def _selectors(resource: Field) -> list[str]:
    """Return the key of the resource that each selector is in."""
    return [key for key in ("match", "exclude") for _ in resource[key]]


def _globs(resource: Field) -> list[str]:
    """Return the key of the resource that each text is in that is looked up on the host."""
    texts = formatted(resource, resource_schema())
    keys = (str(field.path[2]) for field, form in texts if form in _ON_THE_HOST)
    return [key for key in keys if key != "nodeNames"]
