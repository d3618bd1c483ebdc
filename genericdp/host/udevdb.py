"""The records of the udev database: what udev's rules have found out about a device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = "/run/udev/data"
CONTROL = "/run/udev/control"
"""The socket of a running udevd."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """What one file of the database holds."""

    properties: Mapping[str, str] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    current_tags: frozenset[str] = frozenset()
    links: tuple[str, ...] = ()
    """Below /dev, without it."""
    initialized_usec: str = ""


def record_name(
    *, syspath: str, subsystem: str, number: tuple[str, str] | None, interface_index: str
) -> str:
    """Give the name of a device's file in the database, as systemd's ``device_get_device_id``."""
    if number is not None:
        return f"{'b' if subsystem == 'block' else 'c'}{number[0]}:{number[1]}"
    if subsystem == "net" and interface_index:
        return f"n{interface_index}"
    return f"+{subsystem}:{syspath.rpartition('/')[2]}"


def parse(text: str) -> Record:
    """Take a record apart; what cannot be understood is left out."""
    fields: dict[str, list[str]] = {}
    for line in text.split("\n"):
        kind, colon, rest = line.partition(":")
        if colon and rest:
            fields.setdefault(kind, []).append(rest)
    pairs = (pair.partition("=") for pair in fields.get("E", ()))
    return Record(
        properties={key: value for key, equals, value in pairs if key and equals},
        tags=frozenset(fields.get("G", ())),
        current_tags=frozenset(fields.get("Q", ())),
        links=tuple(fields.get("S", ())),
        initialized_usec=fields.get("I", [""])[-1],
    )
