"""A machine as a folder: ``/``, or a copy of another machine's dev and sys."""

from __future__ import annotations

import copy
import errno
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.errors import HostError, is_shortage

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

ABSENT = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.ELOOP, errno.ENAMETOOLONG}
)
"""Errors that say that there is nothing. After any other one nobody knows what there is."""

_MOST_LINKS = 40
_KINDS = {
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Walk:
    """Where a path leads."""

    at: str
    """The final path, or how far it could be followed."""
    links: tuple[str, ...] = ()
    """Each link met on the way."""
    error: OSError | None = None
    """What ended it early."""


class BlindError(HostError):
    """The host cannot be looked at now, so that nothing may be concluded; its text says why.

    No OSError: those are answers about one path.
    """


class Root:
    """Reads paths of the host below a folder; links lead within that folder too.

    Paths are texts, because those of sysfs and of devices need not be tidy. Each method raises
    OSError as the call of ``os`` does.
    """

    def __init__(self, folder: Path) -> None:
        text = os.fspath(folder)
        self._prefix = "" if text == "/" else text.rstrip("/")
        self._wary = False
        self._listed: set[str] = set()

    def wary(self) -> Self:
        """Give the same root for somebody who concludes from what is not there that it is gone.

        It raises BlindError where a call fails for lack of descriptors or memory.
        """
        wary = copy.copy(self)
        wary._wary, wary._listed = True, set()  # noqa: SLF001
        return wary

    def heed(self, error: OSError) -> None:
        """Raise BlindError if an error says nothing about the path and this root is wary."""
        if self._wary and is_shortage(error):
            raise BlindError(error.strerror or str(error)) from error

    @property
    def is_machine(self) -> bool:
        """Whether this is the running machine itself."""
        return not self._prefix

    def real(self, path: str) -> str:
        """Give where a path of the host lies on this machine; links in it are not followed."""
        return self._prefix + path

    def lstat(self, path: str) -> os.stat_result:
        """Give the status of the path itself."""
        try:
            return os.lstat(self.real(path))
        except OSError as error:
            self.heed(error)
            raise

    def entries(self, path: str) -> list[str]:
        """Give the names in a folder; links on the way lead within the root."""
        try:
            return os.listdir(self._followed(path) or "/")
        except OSError as error:
            self.heed(error)
            raise

    def entries_if_any(self, path: str, troubles: dict[str, str] | None = None) -> list[str]:
        """Give the same, nothing where there is no such folder, or it could never be read.

        ``troubles`` then gets the reason. A wary root raises BlindError where one cannot be read
        any longer.
        """
        try:
            names = self.entries(path)
        except OSError as error:
            if self._wary and path in self._listed and error.errno not in ABSENT:
                raise BlindError(f"{path}: {error.strerror or error}") from error
            if troubles is not None and error.errno not in ABSENT:
                troubles[path] = error.strerror or str(error)
            return []
        self._listed.add(path)
        return names

    def read_text(self, path: str, *, limit: int = 65_536) -> str:
        """Give the start of a file's content; what is no UTF-8 is escaped.

        What is no plain file is not even opened: that may wait for ever, or reset a board.
        """
        at = self._followed(path)
        if kind := _KINDS.get(stat.S_IFMT(os.stat(at).st_mode)):
            raise OSError(errno.EINVAL, f"it is a {kind}, not a file", path)
        # It may have become a pipe since.
        descriptor = self._opened(at, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return _start(descriptor, limit).decode(errors="backslashreplace")
        finally:
            os.close(descriptor)

    def descriptor(self, path: str, flags: int) -> int:
        """Open a path; links lead within the root. The caller closes the descriptor."""
        return self._opened(self._followed(path), flags)

    def _opened(self, at: str, flags: int) -> int:
        try:
            return os.open(at, flags | os.O_CLOEXEC)
        except OSError as error:
            self.heed(error)
            raise

    def read_link(self, path: str) -> str:
        """Give what is written in a link."""
        try:
            return os.readlink(self.real(path))
        except OSError as error:
            self.heed(error)
            raise

    def _followed(self, path: str) -> str:
        # The kernel would follow an absolute link of a copied tree to this machine.
        return path if self.is_machine else self.real(self.resolve(path)[0])

    def resolve(self, path: str) -> tuple[str, tuple[str, ...]]:
        """Follow every link: give the final path, and each link met on the way."""
        walk = self.walk(path)
        if (error := walk.error) is not None:
            # Another one: the traceback of this one would hold this frame, and so itself.
            raise OSError(error.errno, error.strerror, error.filename)
        return walk.at, walk.links

    def walk(self, path: str, *, past_missing: bool = False) -> Walk:
        """Follow every link as far as there is something; raises nothing.

        ``past_missing`` takes what cannot be looked at for no link, and goes on to the end.
        """
        pending = [part for part in reversed(path.split("/")) if part]
        links: list[str] = []
        at = ""
        first: OSError | None = None
        while pending:
            part = pending.pop()
            if part in {".", ".."}:
                at = at.rpartition("/")[0] if part == ".." else at
                continue
            step = f"{at}/{part}"
            try:
                target = self._link_target(step)
            except OSError as error:
                first = first or error.with_traceback(None)  # which holds this frame
                if not past_missing:
                    break
                target = None
            if target is None:
                at = step
                continue
            links.append(step)
            if len(links) > _MOST_LINKS:
                first = OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                break
            at = "" if target.startswith("/") else at
            pending += [piece for piece in reversed(target.split("/")) if piece]
        return Walk(at=at or "/", links=tuple(links), error=first)

    def _link_target(self, path: str) -> str | None:
        """Give what is written in a link; None for what is none."""
        return self.read_link(path) if stat.S_ISLNK(self.lstat(path).st_mode) else None


def _start(descriptor: int, limit: int) -> bytes:
    # One read gives a whole attribute; files of /proc come in parts.
    content = part = os.read(descriptor, limit)
    while part and len(content) < limit:
        part = os.read(descriptor, limit - len(content))
        content += part
    return content
