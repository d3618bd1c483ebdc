"""A device of sysfs as a value, with what udev has recorded of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from genericdp.model import FileType
from genericdp.template import MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from genericdp.devices.inventory import Look
    from genericdp.policy import Policy


def decimal(text: str, *, most_digits: int = 19) -> int | None:
    """Return a number of the kernel; None for what is none, however long (Python would raise)."""
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
    number: tuple[int, int] | None = field(init=False, compare=False, repr=False)
    """Major and minor number of its device file, if it has one."""

    def __post_init__(self) -> None:
        major, minor = (
            decimal(self.properties.get(name, ""), most_digits=9) for name in ("MAJOR", "MINOR")
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


@dataclass(frozen=True, kw_only=True, slots=True)
class PathTarget:
    """Where a path leads, whether or not there is something."""

    target: str
    trouble: str = ""
    """Why it must not be handed out; empty if nothing is wrong."""


_OF_OTHERS = ("/sys/fs/", "/sys/kernel/")
"""Where other filesystems are mounted: in one for BPF, users may make links."""


def is_kernels_own(path: str) -> bool:
    """Return whether only the kernel makes links on the way to a path, none of which leads out."""
    return path.startswith("/sys/") and not path.startswith(_OF_OTHERS)


def readable_target(
    policy: Policy | None, path: str, target_of: Callable[[str], PathTarget]
) -> PathTarget:
    """Return where a file to be read lies; its trouble says why it must not be read.

    What is read must be at the target itself, since a link may be redirected meanwhile.
    """
    if is_kernels_own(path):
        found = PathTarget(target=path)
    else:
        found = target_of(path)
        if found.trouble:
            found = replace(found, trouble=f"{path} must not be read: {found.trouble}")
    if policy is None:
        return found
    refusal = policy.file_refusal(path, found.target)
    return replace(found, trouble=refusal or found.trouble)


class Host(Protocol):
    """What can be asked about the host in one reconcile; answers stay the same within it.

    What cannot be read is lacking, with the reason in ``trouble``.
    """

    def look(self, pattern: str, /) -> Look | None:
        """Return what a glob finds; None if that is known to hang."""

    def device(self, syspath: str) -> SysDevice | None:
        """Return the device of a folder, or None if there is none."""

    def ancestors(self, device: SysDevice) -> Iterable[SysDevice]:
        """Return the devices that it sits on, the nearest first."""

    def members(self, subsystem: str) -> tuple[SysDevice, ...]:
        """Return the devices of a subsystem, in natural order of their syspaths."""

    def below(self, folder: str, subsystem: str) -> tuple[SysDevice, ...]:
        """Return those of them that lie below a folder."""

    def subsystems(self) -> tuple[str, ...]:
        """Return the names of all subsystems."""

    def attribute(self, syspath: str, name: str) -> str | None:
        """Return the text of an attribute file below a device, stripped."""

    def link(self, path: str) -> str | None:
        """Return the last part of what a link leads to."""

    def target(self, path: str) -> str | None:
        """Return what a path leads to when every link is followed."""

    def target_of(self, path: str) -> PathTarget:
        """Return where a path leads, also where there is nothing."""

    def mount_target(self, path: str) -> PathTarget:
        """Return the same of a path to be mounted, whose links are watched for changes."""

    def text(self, path: str, *, most: int = MAX_TEXT) -> str | None:
        """Return a file's content, stripped; None if it has more bytes than that.

        Links are not followed but for the kernel's own: ``target_of`` tells where they lead.
        """

    def paths(self, pattern: str) -> tuple[str, ...]:
        """Return the paths that a glob finds, whatever they are."""

    def dangling(self, pattern: str) -> tuple[str, ...]:
        """Return the links to nothing that a glob finds."""

    def trouble(self, path: str) -> str:
        """Return why a file could not be read; empty if it is not there or was read."""

    def awaited(self, syspath: str) -> bool:
        """Return whether udev has yet to record a device that has just appeared."""
