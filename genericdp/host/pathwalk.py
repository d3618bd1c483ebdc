"""Follows paths on descriptors: finds the target of a path, and who can redirect it.

Each step is held with O_PATH, which neither a FIFO nor a device notices. Checks apply to the held
file itself, so swapping files, links or directories meanwhile has no effect.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.host import calls

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_LINKS = 40
"""As many as the kernel follows."""
_HOLD = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
# So that opening neither waits for a writer or a carrier nor gives the daemon a controlling
# terminal.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK = 65_536
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a link",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


class NotAFileError(OSError):
    """Something that is not opened, because only regular files are read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Walk:
    """The target of a path."""

    at: str
    """The final path, as far as it could be followed."""
    links: tuple[str, ...] = ()
    """Each link met on the way."""
    why_untrusted: str = ""
    """A link that an unprivileged user could redirect at any time, and why; empty if none."""
    error: OSError | None = None
    """The error that ended the walk early."""

    def check(self) -> None:
        """Raise the error that ended it early, if one has."""
        if self.error is not None:
            # A new exception: the traceback of the old one would reference its frame, and so
            # itself.
            raise OSError(self.error.errno, self.error.strerror, self.error.filename)


def walk(path: str, *, top: str = "", past_missing: bool = False) -> Walk:
    """Follow every link as far as the path exists; raises nothing.

    Links lead within the directory ``top``. With ``past_missing``, what cannot be read is assumed
    not to be a link.
    """
    with closing(_Walker(path, top)) as walker:
        walker.go(past_missing=past_missing)
        return walker.walk()


@contextmanager
def opened(path: str, *, top: str = "", follow_symlinks: bool = True) -> Iterator[tuple[int, Walk]]:
    """Open a regular file for reading; yield its descriptor, closed at the end, and the walk to it.

    Nothing else is ever opened. Without ``follow_symlinks``, a path with a link in it is an error.
    Raises OSError.
    """
    with closing(_Walker(path, top)) as walker:
        walker.go(follow_symlinks=follow_symlinks)
        found = walker.walk()
        found.check()
        held = walker.held()
        if not stat.S_ISREG(mode := calls.fstat(held).st_mode):
            kind = _KINDS.get(stat.S_IFMT(mode), "something else")
            raise NotAFileError(errno.EINVAL, f"it is {kind}, not a file", path)
        descriptor = calls.reopen(held, _READ)
    try:
        yield descriptor, found
    finally:
        os.close(descriptor)


def read(descriptor: int, limit: int) -> bytes:
    """Return the start of a file's content: at most ``limit`` bytes."""
    # One read returns a whole attribute, but only a part of a file in /proc.
    content = part = calls.read(descriptor, min(limit, _CHUNK))
    while part and len(content) < limit:
        part = calls.read(descriptor, min(limit - len(content), _CHUNK))
        content += part
    return content


