"""A machine as a folder: ``/``, or a copy of another machine's dev and sys."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

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


class Root:
    """Reads paths of the host below a folder; links lead within that folder too.

    Paths are texts, because those of sysfs and of devices need not be tidy. Each method raises
    OSError as the call of ``os`` does.
    """

    def __init__(self, folder: Path) -> None:
        text = os.fspath(folder)
        self._prefix = "" if text == "/" else text.rstrip("/")

    @property
    def is_machine(self) -> bool:
        """Whether this is the running machine itself."""
        return not self._prefix

    def real(self, path: str) -> str:
        """Give where a path of the host lies on this machine; links in it are not followed."""
        return self._prefix + path

    def lstat(self, path: str) -> os.stat_result:
        """Give the status of the path itself."""
        return os.lstat(self.real(path))

    def entries(self, path: str) -> list[str]:
        """Give the names in a folder; links on the way lead within the root."""
        return os.listdir(self._followed(path) or "/")

    def read_text(self, path: str, *, limit: int = 65_536) -> str:
        """Give the start of a file's content; what is no UTF-8 is escaped.

        What is no plain file is not even opened: that may wait for ever, or reset a board.
        """
        at = self._followed(path)
        if kind := _KINDS.get(stat.S_IFMT(os.stat(at).st_mode)):
            raise OSError(errno.EINVAL, f"it is a {kind}, not a file", path)
        # It may have become a pipe since.
        descriptor = os.open(at, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return _start(descriptor, limit).decode(errors="backslashreplace")
        finally:
            os.close(descriptor)

    def descriptor(self, path: str, flags: int) -> int:
        """Open a path; links lead within the root. The caller closes the descriptor."""
        return os.open(self._followed(path), flags | os.O_CLOEXEC)

    def read_link(self, path: str) -> str:
        """Give what is written in a link."""
        return os.readlink(self.real(path))

    def _followed(self, path: str) -> str:
        # The kernel would follow an absolute link of a copied tree to this machine.
        return path if self.is_machine else self.real(self.resolve(path)[0])

    def resolve(self, path: str) -> tuple[str, tuple[str, ...]]:
        """Follow every link: give the final path, and each link met on the way."""
        walk = self.walk(path)
        if walk.error is not None:
            raise walk.error
        return walk.at, walk.links

    def walk(self, path: str) -> Walk:
        """Follow every link as far as there is something; raises nothing."""
        pending = [part for part in reversed(path.split("/")) if part]
        links: list[str] = []
        at = ""
        try:
            while pending:
                part = pending.pop()
                if part in {".", ".."}:
                    at = at.rpartition("/")[0] if part == ".." else at
                    continue
                step = f"{at}/{part}"
                if not stat.S_ISLNK(self.lstat(step).st_mode):
                    at = step
                    continue
                links.append(step)
                if len(links) > _MOST_LINKS:
                    endless = OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                    return Walk(at=at or "/", links=tuple(links), error=endless)
                target = self.read_link(step)
                at = "" if target.startswith("/") else at
                pending += [piece for piece in reversed(target.split("/")) if piece]
        except OSError as error:
            return Walk(at=at or "/", links=tuple(links), error=error)
        return Walk(at=at or "/", links=tuple(links))


def _start(descriptor: int, limit: int) -> bytes:
    # One read gives a whole attribute; files of /proc come in parts.
    content = part = os.read(descriptor, limit)
    while part and len(content) < limit:
        part = os.read(descriptor, limit - len(content))
        content += part
    return content
