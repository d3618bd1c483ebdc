"""Hardware identity: what a device is, and the default ID that follows from it.

An ID that counted a device's neighbors would name other hardware as soon as one of them came or
went. So whatever tells devices at one place apart is a fact of the device itself: ``_KINDS`` lists
these facts for each subsystem.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class Nature(StrEnum):
    """How the natures of two identities compare."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class HardwareIdentity:
    """What a device is: its place and its nature.

    It stays the same after a replug into the same port and after a reboot, whatever name, number
    and inode the kernel gives the device then.
    """

    location: str
    """Where the hardware is: a PCI address, a USB port of a controller, a platform device."""
    part: str = ""
    """Which part of the hardware it is: interface, subsystem, and what tells its siblings apart."""
    unique: tuple[tuple[str, str], ...] = ()
    """Facts that no other hardware has, by kind, sorted: serial numbers, WWNs, UUIDs."""
    model: str = ""
    """Vendor and product; empty where they are unknown, or where the config names several."""
    is_unreadable: bool = False
    """Whether a unique fact could not be read."""

    def __str__(self) -> str:
        """Return a description for messages: its nature, then its place."""
        facts = ", ".join(f"{kind} {value}" for kind, value in self.unique)
        nature = facts or self.model or ("unreadable" if self.is_unreadable else "no serial number")
        return f"{nature} at {self.location}"

    def is_at_place_of(self, other: HardwareIdentity) -> bool:
        """Return whether both are at the same place."""
        return (self.location, self.part) == (other.location, other.part)

    def nature_of(self, other: HardwareIdentity) -> Nature:
        """Compare the natures, whatever the places are.

        Vendor and product decide only where a unique fact cannot: cheap devices have no serial
        number. What could not be read is unknown, never different.
        """
        mine, its = dict(self.unique), dict(other.unique)
        common = mine.keys() & its.keys()
        if any(mine[kind] != its[kind] for kind in common):
            return Nature.DIFFERENT
        if common:
            return Nature.EQUAL
        if self.is_unreadable or other.is_unreadable or not (self.model and other.model):
            return Nature.UNKNOWN
        if self.model != other.model:
            return Nature.DIFFERENT
        return Nature.UNKNOWN if mine or its else Nature.EQUAL

    def is_same(self, other: HardwareIdentity) -> bool:
        """Return whether both are the same hardware at the same place, for all that is known."""
        return self.is_at_place_of(other) and self.nature_of(other) is not Nature.DIFFERENT

    def has_moved_from(self, other: HardwareIdentity) -> bool:
        """Return whether it is the hardware that was at another place, by a unique fact."""
        return (
            self.location != other.location
            and self.part == other.part
            and not dict(self.unique).keys().isdisjoint(dict(other.unique))
            and self.nature_of(other) is Nature.EQUAL
        )

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON, in the form that every version of a record keeps."""
        return {
            "location": self.location,
            "part": self.part,
            "unique": dict(self.unique),
            "model": self.model,
            "unreadable": self.is_unreadable,
        }


def identity_from_record(record: Mapping[str, Any]) -> HardwareIdentity:
    """Return the identity of a record; raise KeyError, TypeError or ValueError if it is damaged."""
    location, part, model = (record[key] for key in ("location", "part", "model"))
    unique = tuple(sorted(record["unique"].items()))
    texts = (location, part, model, *(text for pair in unique for text in pair))
    if not location or not all(isinstance(text, str) for text in texts):
        raise TypeError("a field of a hardware identity is not a string")
    return HardwareIdentity(
        location=location,
        part=part,
        unique=unique,
        model=model,
        is_unreadable=record["unreadable"] is True,
    )