class _Walker:
    """One walk, from the top down; each step is held until the end, for ``..``.

    The kernel's own ``..`` would lead elsewhere from a directory that has been moved meanwhile.
    """

    def __init__(self, path: str, top: str) -> None:
        self.error: OSError | None = None
        self._top = top
        self._names: list[str] = []
        """The steps that were taken; steps past a missing part are not held."""
        self._held: list[int] = []
        """Descriptors of the top and of each step."""
        self._pending = _reversed(path)
        self._links: list[str] = []
        self._untrusted_link = ""

    def close(self) -> None:
        """Close all held descriptors."""
        while self._held:
            os.close(self._held.pop())

    def walk(self) -> Walk:
        return Walk(
            at="/" + "/".join(self._names),
            links=tuple(self._links),
            why_untrusted=self._untrusted_link,
            error=self.error,
        )

    def held(self) -> int:
        """Return the descriptor of the last step; raise OSError if the top cannot be opened."""
        if not self._held:
            self._held.append(calls.open(f"{self._top}/", _HOLD))
        return self._held[-1]

    def go(self, *, past_missing: bool = False, follow_symlinks: bool = True) -> None:
        while self._pending:
            part = self._pending.pop()
            if part == "..":
                self._go_back(max(len(self._names) - 1, 0))
                continue
            try:
                target = self._step(part, follow_symlinks=follow_symlinks)
            except OSError as error:
                self.error = self.error or error.with_traceback(None)  # which references this frame
                if not past_missing or error.errno == errno.ELOOP:
                    return
                self._names.append(part)
                continue
            if target:
                if target.startswith("/"):
                    self._go_back(0)
                self._pending += _reversed(target)

    def _go_back(self, depth: int) -> None:
        del self._names[depth:]
        while len(self._held) > depth + 1:
            os.close(self._held.pop())

    def _step(self, part: str, *, follow_symlinks: bool) -> str:
        """Take one step; return the target if it is a link, else nothing."""
        path = "/".join(["", *self._names, part])
        if len(self._names) > max(len(self._held) - 1, 0):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        # The first step uses a path, because umockdev redirects paths into its simulated machine.
        directory = self.held()
        found = (
            calls.open_at(f"{self._top}{path}", directory, _HOLD)
            if self._names
            else calls.open(f"{self._top}/{part}", _HOLD)
        )
        is_link = True
        try:
            status = calls.fstat(found)
            if not (is_link := stat.S_ISLNK(status.st_mode)):
                self._held.append(found)
                self._names.append(part)
                return ""
            if not follow_symlinks:
                raise OSError(errno.ELOOP, f"{path} has just become a link", path)
            target = calls.readlink_of(found)
        finally:
            if is_link:
                os.close(found)
        self._links.append(path)
        self._untrusted_link = self._untrusted_link or self._why_untrusted(path, status)
        if len(self._links) > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if not self._top and self._is_in_a_process():
            self._hold_open_file(path, target)
            return ""
        return target

    def _is_in_a_process(self) -> bool:
        names = self._names
        return len(names) > 1 and names[0] == "proc" and names[1].isdecimal()

    def _hold_open_file(self, path: str, target: str) -> None:
        """Hold the file behind a link below /proc/PID, whose text need not be one of our paths."""
        if self._pending:
            raise OSError(errno.ELOOP, f"{path} is a process's own link, no path", path)
        self._held.append(calls.open_at(path, self.held(), os.O_PATH | os.O_CLOEXEC))
        self._names = (target if target.startswith("/") else path).split("/")[1:]

    def _why_untrusted(self, link: str, status: os.stat_result) -> str:
        """Return who other than root could redirect a link.

        In a sticky directory, as /tmp, only the owners of link and directory can.
        """
        directory, dev = calls.fstat(self.held()), self._dev()
        owners = {directory.st_uid}
        if directory.st_mode & stat.S_IWOTH:
            # Kubelets give the directories of ConfigMaps mode 0777 and mount them read-only. Owners
            # count even there, since a mount that is read-only for us may be writable on the host.
            # The latter is true for /dev, whose nodes containers get: there modes count, too.
            is_read_only = calls.fstatvfs(self.held()).f_flag & os.ST_RDONLY
            if not (
                directory.st_mode & stat.S_ISVTX
                or (directory.st_dev != dev.st_dev and is_read_only)
            ):
                return f"the link {link} lies in a directory that every user can write to"
            owners.add(status.st_uid)
        # The owner of /dev counts like root, for user namespaces and copies, and so does our own
        # user.
        if not owners <= {0, dev.st_uid, os.geteuid()}:
            return f"the link {link} can be turned by a user who is not root"
        return ""

    def _dev(self) -> os.stat_result:
        try:
            return calls.lstat(f"{self._top}/dev")
        except OSError:
            return calls.stat(self._top or "/")


def _reversed(path: str) -> list[str]:
    return [part for part in reversed(path.split("/")) if part not in {"", "."}]
