"""Parts of a resource that the rules of several topics use."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from genericdp.model import ServedBy
from genericdp.template import TemplateSyntaxError, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.config.document import Field
    from genericdp.template import Reference


def injects(resource: Field) -> list[Field]:
    """Return the ``inject`` of a resource, and then those of its entries of ``match``."""
    return [resource["inject"], *(selector["inject"] for selector in resource["match"])]


def is_served_by_dra(resource: Field) -> bool:
    """Return whether a resource is to be served by DRA."""
    return bool(resource["servedBy"].value == ServedBy.DRA)


def finds_several(resource: Field) -> bool:
    """Return whether a resource surely may have several devices."""
    # Other conditions, such as a serial number, may leave one device.
    return any(
        selector.written() <= {"path", "type", "inject"}
        and any("*" in str(glob.value) for glob in selector["path"].strings())
        for selector in resource["match"]
    )


def replicas(resource: Field) -> int:
    """Return how many containers may share a device."""
    return resource["replicas"].value or 1


def references_in(text: str) -> tuple[Reference, ...] | None:
    """Return the references of a template; None if it is malformed, which is a separate problem."""
    try:
        return parse(text).references
    except TemplateSyntaxError:
        return None


def references_to_claims(resource: Field) -> Iterator[tuple[Field, Reference]]:
    """Yield each reference to what a claim has, where one is possible, with its text."""
    given = (*injects(resource), resource["hooks"])
    for text in chain.from_iterable(part.strings() for part in given):
        for reference in references_in(text.text or "") or ():
            if reference.scope == "claim":
                yield text, reference
