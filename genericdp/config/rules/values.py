"""Values that refer to each other: in a circle, or nested too deep."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from genericdp.config.rules.parts import references_in
from genericdp.model import ValueKind
from genericdp.template import MAX_VALUES

if TYPE_CHECKING:
    from genericdp.config.document import Field


def check_values(resource: Field) -> None:
    """Find values that refer to themselves or are nested too deep."""
    values = resource["values"]
    names = {value.key for value in values}
    uses = {value.key: _used(value) & names for value in values}
    depths: dict[str, int] = {}
    for name in _in_order(values, uses):
        depths[name] = 1 + max((depths[used] for used in uses[name]), default=0)
        # Values that need this one are not further mistakes.
        if depths[name] == MAX_VALUES + 1:
            values[name].refuse(
                f"the value {name!r} is nested more than {MAX_VALUES} values deep",
                "write the strings that it is made of into fewer values",
                of_key=True,
            )


def _in_order(values: Field, uses: dict[str, set[str]]) -> list[str]:
    """Return the values, each after those that it uses; refuse a value that needs itself."""
    while True:
        try:
            return list(TopologicalSorter(uses).static_order())
        except CycleError as error:
            circle = error.args[1][:0:-1]
            at = circle.index(min(circle, key=[*uses].index))
            way = [*circle[at:], *circle[: at + 1]]
            message = f"the value {way[0]!r} refers to itself: {' -> '.join(way)}"
            values[way[0]].refuse(message, of_key=True)
            for used in uses.values():
                used.difference_update(circle)
            for name in circle:
                del uses[name]


def _used(value: Field) -> set[str]:
    sources = (references_in(value[kind].text or "") for kind in ValueKind)
    return {
        reference.name
        for found in sources
        for reference in found or ()
        if reference.scope == "value"
    }
