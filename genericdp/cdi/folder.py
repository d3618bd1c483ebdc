"""The folder of CDI specs: ours are written and removed, those of others only looked at."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import stat
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.cdi.spec import PREFIX, SUFFIX, file_name, kind_of_ours
from genericdp.errors import is_shortage, reason_of
from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

log = logging.getLogger(__name__)

FOLDER = Path("/var/run/cdi")
"""Where container runtimes look for specs that somebody keeps up to date."""
STATIC_FOLDER = Path("/etc/cdi")
"""Where they look for specs that never change."""
_READ_BY_RUNTIMES = (".json", ".yaml")
_TEMPORARY = ".genericdp-"
_MAX_BYTES = 16 * 1024 * 1024
"""Of a file; the spec of a thousand devices has 250 KB."""
_STAYS = "it is not overwritten (remove it)"
_KIND = re.compile(rb"""(?:^|[\s{,])(["']?)kind\1[ \t]*:[ \t]*(["']?)([\w./-]+)\2""")
"""Each text that may be the kind of a spec, in JSON or YAML. A parser would need hours, and all of
Python with it, for YAML that begins with enough of ``[``, and much memory for JSON."""


class SpecError(Exception):
    """Why a spec cannot be where it has to be: its path or its kind is taken."""


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
        others = kinds_of_others(self.path, STATIC_FOLDER) if specs else {}
        ended = {file_name(kind) for kind in self._locks.keys() - specs.keys()}
        for kind in self._locks.keys() - specs.keys():
            os.close(self._locks.pop(kind))
        for kind, content in specs.items():
            path = self.path / file_name(kind)
            had_other = is_maintained(path, self._locks.get(kind))
            try:
                lock, is_new = put(self.path, kind, content, others)
            except (SpecError, OSError) as error:
                errors[kind] = _why_not(error, self.path)
                continue
            if is_new:
                log.info("%s written", path, extra={"resource": kind})
                if had_other:
                    why = "another process, too, which wants something else in it"
                    log.warning("%s is maintained by %s", path, why, extra={"resource": kind})
            if kind in self._locks:
                os.close(self._locks[kind])
            self._locks[kind] = lock
        _remove_leftovers(self.path, {file_name(kind) for kind in specs}, ended)
        return errors

    def close(self) -> None:
        """Maintain nothing any more; the files stay, for containers that are started again."""
        while self._locks:
            os.close(self._locks.popitem()[1])


def _why_not(error: Exception, folder: Path) -> str:
    if isinstance(error, SpecError):
        return str(error)
    return f"its CDI spec cannot be written to {folder}: {reason_of(error).lower()}"


def put(folder: Path, kind: str, content: bytes, others: Mapping[str, Path]) -> tuple[int, bool]:
    """Have this spec in a folder; return a descriptor that holds its lock, and whether it is new.

    ``others`` is what ``kinds_of_others`` has found. Raises SpecError and OSError; a spec of ours
    that is out of date is removed then.
    """
    path = folder / file_name(kind)
    with _opened(path) as descriptor:
        if descriptor is not None and kind_of_ours(_read(descriptor)) != kind:
            raise SpecError(f"{printable(str(path))} is not of genericdp: {_STAYS}")
        if kind in others:
            _remove(path)
            other = printable(str(others[kind]))
            raise SpecError(f"{other} defines CDI devices of {kind}, too")
        if descriptor is not None and _read(descriptor) == content and _lock(descriptor):
            return os.dup(descriptor), False
        try:
            return _write(path, content), True
        except OSError as error:
            if not is_shortage(error):
                _remove(path)
            raise


def is_maintained(path: Path, held: int | None = None) -> bool:
    """Return whether a process keeps a file up to date; not if it is the one that is ``held``."""
    with suppress(OSError, SpecError), _opened(path) as descriptor:
        if descriptor is None:
            return False
        is_held = held is not None and os.path.sameopenfile(held, descriptor)
        return not is_held and not _lock(descriptor, exclusive=True)
    return False


def remove_ours(path: Path) -> bool:
    """Remove a spec of ours that nobody maintains; return whether there was one."""
    with suppress(OSError, SpecError), _opened(path) as descriptor:
        if descriptor is not None and _lock(descriptor, exclusive=True):
            is_ours = path.name == file_name(kind_of_ours(_read(descriptor)))
            # Another process may have put its own there since.
            if is_ours and os.path.samestat(os.fstat(descriptor), path.lstat()):
                path.unlink()
                return True
    return False


def kinds_of_others(*folders: Path) -> dict[str, Path]:
    """Return the kinds that specs in folders define, with their files, but for those at our place.

    That is in the first folder. What cannot be read is no spec to a container runtime either.
    """
    found: dict[str, Path] = {}
    for path in (one for folder in folders for one in _listed(folder)):
        if path.suffix not in _READ_BY_RUNTIMES:
            continue
        with suppress(OSError, SpecError), _opened(path, follow=True) as descriptor:
            for match in _KIND.finditer(b"" if descriptor is None else _read(descriptor)):
                kind = match[3].decode()
                if path != folders[0] / file_name(kind):
                    found.setdefault(kind, path)
    return found


def spec_files(folder: Path) -> Iterator[SpecFile]:
    """Yield the files of a folder that have our prefix, by name; raises OSError."""
    try:
        listed = sorted(folder.iterdir())
    except FileNotFoundError:
        return
    for path in listed:
        if _is_our_name(path):
            with suppress(OSError, SpecError), _opened(path) as descriptor:
                if descriptor is not None:
                    content = _read(descriptor)
                    yield SpecFile(
                        path=path,
                        content=content,
                        is_ours=path.name == file_name(kind_of_ours(content)),
                        is_maintained=not _lock(descriptor, exclusive=True),
                    )


def _write(path: Path, content: bytes) -> int:
    """Write a spec as a whole or not at all; return a descriptor that holds its lock."""
    descriptor, temporary = _locked_temporary(path.parent)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.fchmod(descriptor, 0o644)
        os.fsync(descriptor)
        os.replace(temporary, path)  # noqa: PTH105
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except BaseException:
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise
    return descriptor


def _remove(path: Path) -> None:
    """Remove a spec that is out of date: its nodes may be those of other devices by now."""
    with suppress(OSError):
        path.unlink()


def _locked_temporary(folder: Path) -> tuple[int, str]:
    while True:
        descriptor, path = tempfile.mkstemp(prefix=_TEMPORARY, dir=folder)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if os.fstat(descriptor).st_nlink:
            return descriptor, path
        os.close(descriptor)  # until it was locked another process could take it for left over


def _remove_leftovers(folder: Path, kept: Collection[str], ended: Collection[str]) -> None:
    """Remove our files, but for those to be kept and those that somebody has locked.

    ``ended``: the names of those that were maintained here.
    """
    for path in _listed(folder):
        if path.name.startswith(_TEMPORARY):
            with suppress(OSError, SpecError), _opened(path) as descriptor:
                if descriptor is not None and _lock(descriptor, exclusive=True):
                    path.unlink(missing_ok=True)
        elif _is_our_name(path) and path.name not in kept and remove_ours(path):
            why = "no device is left for it" if path.name in ended else "nobody maintains it"
            log.info("%s removed: %s", path, why)


def _is_our_name(path: Path) -> bool:
    return path.name.startswith(PREFIX) and path.suffix == SUFFIX


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


@contextmanager
def _opened(path: Path, *, follow: bool = False) -> Iterator[int | None]:
    """Open a regular file, with ``follow`` also through links; yield None if there is nothing.

    Raises SpecError for anything else, and OSError.
    """
    try:
        # It may be a link to a file that is not ours, or a pipe that nobody writes to.
        if not stat.S_ISREG(path.stat(follow_symlinks=follow).st_mode):
            raise SpecError(f"{printable(str(path))} is no regular file: {_STAYS}")
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        path.parent.stat()
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        return file.read(_MAX_BYTES)


def _lock(descriptor: int, *, exclusive: bool = False) -> bool:
    """Lock a file for as long as the descriptor, or a copy of it, is open.

    Return whether that was possible at once.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
