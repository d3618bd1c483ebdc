"""A machine as a directory: ``/``, or a copy of another machine's dev and sys."""

from __future__ import annotations

import copy
import errno
import os
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from genericdp.devices.paths import PathTarget, is_kernels_own
from genericdp.errors import HostError, is_shortage, reason_of
from genericdp.host import calls, pathwalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Self

    from genericdp.host.pathwalk import Walk

P = ParamSpec("P")
T = TypeVar("T")

ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.EOPNOTSUPP})
"""Errors that mean that a file is missing, or that a driver lacks an attribute. After any other
error, it is unknown what exists: a path that leads in a circle or has too long a name could be
anything, and may decide what is excluded.
"""

_OF_CONTAINERS = frozenset({"/dev/termination-log", "/etc/hostname", "/run/.containerenv"})
"""Paths that kubelets, container runtimes and Podman mount into each container."""
_OF_KERNEL = {"devtmpfs": "/dev", "proc": "/proc", "sysfs": "/sys"}
_PARTITIONS = ("", "/home", "/opt", "/run", "/srv", "/usr", "/var")
"""Mount points of filesystems from which containers get a directory."""


class Root:
    """Reads paths of the host below a directory; links lead within that directory too.

    Paths are strings, because those of sysfs and of devices need not be tidy. Each method raises
    OSError as the call of ``os`` does.
    """

    def __init__(self, directory: Path) -> None:
        text = os.fspath(directory)
        self._prefix = "" if text == "/" else text.rstrip("/")
        self._wary = False
        self._listed: set[str] = set()

    def wary(self) -> Self:
        """Return the same root for callers that treat "missing" as "removed".

        It raises HostError if a call fails for lack of descriptors or memory.
        """
        wary = copy.copy(self)
        wary._wary, wary._listed = True, set()  # noqa: SLF001
        return wary

    def _heed(self, error: OSError) -> None:
        """Raise HostError if an error says nothing about the path and this root is strict."""
        if self._wary and is_shortage(error):
            raise HostError(reason_of(error)) from error

    def _heeding(self, call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        try:
            return call(*args, **options)
        except OSError as error:
            self._heed(error)
            raise

    @property
    def is_machine(self) -> bool:
        """Return whether this is the running machine itself."""
        return not self._prefix

    def real(self, path: str) -> str:
        """Return the path on this machine of a path of the host; links are not followed."""
        return self._prefix + path

    def seeing(self) -> Callable[[str], bool]:
        """Return a predicate: is this path the host's, and visible?

        In a copy of a machine, visible paths are those below the copied top-level directories.
        """
        if self.is_machine:
            return seeing_host([mount[1:] for mount in calls.mounts()])
        directories = frozenset(self.entries_if_any("/", {}))
        return lambda path: path[1:].partition("/")[0] in directories

    def lstat(self, path: str) -> os.stat_result:
        """Return the status of the path itself."""
        return self._heeding(calls.lstat, self.real(path))

    def entries(self, path: str) -> list[str]:
        """Return the names in a directory; links on the way lead within the root."""
        return self._heeding(calls.listdir, self._followed(path) or "/")

    def entries_if_any(self, path: str, why_unreadable: dict[str, str]) -> list[str]:
        """Return the same, but nothing if the directory is missing or could never be read.

        The reason is added to ``why_unreadable``. A strict root raises HostError if a directory can
        no longer be read.
        """
        try:
            names = self.entries(path)
        except OSError as error:
            if self._wary and path in self._listed and error.errno not in ABSENT:
                raise HostError(f"{path}: {reason_of(error)}") from error
            if error.errno not in ABSENT:
                why_unreadable[path] = reason_of(error)
            return []
        self._listed.add(path)
        return names

    def read_text(self, path: str, *, limit: int = 65_536) -> str:
        """Return the start of a file's content; bytes that are not UTF-8 are escaped."""
        return self.read_bytes(path, limit=limit).decode(errors="backslashreplace")

    def read_bytes(self, path: str, *, limit: int, follow_symlinks: bool = True) -> bytes:
        """Return the start of a file's content; only a regular file is opened.

        Without ``follow_symlinks``, a link in the path is an error, except the kernel's own links.
        """
        return self._heeding(self._read, path, limit, follow_symlinks=follow_symlinks)

    def _read(self, path: str, limit: int, *, follow_symlinks: bool) -> bytes:
        if is_kernels_own(path):
            if self.is_machine:
                # Read thousands of times in a scan, and there is nothing to check: in sysfs
                # there are only directories, regular files, and links that the kernel has made.
                descriptor = calls.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    return pathwalk.read(descriptor, limit)
                finally:
                    os.close(descriptor)
            follow_symlinks = True
        with pathwalk.opened(path, top=self._prefix, follow_symlinks=follow_symlinks) as found:
            return pathwalk.read(found[0], limit)

    def descriptor(self, path: str, flags: int) -> int:
        """Open a path; links lead within the root. The caller closes the descriptor."""
        return self._heeding(calls.open, self._followed(path), flags | os.O_CLOEXEC)

    def read_link(self, path: str) -> str:
        """Return the target of a link, as it is written."""
        return self._heeding(calls.readlink, self.real(path))

    def _followed(self, path: str) -> str:
        # The kernel would follow an absolute link of a copied tree to this machine.
        return path if self.is_machine else self.real(self.resolve(path).at)

    def resolve(self, path: str) -> Walk:
        """Follow every link; raises OSError if the target does not exist."""
        walk = self.walk(path)
        walk.check()
        return walk

    def walk(self, path: str, *, past_missing: bool = False) -> Walk:
        """Follow every link as far as there is something; raises nothing.

        With ``past_missing``, what cannot be read is assumed not to be a link.
        """
        walk = pathwalk.walk(path, top=self._prefix, past_missing=past_missing)
        if walk.error is not None:
            self._heed(walk.error)
        return walk

    def target(self, path: str) -> PathTarget:
        """Return the target of a path, even if parts of it are missing."""
        return target_of(self.walk(path, past_missing=True))


def target_of(walk: Walk) -> PathTarget:
    """Return the target of a walk that continued past missing parts."""
    refusal = walk.why_untrusted
    if walk.error is not None and walk.error.errno == errno.ELOOP:
        refusal = walk.error.strerror or ""
        if refusal == os.strerror(errno.ELOOP):
            refusal = "its links lead in a circle"
    return PathTarget(target=walk.at, refusal=refusal)


def upwards(path: str) -> Iterator[str]:
    """Yield a path and each directory above it, except the topmost."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def note(path: str, seen: set[str]) -> None:
    """Add a path and all directories above it, unless the set has the path and so its
    directories.
    """
    for directory in upwards(path):
        if directory in seen:
            return
        seen.add(directory)


def seeing_host(found: Sequence[tuple[str, str, str]]) -> Callable[[str], bool]:
    """Return a predicate for paths at which a process sees the host's own files, from its mounts.

    A container's root is that of its image. Without any mounts it counts as a container.
    """
    types = {point: filesystem for _, point, filesystem in found}
    if "overlay" not in types.get("/", "overlay") and _OF_CONTAINERS.isdisjoint(types):
        return lambda _: True
    # A later mount hides what was below.
    latest = [(mount[1], _is_of_host(*mount)) for mount in reversed(found) if mount[1] != "/"]
    return lambda path: next(
        (is_of_host for at, is_of_host in latest if f"{path}/".startswith(f"{at}/")), False
    )


def _is_of_host(root: str, point: str, filesystem: str) -> bool:
    """Return whether a container's mount certainly shows the host's files at the same path."""
    if (kernels := _OF_KERNEL.get(filesystem)) is not None:
        return point == f"{kernels}{root}".rstrip("/")
    # A filesystem that is mounted as a whole may be a volume.
    return root != "/" and point.endswith(root) and point.removesuffix(root) in _PARTITIONS
