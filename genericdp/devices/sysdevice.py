"""A device of sysfs as a value, with what udev has recorded of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from genericdp.model import FileType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def decimal(text: str, *, most_digits: int = 19) -> int | None:
    """Give a number of the kernel; None for what is none, however long (Python would raise)."""
    return int(text) if text.isdecimal() and len(text) <= most_digits else None


@dataclass(frozen=True, kw_only=True, slots=True)
class SysDevice:
    """One folder below ``/sys/devices`` that has a ``uevent``."""

    syspath: str
    subsystem: str = ""
    devtype: str = ""
    driver: str = ""
    """Its own; empty if it has none."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Those of the kernel's ``uevent`` and of the udev database, as libudev gives them."""
    tags: frozenset[str] = frozenset()
    links: tuple[str, ...] = ()
    """Links to its device file, as ``/dev/…``."""
    recorded: bool = False
    """Whether the udev database has a record of it."""

    @property
    def name(self) -> str:
        """The kernel's name; a ``/`` in it is a ``!`` in sysfs."""
        return self.syspath.rpartition("/")[2].replace("!", "/")

    @property
    def device_file(self) -> str:
        """Its device file, as ``/dev/…``, if it has one."""
        return self.properties.get("DEVNAME", "")

    @property
    def number(self) -> tuple[int, int] | None:
        """Major and minor number of its device file, if it has one."""
        major, minor = self.properties.get("MAJOR", ""), self.properties.get("MINOR", "")
        numbers = decimal(major, most_digits=9), decimal(minor, most_digits=9)
        if not self.device_file or numbers[0] is None or numbers[1] is None:
            return None
        return numbers[0], numbers[1]

    @property
    def initialized_usec(self) -> int | None:
        """When udev first recorded it, on the monotonic clock; None where it did not."""
        return decimal(self.properties.get("USEC_INITIALIZED", ""))

    @property
    def file_type(self) -> FileType:
        """What kind of device file it has."""
        return FileType.BLOCK if self.subsystem == "block" else FileType.CHAR

    @property
    def key(self) -> str:
        """Equal for the device and all names of its file."""
        if self.number is None:
            return self.syspath
        return f"{self.file_type}:{self.number[0]}:{self.number[1]}"


START = 80
"""So much is kept of a text in which an expression found nothing, to be shown."""


class Extract(NamedTuple):
    """What a regular expression makes of a file."""

    text: str
    """What it found; where it found nothing, the start of the file."""
    found: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """Where a path leads, whether or not there is something."""

    target: str
    trouble: str = ""
    """Why it must not be handed out; empty if nothing is wrong."""


class Facts(Protocol):
    """What can be asked about the host in one pass; answers stay the same within it.

    What cannot be read is lacking, with the reason in ``trouble``.
    """

    def device(self, syspath: str) -> SysDevice | None:
        """Give the device of a folder, or None if there is none."""

    def ancestors(self, device: SysDevice) -> Iterator[SysDevice]:
        """Give the devices that it sits on, the nearest first."""

    def members(self, subsystem: str) -> tuple[SysDevice, ...]:
        """Give the devices of a subsystem, in natural order of their syspaths."""

    def below(self, folder: str, subsystem: str) -> tuple[SysDevice, ...]:
        """Give those of them that lie below a folder."""

    def subsystems(self) -> tuple[str, ...]:
        """Give the names of all subsystems."""

    def attribute(self, syspath: str, name: str) -> str | None:
        """Give the text of an attribute file below a device, stripped."""

    def link(self, path: str) -> str | None:
        """Give the last part of what a link leads to."""

    def target(self, path: str) -> str | None:
        """Give what a path leads to when every link is followed."""

    def way(self, path: str) -> Way:
        """Return where a path leads, also where there is nothing."""

    def text(self, path: str) -> str | None:
        """Give a file's content, stripped; at most 64 KiB.

        Links are not followed but for the kernel's own: ``way`` tells where they lead.
        """

    def extract(self, path: str, regex: str) -> Extract | None:
        """Return what an expression finds in a file; None if the file is lacking.

        As with ``text``, links are not followed.
        """

    def paths(self, pattern: str) -> tuple[str, ...]:
        """Return the paths that a glob finds, whatever they are."""

    def dangling(self, pattern: str) -> tuple[str, ...]:
        """Return the links to nothing that a glob found when ``paths`` was asked about it."""

    def trouble(self, path: str) -> str:
        """Say why a file could not be read; empty if it is not there or was read."""

    def awaited(self, syspath: str) -> bool:
        """Say whether udev has yet to record a device that has just appeared."""


class _Nothing:
    """A host without sysfs."""

    def device(self, syspath: str) -> SysDevice | None:
        del syspath
        return None

    def ancestors(self, device: SysDevice) -> Iterator[SysDevice]:
        del device
        yield from ()

    def members(self, subsystem: str) -> tuple[SysDevice, ...]:
        del subsystem
        return ()

    def below(self, folder: str, subsystem: str) -> tuple[SysDevice, ...]:
        del folder, subsystem
        return ()

    def subsystems(self) -> tuple[str, ...]:
        return ()

    def attribute(self, syspath: str, name: str) -> str | None:
        return self.text(f"{syspath}/{name}")

    def link(self, path: str) -> str | None:
        return self.text(path)

    def target(self, path: str) -> str | None:
        return self.text(path)

    def way(self, path: str) -> Way:
        return Way(target=path)

    def text(self, path: str) -> str | None:
        del path
        return None

    def extract(self, path: str, regex: str) -> Extract | None:
        del path, regex
        return None

    def paths(self, pattern: str) -> tuple[str, ...]:
        del pattern
        return ()

    def dangling(self, pattern: str) -> tuple[str, ...]:
        del pattern
        return ()

    def trouble(self, path: str) -> str:
        del path
        return ""

    def awaited(self, syspath: str) -> bool:
        del syspath
        return False


NOTHING_KNOWN: Facts = _Nothing()
