"""Vendor and product names from the system's ``usb.ids`` and ``pci.ids``, if installed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FOLDERS = tuple(
    map(Path, ("/usr/share/hwdata", "/usr/share/misc", "/var/lib/usbutils", "/usr/share"))
)
_MOST_BYTES = 16 * 1024 * 1024
_VENDOR = re.compile(r"([0-9a-f]{4})  (.+)")
_DEVICE = re.compile(r"\t([0-9a-f]{4})  (.+)")


def names(
    bus: str, wanted: Iterable[tuple[str, str]], folders: Sequence[Path] = FOLDERS
) -> dict[tuple[str, str], tuple[str, str]]:
    """Give vendor and device names of pairs of ids (four hex digits, lower case) of a bus.

    ``bus`` is ``usb`` or ``pci``. What is not listed has an empty name, and what has neither is not
    given; nor is anything where there is no list.
    """
    pairs = set(wanted)
    for folder in folders if pairs else ():
        try:
            with (folder / f"{bus}.ids").open("rb") as file:
                text = file.read(_MOST_BYTES).decode(errors="replace")
        except OSError:
            continue
        return parse(text, pairs)
    return {}


def parse(text: str, pairs: set[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, str]]:
    """Find the names in the text of a list: vendors, and below each, behind a tab, its devices."""
    vendors: dict[str, str] = {}
    devices: dict[tuple[str, str], str] = {}
    wanted = {vendor for vendor, _ in pairs}
    vendor = ""
    for line in text.splitlines():
        if not line or line.startswith(("#", "\t\t")):
            continue
        if line.startswith("\t"):
            found = _DEVICE.fullmatch(line) if vendor else None
            if found and (vendor, found[1]) in pairs:
                devices[vendor, found[1]] = found[2].strip()
            continue
        # Behind the vendors come classes and languages, which begin otherwise.
        found = _VENDOR.fullmatch(line)
        vendor = found[1] if found and found[1] in wanted else ""
        if found and vendor:
            vendors[vendor] = found[2].strip()
    return {
        pair: (vendors.get(pair[0], ""), devices.get(pair, ""))
        for pair in pairs
        if pair[0] in vendors
    }
