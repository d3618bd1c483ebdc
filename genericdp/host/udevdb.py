"""The records of the udev database: what udev's rules have found out about a device."""

from __future__ import annotations

from dataclasses import dataclass, field
from sys import intern
from typing import TYPE_CHECKING

from genericdp.host.calls import HangsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from genericdp.host.root import Root

FOLDER = "/run/udev/data"
_CONTROL = "/run/udev/control"
"""The socket of a running udevd."""


def udevd_runs(root: Root) -> bool:
    """Return whether a udevd is running, which writes a record of each new device."""
    try:
        root.lstat(_CONTROL)
    except (OSError, HangsError):
        return False
    return True


@dataclass(frozen=True, kw_only=True, slots=True)
class UdevRecord:
    """What one file of the database holds."""

    properties: Mapping[str, str] = field(default_factory=dict)
    """With those that libudev derives from the rest."""
    removed: frozenset[str] = frozenset()
    """Properties of the kernel that udev has emptied."""
    tags: frozenset[str] = frozenset()
    links: tuple[str, ...] = ()
    """As ``/dev/…``."""


def record_name(syspath: str, subsystem: str, uevent: Mapping[str, str]) -> str:
    """Return the name of a device's file in the database, as systemd's ``device_get_device_id``."""
    if {"MAJOR", "MINOR"} <= uevent.keys():
        kind = "b" if subsystem == "block" else "c"
        return f"{kind}{uevent['MAJOR']}:{uevent['MINOR']}"
    if subsystem == "net" and (index := uevent.get("IFINDEX")):
        return f"n{index}"
    return f"+{subsystem}:{syspath.rpartition('/')[2]}"


def lines(text: str) -> list[str]:
    """Take a file of udev or a ``uevent`` apart as libudev does.

    A carriage return or NUL ends a line too, and what has no end is no line: it may be cut off.
    """
    if "\r" in text or "\0" in text:
        text = text.replace("\r", "\n").replace("\0", "\n")
    return text.split("\n")[:-1]


def parse(text: str) -> UdevRecord:
    """Take a record apart; what cannot be understood is left out, as by libudev.

    No record is half written: udevd puts the whole file in its place.
    """
    fields: dict[str, list[str]] = {}
    for line in lines(text):
        kind, colon, rest = line.partition(":")
        if colon and rest:
            fields.setdefault(kind, []).append(rest)
    pairs = (pair.partition("=") for pair in fields.get("E", ()))
    # The names are the same in thousands of records: one text for each.
    properties = {intern(key): value for key, equals, value in pairs if key and equals}
    current_tags = _tags(fields.get("Q", ()))
    tags = current_tags | _tags(fields.get("G", ()))
    links = tuple(f"/dev/{link}" for link in fields.get("S", ()))
    initialized = [text for text in fields.get("I", ()) if text.isdecimal()]
    derived = {
        "USEC_INITIALIZED": initialized[-1] if initialized else "",
        "DEVLINKS": " ".join(links),
        "TAGS": f":{':'.join(sorted(tags))}:" if tags else "",
        "CURRENT_TAGS": f":{':'.join(sorted(current_tags))}:" if current_tags else "",
    }
    properties |= {key: value for key, value in derived.items() if value}
    return UdevRecord(
        properties={key: value for key, value in properties.items() if value},
        removed=frozenset(key for key, value in properties.items() if not value),
        tags=tags,
        links=links,
    )


def _tags(texts: Sequence[str]) -> frozenset[str]:
    return frozenset(text for text in texts if ":" not in text and " " not in text)
