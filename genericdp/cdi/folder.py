"""The folder of CDI specs: ours are kept true in it, those of others are only looked at."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import stat
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.cdi.spec import PREFIX, SUFFIX, file_name, kind_of_ours, nodes_by_device
from genericdp.errors import reason_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

log = logging.getLogger(__name__)

FOLDER = Path("/var/run/cdi")
"""Where container runtimes look for specs that somebody keeps true."""
STATIC_FOLDER = Path("/etc/cdi")
"""Where they look for specs that never change."""
_READ_BY_RUNTIMES = (".json", ".yaml")
_TEMPORARY = ".genericdp-"
_MAX_BYTES = 16 * 1024 * 1024
"""Of a file with our name that is looked at; it has 250 KB for a thousand devices."""
_MAX_BYTES_OF_OTHERS = 4 * 1024 * 1024
"""Of any other: what is made of it in memory may take 25 times as much."""
_YAML_KIND = re.compile(rb"""^kind:[ \t]+(["']?)([\w./-]+)\1[ \t]*(?:#.*)?\r?$""", re.MULTILINE)
"""A parser of YAML takes hours, and all of Python with it, for a file that begins with enough of
``[``. This finds the kind in the block style, which is what people and programs write."""


class SpecError(Exception):
    """Why a spec cannot be where it has to be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecFile:
    """A file with our prefix."""

    path: Path
    devices: Mapping[str, list[str]]
    """The nodes of each CDI device; none: it is no spec of ours."""
    is_kept: bool
    """Whether a process keeps it true."""


class SpecFolder:
    """Keeps the specs of this process in a folder, which it never creates.

    It holds a lock on each file that it keeps: one that nobody has locked is left over, by a config
    of before or a process that has ended.
    """

    def __init__(self, path: Path = FOLDER) -> None:
        self.path = path
        self._kept: dict[str, int] = {}
        """Descriptors that hold the locks, by kind."""

    def keep(self, specs: Mapping[str, bytes]) -> dict[str, str]:
        """Write what differs, by kind, and remove what is left over.

        Return why it failed, by kind. Whenever the process is killed, there is either the spec of
        before or this one.
        """
        troubles = {}
        others = kinds_of_others(self.path, STATIC_FOLDER) if specs else {}
        for kind, content in specs.items():
            try:
                self._keep(kind, content, others)
            except SpecError as error:
                troubles[kind] = str(error)
            except OSError as error:
                why = reason_of(error).lower()
                troubles[kind] = f"its CDI spec cannot be written to {self.path}: {why}"
        kept = specs.keys() - troubles.keys()
        for kind in self._kept.keys() - kept:
            os.close(self._kept.pop(kind))
        with suppress(OSError):  # where the folder cannot be read, nothing can be removed
            _remove_leftovers(self.path, {file_name(kind) for kind in kept})
        return troubles

    def close(self) -> None:
        """Keep nothing any more; the files stay, for containers that are started again."""
        while self._kept:
            os.close(self._kept.popitem()[1])

    def _keep(self, kind: str, content: bytes, others: Mapping[str, Path]) -> None:
        check_free(self.path, kind, others)
        path = self.path / file_name(kind)
        with _opened(path) as descriptor:
            if descriptor is not None and _read(descriptor) == content and _lock(descriptor):
                new = os.dup(descriptor)
            else:
                new = write(path, content)
                log.info("%s written", path, extra={"resource": kind})
        if kind in self._kept:
            os.close(self._kept[kind])
        self._kept[kind] = new


def check_free(folder: Path, kind: str, others: Mapping[str, Path]) -> None:
    """Raise SpecError if the place of a spec is taken, OSError if that cannot be seen.

    ``others`` is what ``kinds_of_others`` has found.
    """
    if kind in others:
        raise SpecError(f"{others[kind]} defines CDI devices of {kind}, too")
    path = folder / file_name(kind)
    with _opened(path) as descriptor:
        if descriptor is not None and kind_of_ours(_read(descriptor)) != kind:
            raise SpecError(f"{path} is not of genericdp: it is not overwritten (remove it)")


def has_content(path: Path, content: bytes) -> bool:
    """Return whether a file has this content; raises OSError."""
    with _opened(path) as descriptor:
        return descriptor is not None and _read(descriptor) == content


def kinds_of_others(*folders: Path) -> dict[str, Path]:
    """Return the kinds that specs in folders define, with their files, but for those at our place.

    That is in the first folder. What cannot be read is no spec to a container runtime either.
    """
    found: dict[str, Path] = {}
    listed: list[Path] = []
    for folder in folders:
        with suppress(OSError):
            listed += _listed(folder)
    for path in listed:
        if path.suffix not in _READ_BY_RUNTIMES:
            continue
        with suppress(OSError, SpecError), _opened(path, follow=True) as descriptor:
            if descriptor is not None:
                kind = _kind_of(_read(descriptor, _MAX_BYTES_OF_OTHERS))
                if path != folders[0] / file_name(kind):
                    found.setdefault(kind, path)
    return found


def written_to(folder: Path) -> Iterator[SpecFile]:
    """Yield the files of a folder that have our prefix, by name; raises OSError."""
    for path in _listed(folder):
        if not (path.name.startswith(PREFIX) and path.suffix == SUFFIX):
            continue
        with suppress(OSError, SpecError), _opened(path) as descriptor:
            if descriptor is not None:
                content = _read(descriptor)
                is_free = _lock(descriptor, exclusive=True)
                # Who keeps it may have replaced it since it was opened.
                is_same = os.path.samestat(os.fstat(descriptor), path.lstat())
                is_kept = not (is_free and is_same)
                is_ours = path.name == file_name(kind_of_ours(content))
                devices = nodes_by_device(content) if is_ours else {}
                yield SpecFile(path=path, devices=devices, is_kept=is_kept)


def write(path: Path, content: bytes) -> int:
    """Write a spec as a whole or not at all; return a descriptor that holds its lock.

    Raises OSError.
    """
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


def _locked_temporary(folder: Path) -> tuple[int, str]:
    while True:
        descriptor, path = tempfile.mkstemp(prefix=_TEMPORARY, dir=folder)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if os.fstat(descriptor).st_nlink:
            return descriptor, path
        os.close(descriptor)  # until it was locked another process could take it for left over


def _remove_leftovers(folder: Path, kept: Collection[str]) -> None:
    """Remove our files that nobody keeps; raises OSError."""
    for one in written_to(folder):
        if one.path.name not in kept and one.devices and not one.is_kept:
            one.path.unlink(missing_ok=True)
            log.info("%s removed: nothing keeps it true any more", one.path)
    for path in _listed(folder):
        if path.name.startswith(_TEMPORARY):
            with suppress(SpecError), _opened(path) as descriptor:
                if descriptor is not None and _lock(descriptor, exclusive=True):
                    path.unlink(missing_ok=True)


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


@contextmanager
def _opened(path: Path, *, follow: bool = False) -> Iterator[int | None]:
    """Open a regular file, or a link to one with ``follow``; None: there is nothing.

    Raises SpecError for anything else, and OSError.
    """
    try:
        # It may be a link to a file that is not ours, or a pipe that nobody writes to.
        if not stat.S_ISREG(path.stat(follow_symlinks=follow).st_mode):
            raise SpecError(f"{path} is no regular file: it is not overwritten (remove it)")
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


def _read(descriptor: int, most: int = _MAX_BYTES) -> bytes:
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        return file.read(most)


def _lock(descriptor: int, *, exclusive: bool = False) -> bool:
    """Lock a file for as long as the descriptor, or a copy of it, is open; return whether it is."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _kind_of(content: bytes) -> str:
    """Return the kind of a spec, in JSON or YAML; empty if it is none."""
    try:
        spec = json.loads(content)
    except (ValueError, RecursionError):
        found = _YAML_KIND.search(content)
        return found[2].decode(errors="replace") if found else ""
    return str(spec.get("kind", "")) if isinstance(spec, dict) else ""
