"""What a config uses of the language that this version does not carry out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.config.loaded import Unbuilt
from genericdp.model import Place

if TYPE_CHECKING:
    from genericdp.config.tree import Document

RESOURCE_KEYS = ("groupBy", "groupNeeds")


def unbuilt(document: Document) -> tuple[Unbuilt, ...]:
    """Give every use in a document without problems, in the order of the file."""
    uses = [
        Unbuilt(key=key, place=Place(file=document.file, line=mark.line, column=mark.column))
        for i, resource in enumerate(document.data.get("resources") or ())
        for key in RESOURCE_KEYS
        if key in resource
        for mark in (document.mark(("resources", i, key), of_key=True),)
    ]
    return tuple(sorted(set(uses), key=lambda use: (use.place.line, use.place.column, use.key)))
