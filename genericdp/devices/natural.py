"""Natural order: ttyUSB2 before ttyUSB10."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"([0-9]+)")
_PCI = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2})(?::([0-9a-f]{2})\.|(?=/|$))")
"""The address of a function up to its number, or that of a root bus: ``pci0000:4a``."""


def natural_key(text: str) -> tuple[tuple[str | int, ...], str]:
    """Return a sort key that compares runs of digits, and the parts of PCI addresses, as numbers.

    The text itself breaks ties (``a01`` and ``a1``), so that the order is total.
    """
    decimal = _PCI.sub(_in_decimal, text) if ":" in text else text
    parts: list[str | int] = list(_DIGITS.split(decimal))
    parts[1::2] = map(int, parts[1::2])
    return tuple(parts), text


def _in_decimal(address: re.Match[str]) -> str:
    domain, bus, device = (part and int(part, 16) for part in address.groups())
    return f"{domain}:{bus}" if device is None else f"{domain}:{bus}:{device}."
