"""Files and devices found on the host, as values, their natural order, and queries about it."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from genericdp.errors import HostError
from genericdp.glob import escape
from genericdp.model import FileType
from genericdp.printing import printable
from genericdp.regex import limited
from genericdp.template import MAX_TEXT

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from genericdp.devices.paths import PathTarget

_SEARCH_SECONDS = 2.0
"""CPU time that the expressions of one resource may take, so that the others need not wait.

The worst possible expression takes 0.3 s for each text of 64 KiB or more, and 20 ms for one of 4
KiB, the size of sysfs attributes: five minutes, or 20 s, for 1,000 devices.
"""
NODE_TYPES = (FileType.CHAR, FileType.BLOCK)

_DIGITS = re.compile(r"([0-9]+)")
_PCI = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2})(?::([0-9a-f]{2})\.|(?=/|$))")
"""The address of a function up to its number, or that of a root bus: ``pci0000:4a``."""

Siblings = dict[tuple[str, str], "Counter[tuple[bool, tuple[str, ...]]]"]
"""The number of devices with the same parts, by place and subsystem."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """The facts that distinguish a device from another one in its place."""

    inode: int
    device_number: tuple[int, int] | None = None
    """Major and minor number, of a device node."""
    syspath: str | None = None
    """Its directory in sysfs, as a path of the host: ``/sys/devices/…``."""
    plugged: str = ""
    """Grows with each replug: the USB device number, or a disk's ``diskseq``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundFile:
    """A path that exists; paths are those of the host, whatever the root was."""

    path: str
    """The path that the glob found; may be a link."""
    target: str
    """The target of the path when every link is followed."""
    type: FileType
    identity: Identity
    refusal: str = ""
    """Why no container may get it; empty if nothing is wrong."""
    mount_refusal: str = ""
    """The same for a mount that the config names, which may be a link to another filesystem."""
    key: str = field(init=False, compare=False, repr=False)
    """Equal for all names of one thing: a node's number counts, not its path."""

    def __post_init__(self) -> None:
        key, number = self.target, self.identity.device_number
        if number is not None:
            key = f"{self.type}:{number[0]}:{number[1]}"
        object.__setattr__(self, "key", key)

    @property
    def printable_path(self) -> str:
        """The human-readable path: unprintable characters are escaped."""
        return printable(self.path)

    @property
    def is_link(self) -> bool:
        """Return whether the path is another name of the target."""
        return self.path != self.target

    @property
    def kernel_name(self) -> str:
        """The name that the kernel gave the device, else the file's."""
        return (self.identity.syspath or self.target).rpartition("/")[2]


@dataclass(frozen=True, kw_only=True)
class Look:
    """The files that one glob found, and the directories whose changes could change the result."""

    files: tuple[FoundFile, ...] = ()
    directories: frozenset[str] = frozenset()
    unreadable: str = ""
    """What could not be read, so that files may be missing; empty if nothing."""
    dangling: tuple[str, ...] = ()
    """Broken links that the glob finds."""

    @cached_property
    def by_target(self) -> Mapping[str, Sequence[FoundFile]]:
        """Return the files of the glob by their targets."""
        found = dict[str, list[FoundFile]]()
        for file in self.files:
            found.setdefault(file.target, []).append(file)
        return found

    @cached_property
    def untrusted(self) -> FoundFile | None:
        """The first link that must not be followed, if there is one."""
        return next((file for file in self.files if file.mount_refusal), None)


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


def decimal(text: str, *, max_digits: int = 19) -> int | None:
    """Return a number of the kernel, or None; for long ones Python would raise."""
    return int(text) if text.isdecimal() and len(text) <= max_digits else None


@dataclass(frozen=True, kw_only=True, slots=True)
class SysDevice:
    """One directory below ``/sys/devices`` that has a ``uevent``."""

    syspath: str
    subsystem: str = ""
    devtype: str = ""
    driver: str = ""
    """Its own driver; empty if it has none."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """The properties of the kernel's ``uevent`` and of the udev database, as libudev returns them.
    """
    tags: frozenset[str] = frozenset()
    links: tuple[str, ...] = ()
    """Links to its device file, as ``/dev/…``."""
    recorded: bool = False
    """Whether the udev database has a record of it."""
    number: tuple[int, int] | None = field(init=False, compare=False, repr=False)
    """Major and minor number of its device file, if it has one."""

    def __post_init__(self) -> None:
        major, minor = (
            decimal(self.properties.get(name, ""), max_digits=9) for name in ("MAJOR", "MINOR")
        )
        known = self.device_file and major is not None and minor is not None
        object.__setattr__(self, "number", (major, minor) if known else None)

    @property
    def name(self) -> str:
        """The kernel's name; a ``/`` in it is a ``!`` in sysfs."""
        return self.syspath.rpartition("/")[2].replace("!", "/")

    @property
    def device_file(self) -> str:
        """Its device file, as ``/dev/…``, if it has one."""
        return self.properties.get("DEVNAME", "")

    @property
    def known_since(self) -> float | None:
        """Monotonic time in seconds at which udev first recorded it; None without a record."""
        microseconds = decimal(self.properties.get("USEC_INITIALIZED", ""))
        return None if microseconds is None else microseconds / 1e6

    @property
    def key(self) -> str:
        """Equal for the device and all names of its file."""
        if self.number is None:
            return self.syspath
        kind = FileType.BLOCK if self.subsystem == "block" else FileType.CHAR
        return f"{kind}:{self.number[0]}:{self.number[1]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One thing of the host, with all names under which the selectors found it."""

    file: FoundFile
    """The first link in natural order if a glob found one, else the device file or path; the
    directory in sysfs if there is no device file.
    """
    device: SysDevice | None = None
    """Its device in sysfs, if there is one."""
    entries: Mapping[int, str] = field(default_factory=dict)
    """The indexes of all selectors that match it, or may, each with the reason why that is unknown;
    empty if it certainly matches.
    """

    @property
    def path(self) -> str:
        """The entries that found it."""
        return self.file.path

    @property
    def key(self) -> str:
        """Equal for all names of one thing."""
        return self.file.key

    @property
    def has_node(self) -> bool:
        """Return whether it has a device file."""
        return self.file.type in NODE_TYPES


