"""Matching of kernel log lines to devices: pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from genericdp.regex import compiled, search

if TYPE_CHECKING:
    from genericdp.devices.device import LogWatch

_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?")
_HEX = re.compile(r"(?:0x)?[0-9a-f]+(?:[.:-][0-9a-f]+)*")


@dataclass(frozen=True, slots=True)
class Name:
    """A text in a form in which equal ones are easily found."""

    stem: str
    function: str = ""
    """Of a PCI address; empty: all functions, or none such."""

    def agrees(self, other: Name) -> bool:
        """Check whether both can mean the same thing."""
        either = not self.function or not other.function
        return self.stem == other.stem and (either or self.function == other.function)


Names = tuple[Name, ...]
"""The texts of the groups that ``where`` compares, in the order of the groups' names."""
Stems = tuple[str, ...]


@lru_cache(maxsize=16_384)
def name_of(text: str) -> Name:
    """Normalize a text: hexadecimal ones to lower case, PCI addresses to one form."""
    lower = text.lower()
    if _HEX.fullmatch(lower) is None:
        return Name(text)
    address = _PCI.fullmatch(lower)
    if address is None:
        return Name(lower)
    domain, bus, slot, function = address.groups(default="")
    return Name(f"{int(domain or '0', 16):04x}:{bus}:{slot}", function)


def stems_of(names: Names) -> Stems:
    """Return what is equal for all names that may agree."""
    return tuple(name.stem for name in names)


def agree(these: Names, those: Names) -> bool:
    """Check whether a device and a line can mean the same."""
    return len(these) == len(those) and all(map(Name.agrees, these, those))


@dataclass(frozen=True, slots=True)
class Rule:
    """What is the same in a probe for all devices, so that a line is matched once for all."""

    regex: str
    where: tuple[str, ...]
    """Groups, sorted."""
    ignore: tuple[tuple[str, tuple[Name, ...]], ...]

    def names_in(self, line: str) -> Names | None:
        """Return what a line names; None: it does not count."""
        hit = search(self.regex, line)
        if hit is None:
            return None
        groups = compiled(self.regex).groupindex
        for group, ignored in self.ignore:
            text = hit.group(groups[group])
            if text is not None and any(map(name_of(text).agrees, ignored)):
                return None
        texts = [hit.group(groups[group]) for group in self.where]
        named = tuple(name_of(text) for text in texts if text is not None)
        return named if len(named) == len(texts) else None


def rule_of(watch: LogWatch) -> Rule:
    """Return the rule that a probe of one device shares with those of the others."""
    ignore = tuple((group, tuple(map(name_of, watch.ignore[group]))) for group in watch.ignore)
    return Rule(watch.regex, tuple(sorted(watch.where)), ignore)


def names_of(watch: LogWatch) -> Names:
    """Return what a line must name to be about the device."""
    return tuple(name_of(watch.where[group]) for group in sorted(watch.where))
