"""The folder of CDI specs: writes and removes ours, and never reads those of other programs."""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.cdi.spec import PREFIX, SUFFIX, file_name, kind_of_ours
from genericdp.errors import reason_of
from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

log = logging.getLogger(__name__)

FOLDER = Path("/var/run/cdi")
"""Where container runtimes look for specs that somebody keeps up to date."""
STATIC_FOLDER = Path("/etc/cdi")
"""Where they look for specs that never change."""
_TEMPORARY = ".genericdp-"
_MAX_BYTES = 16 * 1024 * 1024
"""Of a file; the spec of a thousand devices has 250 KB."""
_STAYS = "it is not overwritten (remove it)"


class SpecError(Exception):
    """Why a spec cannot be where it has to be: its path is taken."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecFile:
    """A file with our prefix."""

    path: Path
    content: bytes
    is_ours: bool
    """Whether it is a spec that genericdp has written."""
    is_maintained: bool
    """Whether a process keeps it up to date."""


class SpecFolder:
    """Maintains the specs of this process in a folder, which it never creates.

    It holds a shared lock on each of its files: one that nobody has locked is left over, by a
    config of before or a process that has ended.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._locks: dict[str, int] = {}
        """Descriptors that hold the locks, by kind."""

    def maintain(self, specs: Mapping[str, bytes]) -> dict[str, str]:
        """Write the specs that differ, given by kind, and remove what is left over.

        Return why it failed, by kind. Whenever the process is killed, there is either the spec of
        before or this one.
        """
        errors = {}
        for kind in self._locks.keys() - specs.keys():
            self._end(kind)
        for kind, content in specs.items():
            path, held = self.path / file_name(kind), self._locks.get(kind)
            had_other = is_maintained(path, held)
            try:
                self._locks[kind], is_new = put(self.path, kind, content)
            except (SpecError, OSError, MemoryError) as error:
                errors[kind] = why_not(error, self.path)
                continue
            if held is not None:
                os.close(held)
            if is_new:
                log.info("%s written", path, extra={"resource": kind})
            if is_new and had_other:
                why = "another process, too, which wants something else in it"
                log.warning("%s is maintained by %s", path, why, extra={"resource": kind})
        _remove_leftovers(self.path, {file_name(kind) for kind in specs})
        return errors

    def _end(self, kind: str) -> None:
        """Remove a spec that has no device left; whoever wants it, too, writes it again."""
        path, held = self.path / file_name(kind), self._locks.pop(kind)
        with suppress(OSError):
            if os.path.samestat(os.fstat(held), path.lstat()):
                path.unlink()
                log.info("%s removed: no device is left for it", path, extra={"resource": kind})
        os.close(held)

    def close(self) -> None:
        """Maintain nothing any more; the files stay, for containers that are started again."""
        while self._locks:
            os.close(self._locks.popitem()[1])


def why_not(error: Exception, folder: Path) -> str:
    """Return why a spec is not in the directory, for people."""
    if isinstance(error, SpecError):
        return str(error)
    if isinstance(error, MemoryError):
        return "its CDI spec cannot be written: there is not enough memory"
    return f"its CDI spec cannot be written to {folder}: {reason_of(error).lower()}"


def put(folder: Path, kind: str, content: bytes) -> tuple[int, bool]:
    """Have this spec in a folder; return a descriptor that holds its lock, and whether it is new.

    Raises SpecError and OSError; a spec of ours that is out of date is removed then.
    """
    path = folder / file_name(kind)
    present = None
    with suppress(FileNotFoundError), _opened(path) as descriptor:
        present = _read(descriptor)
        if kind_of_ours(present) != kind:
            raise SpecError(f"{printable(str(path))} is not of genericdp: {_STAYS}")
        if present == content and _lock(descriptor):
            return os.dup(descriptor), False
    try:
        return write(path, content), True
    except OSError:
        if present != content:
            with suppress(OSError):
                path.unlink()  # its nodes may be those of other devices by now
        raise


