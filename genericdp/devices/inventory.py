"""What was found on the host, as values."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.errors import HostError
from genericdp.glob import escape
from genericdp.model import FileType
from genericdp.printing import printable
from genericdp.regex import limited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.devices.sysdevice import Host

_SEARCH_SECONDS = 2.0
"""CPU time that the expressions of one resource may take, so that the others need not wait."""
NODE_TYPES = (FileType.CHAR, FileType.BLOCK)


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """What tells a device from another one that has taken its place."""

    inode: int
    device_number: tuple[int, int] | None = None
    """Major and minor number, of a device node."""
    syspath: str | None = None
    """Its folder in sysfs, as a path of the host: ``/sys/devices/…``."""
    plugged: str = ""
    """Grows with each replug: the USB device number, or a disk's ``diskseq``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundFile:
    """A path that exists; paths are those of the host, whatever the root was."""

    path: str
    """As the glob gave it; may be a link."""
    target: str
    """What the path leads to when every link is followed."""
    type: FileType
    identity: Identity
    trouble: str = ""
    """Why it must not be handed out; empty if nothing is wrong."""
    mount_trouble: str = ""
    """The same for a mount that the config names, which may be a link to another filesystem."""

    @property
    def key(self) -> str:
        """Equal for all names of one thing: a node's number counts, not where it lies."""
        if self.identity.device_number is None:
            return self.target
        major, minor = self.identity.device_number
        return f"{self.type}:{major}:{minor}"

    @property
    def shown(self) -> str:
        """The path for people: what cannot be printed is escaped."""
        return printable(self.path)

    @property
    def is_link(self) -> bool:
        """Whether the path is another name of the target."""
        return self.path != self.target

    @property
    def kernel_name(self) -> str:
        """The name that the kernel gave the device, else the file's."""
        return (self.identity.syspath or self.target).rpartition("/")[2]


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What one glob found, and the folders in which a change could change that."""

    files: tuple[FoundFile, ...] = ()
    folders: frozenset[str] = frozenset()
    trouble: str = ""
    """What could not be read, so that there may be other files; empty if nothing."""
    dangling: tuple[str, ...] = ()
    """Links that the glob finds and that lead to nothing."""


class Inventory:
    """The host as one decision sees it, and what that failed at."""

    def __init__(self, host: Host, node_name: str = "") -> None:
        self.host = host
        """What is asked about the host."""
        self.node_name = node_name
        self.failures: dict[str, Exception] = {}
        """By resource, what has kept it from being decided."""
        self.hanging: set[str] = set()
        """The globs that were asked for and whose folders do not answer."""

    def found(self, glob: str) -> tuple[FoundFile, ...]:
        """Return what the glob finds, in natural order of the paths; nothing if it hangs."""
        look = self._looked(glob)
        return () if look is None else look.files

    def trouble(self, glob: str) -> str:
        """Return what of a glob could not be read, so that it may find more; empty if nothing."""
        look = self._looked(glob)
        return "" if look is None else look.trouble

    def _looked(self, glob: str) -> Look | None:
        look = self.host.look(glob)
        if look is None:
            self.hanging.add(glob)
        return look

    def file(self, path: str) -> FoundFile | None:
        """Return what one path leads to, or None if there is nothing."""
        return next(iter(self.found(escape(path))), None)

    @contextmanager
    def deciding(self, resource: str) -> Iterator[None]:
        """Note what fails in the block, which concerns this resource alone.

        Raises HostError where nothing can be concluded for any resource.
        """
        try:
            with limited(_SEARCH_SECONDS):
                yield
        except HostError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is: it is told, the others go on
            if isinstance(error, MemoryError):
                error.with_traceback(None)  # which holds all that was built until then
            self.failures.setdefault(resource, error)