class Host(Protocol):
    """The queries about the host; within one reconcile, the answers stay the same.

    What cannot be read counts as missing; ``why_unreadable`` has the reason.
    """

    def look(self, pattern: str, /) -> Look | None:
        """Return what a glob finds; None if that is known to hang."""

    def device(self, syspath: str) -> SysDevice | None:
        """Return the device of a directory, or None."""

    def ancestors(self, device: SysDevice) -> Iterable[SysDevice]:
        """Return the parents of a device, the nearest first."""

    def members(self, subsystem: str) -> tuple[SysDevice, ...]:
        """Return the devices of a subsystem, in natural order of their syspaths."""

    def below(self, directory: str, subsystem: str) -> tuple[SysDevice, ...]:
        """Return those of them that are below a directory."""

    def subsystems(self) -> tuple[str, ...]:
        """Return the names of all subsystems."""

    def attribute(self, syspath: str, name: str) -> str | None:
        """Return the text of an attribute file below a device, stripped."""

    def realpath(self, path: str) -> str | None:
        """Return the target of a path when every link is followed; None if it does not exist."""

    def target(self, path: str) -> PathTarget:
        """Return the target of a path, even if it does not exist."""

    def mount_target(self, path: str) -> PathTarget:
        """Return the same for a path to be mounted, whose links are watched for changes."""

    def exists_on_host(self, path: str) -> bool | None:
        """Return whether a path exists and answers; None if that cannot be seen."""

    def text(self, path: str, *, limit: int = MAX_TEXT) -> str | None:
        """Return a file's content, stripped; None if it has more bytes than that.

        Links are not followed except the kernel's own: ``target`` returns where they lead.
        """

    def paths(self, pattern: str) -> tuple[str, ...]:
        """Return the paths that a glob finds, of any type."""

    def why_unreadable(self, path: str) -> str:
        """Return why a file could not be read; empty if it does not exist or was read."""

    def awaited(self, syspath: str) -> bool:
        """Return whether udev has yet to record a device that has just appeared."""


class Inventory:
    """The host as one decision sees it, and the failures of that decision."""

    def __init__(self, host: Host, node_name: str = "") -> None:
        self.host = host
        """The queries about the host."""
        self.node_name = node_name
        self.failures: dict[str, Exception] = {}
        """The error that kept a resource from being decided, by resource."""
        self.hanging: set[str] = set()
        """The globs of the config whose directories do not answer."""
        self.values: dict[tuple[str, str, str, bool], dict[str, str]] = {}
        """Cached values of candidates of the resource that is being decided, for ``lookup.Names``.
        """
        self.siblings: Siblings = {}
        """Cache for ``identity.identity_of``."""

    def found(self, glob: str) -> tuple[FoundFile, ...]:
        """Return what the glob finds, in natural order of the paths; nothing if it hangs."""
        return self.look(glob).files

    def look(self, glob: str) -> Look:
        """Return the result of a glob, including what it may have missed; nothing if it hangs."""
        look = self.host.look(glob)
        if look is None:
            self.hanging.add(glob)
        return look or Look()

    def file(self, path: str) -> FoundFile | None:
        """Return the file at a path, or None if it does not exist."""
        return next(iter(self.found(escape(path))), None)

    def candidate(self, thing: FoundFile | SysDevice) -> Candidate | None:
        """Make a candidate of a file or device; None if it has just disappeared."""
        return self.of_device(thing) if isinstance(thing, SysDevice) else self.of_file(thing)

    def of_file(self, found: FoundFile) -> Candidate:
        """Make a candidate of a file."""
        syspath = found.identity.syspath
        device = None if syspath is None else self.host.device(syspath)
        return Candidate(file=found, device=device)

    def of_device(self, device: SysDevice) -> Candidate | None:
        """Make a candidate of a device of sysfs; None if it has just disappeared."""
        path = device.device_file if device.number is not None else ""
        file = self.file(path) if path else None
        if file is None or file.key != device.key:
            # Its file does not exist (yet), or belongs to another device.
            file = self.file(device.syspath)
        return None if file is None else Candidate(file=file, device=device)

    @contextmanager
    def deciding(self, resource: str) -> Iterator[None]:
        """Record a failure in the block, which affects this resource only.

        Raises HostError if nothing can be concluded for any resource.
        """
        try:
            with limited(_SEARCH_SECONDS):
                yield
        except HostError:
            raise
        except Exception as error:  # noqa: BLE001  # any error: it is logged, the others continue
            if isinstance(error, MemoryError):
                error.with_traceback(None)  # it references everything that was built until then
            self.failures.setdefault(resource, error)
        finally:
            self.values.clear()