def is_maintained(path: Path, held: int | None = None) -> bool:
    """Return whether a process keeps a file up to date; not if it is the one that is ``held``."""
    with suppress(OSError, SpecError), _opened(path) as descriptor:
        is_held = held is not None and os.path.sameopenfile(held, descriptor)
        return not is_held and not _lock(descriptor, exclusive=True)
    return False


def remove_ours(path: Path) -> bool:
    """Remove a spec of ours that nobody maintains; return whether there was one."""
    with suppress(OSError, SpecError), _opened(path) as descriptor:
        if _lock(descriptor, exclusive=True):
            is_ours = path.name == file_name(kind_of_ours(_read(descriptor)))
            # Another process may have put its own there since.
            if is_ours and os.path.samestat(os.fstat(descriptor), path.lstat()):
                path.unlink()
                return True
    return False


def spec_files(folder: Path) -> list[SpecFile]:
    """Return the files of a folder that have our prefix, by name; raises OSError."""
    found: list[SpecFile] = []
    with suppress(FileNotFoundError):
        for path in filter(_is_our_name, sorted(folder.iterdir())):
            with suppress(OSError, SpecError), _opened(path) as descriptor:
                content = _read(descriptor)
                one = SpecFile(
                    path=path,
                    content=content,
                    is_ours=path.name == file_name(kind_of_ours(content)),
                    is_maintained=not _lock(descriptor, exclusive=True),
                )
                found.append(one)
    return found


def write(path: Path, content: bytes, *, mode: int = 0o644) -> int:
    """Write a file as a whole or not at all; return a descriptor that holds a lock on it.

    Raise OSError.
    """
    try:
        descriptor, temporary = _locked_temporary(path.parent)
    except OSError as error:
        error.filename = str(path.parent)  # not a name that nobody knows
        raise
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
        os.replace(temporary, path)  # noqa: PTH105
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename = str(path)  # a full disk names none
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise
    return descriptor


def _locked_temporary(folder: Path) -> tuple[int, str]:
    while True:
        descriptor, path = tempfile.mkstemp(prefix=_TEMPORARY, dir=folder)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            # Until it was locked another process could take it for left over.
            if os.fstat(descriptor).st_nlink:
                return descriptor, path
        except OSError:  # a filesystem without locks
            os.close(descriptor)
            os.unlink(path)  # noqa: PTH108
            raise
        os.close(descriptor)


def _remove_leftovers(folder: Path, kept: Collection[str]) -> None:
    """Remove our files, but for those to be kept and those that somebody has locked."""
    remove_temporary(folder)
    for path in _listed(folder):
        if _is_our_name(path) and path.name not in kept and remove_ours(path):
            log.info("%s removed: nobody maintains it", path)


def remove_temporary(folder: Path) -> None:
    """Remove what ``write`` was at in a folder when its process was killed."""
    for path in _listed(folder):
        if path.name.startswith(_TEMPORARY):
            with suppress(OSError, SpecError), _opened(path) as descriptor:
                if _lock(descriptor, exclusive=True):
                    path.unlink(missing_ok=True)


def _is_our_name(path: Path) -> bool:
    return path.name.startswith(PREFIX) and path.suffix == SUFFIX


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


@contextmanager
def _opened(path: Path, *, follow: bool = False) -> Iterator[int]:
    """Open a regular file, with ``follow`` also through links.

    Raises SpecError for anything else, and OSError.
    """
    # It may be a link to a file that is not ours, or a pipe that nobody writes to.
    if not stat.S_ISREG(path.stat(follow_symlinks=follow).st_mode):
        raise SpecError(f"{printable(str(path))} is no regular file: {_STAYS}")
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_regular(path: Path, most: int) -> bytes:
    """Return the content of a regular file of at most so many bytes; raise ValueError or OSError.

    A pipe would be waited for, and a device could go on forever.
    """
    try:
        with _opened(path, follow=True) as descriptor:
            content = _read(descriptor, most + 1)
    except SpecError:
        raise ValueError("it is not a regular file") from None
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return content


def _read(descriptor: int, most: int = _MAX_BYTES) -> bytes:
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read(most)


def _lock(descriptor: int, *, exclusive: bool = False) -> bool:
    """Lock a file for as long as the descriptor, or a copy of it, is open.

    Return whether that was possible at once.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
