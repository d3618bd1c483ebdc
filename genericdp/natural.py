"""Natural order: ttyUSB2 before ttyUSB10."""

from __future__ import annotations

import re
from bisect import insort
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

T = TypeVar("T")

_DIGITS = re.compile(r"([0-9]+)")
_PCI = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2})(?::([0-9a-f]{2})\.|(?=/|$))")
"""The address of a function up to its number, or that of a root bus: ``pci0000:4a``."""
_KEYS_TO_INSERT = 16
"""So many keys are made to find the place of one thing among some ten thousand."""


def natural_key(text: str) -> tuple[tuple[str | int, ...], str]:
    """Give a sort key that compares runs of digits, and the parts of PCI addresses, as numbers.

    The text itself breaks ties (``a01`` and ``a1``), so that the order is total.
    """
    decimal = _PCI.sub(_in_decimal, text) if ":" in text else text
    parts: list[str | int] = list(_DIGITS.split(decimal))
    parts[1::2] = map(int, parts[1::2])
    return tuple(parts), text


def _in_decimal(address: re.Match[str]) -> str:
    domain, bus, device = (part and int(part, 16) for part in address.groups())
    return f"{domain}:{bus}" if device is None else f"{domain}:{bus}:{device}."


def in_natural_order(
    things: Collection[T], text: Callable[[T], str], before: Sequence[T] = ()
) -> list[T]:
    """Sort by a text of each thing.

    ``before`` is an earlier result; of what was in it already no key is made again.
    """
    here, known = set(map(id, things)), set(map(id, before))
    ordered = [one for one in before if id(one) in here]
    fresh = [one for one in things if id(one) not in known]

    def key(thing: T) -> tuple[tuple[str | int, ...], str]:
        return natural_key(text(thing))

    if len(fresh) * _KEYS_TO_INSERT > len(ordered):
        return sorted(things, key=key)
    for one in fresh:
        insort(ordered, one, key=key)
    return ordered
