"""What the configs for network adapters have in common."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from genericdp.converting.naming import exactly
from genericdp.devices.hardware import LINK_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from genericdp.converting.parts import Part

LINK_TYPES = ("ether", "infiniband")
"""Those of network adapters that peers and we call the same."""


def hex_ids(part: Part) -> list[str]:
    """Give PCI ids as sysfs has them."""
    found = []
    for entry in part.entries():
        text = entry.text()
        if re.fullmatch(r"[0-9A-Fa-f]{4}", text):
            found.append(text.lower())
        else:
            entry.fail(f"a PCI id of four hexadecimal digits is expected here, not {text[:40]!r}")
    return list(dict.fromkeys(found))


def names(given: Iterable[str]) -> list[str]:
    """Give globs for exactly these names."""
    return list(dict.fromkeys(exactly(name) for name in given))


def link_type_numbers(given: Iterable[str]) -> list[str]:
    """Give the kernel's numbers of those link types that are known."""
    return [LINK_NUMBERS[name] for name in dict.fromkeys(given) if name in LINK_TYPES]
