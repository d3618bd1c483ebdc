"""Which device a line of the kernel's log names: pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from genericdp.regex import compiled, search

if TYPE_CHECKING:
    from genericdp.devices.checks import LogWatch

_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?")
_HEX = re.compile(r"(?:0x)?[0-9a-f]+(?:[.:-][0-9a-f]+)*")


@dataclass(frozen=True, slots=True)
class Name:
    """A text such that two that mean the same are easily found equal."""

    stem: str
    function: str = ""
    """Of a PCI address; empty: all functions, or none such."""

    def agrees(self, other: Name) -> bool:
        """Say whether both can mean one thing."""
        either = not self.function or not other.function
        return self.stem == other.stem and (either or self.function == other.function)


Names = tuple[Name, ...]
"""The texts of the groups that ``where`` compares, in the order of the groups' names."""
Stems = tuple[str, ...]


@lru_cache(maxsize=16_384)
def name_of(text: str) -> Name:
    """Give what to compare of a text: hexadecimal ones without case, PCI addresses in one form."""
    lower = text.lower()
    if _HEX.fullmatch(lower) is None:
        return Name(text)
    address = _PCI.fullmatch(lower)
    if address is None:
        return Name(lower)
    domain, bus, slot, function = address.groups(default="")
    return Name(f"{int(domain or '0', 16):04x}:{bus}:{slot}", function)


def stems_of(names: Names) -> Stems:
    """Give what is equal for all names that may agree."""
    return tuple(name.stem for name in names)


def agree(these: Names, those: Names) -> bool:
    """Say whether a device and a line can mean the same."""
    return len(these) == len(those) and all(map(Name.agrees, these, those))


@dataclass(frozen=True, slots=True)
class Rule:
    """What is the same in a probe for all devices, so that a line is matched once for all."""

    regex: str
    where: tuple[str, ...]
    """Groups, sorted."""
    ignore: tuple[tuple[str, tuple[Name, ...]], ...]

    def names_in(self, line: str) -> Names | None:
        """Give what a line names; None: it does not count."""
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
    """Give the rule that a probe of one device shares with those of the others."""
    ignore = tuple((group, tuple(map(name_of, watch.ignore[group]))) for group in watch.ignore)
    return Rule(watch.regex, tuple(sorted(watch.where)), ignore)


def names_of(watch: LogWatch) -> Names:
    """Give what a line must name to strike the device."""
    return tuple(name_of(watch.where[group]) for group in sorted(watch.where))


def struck(watch: LogWatch, line: str) -> bool:
    """Say whether a line makes the device Unhealthy."""
    names = rule_of(watch).names_in(line)
    return names is not None and agree(names, names_of(watch))
