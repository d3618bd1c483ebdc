"""The files of a config and their bytes: nothing here hangs or reads without end."""

from __future__ import annotations

import errno
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.config.loaded import SUFFIXES
from genericdp.errors import is_shortage
from genericdp.host.pathwalk import opened, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """What was read from a file."""

    text: bytes
    at: str = ""
    """The path that it was read from in the end."""
    doubt: str = ""
    """Which link on the way an unprivileged user could redirect; empty if none.

    Then nothing of the text may be shown: it may be of a file that only root can read.
    """


class Digest:
    """SHA-256 over the names and contents of files; of a config, the policy comes first."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, name: str, given: Content | OSError) -> None:
        """Take in a file, or why it cannot be read."""
        text = given.text if isinstance(given, Content) else f"errno {given.errno}".encode()
        self._hash.update(os.fsencode(f"{name}\0{len(text)}\0"))
        self._hash.update(text)

    def __str__(self) -> str:
        return self._hash.hexdigest()


def read_files(
    paths: Iterable[Path], pipes: Mapping[Path, bytes] | None = None
) -> Iterator[tuple[Path, Content | OSError]]:
    """Yield each file of a config with its content, or why that cannot be read.

    A path is a file or a folder with files. Raises OSError for a shortage of descriptors or memory.
    """
    for path in paths:
        try:
            files = [path] if pipes and path in pipes else _files_of(path)
        except OSError as error:
            yield path, _known(error)
        else:
            yield from ((file, read_file(file, pipes)) for file in files)


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = (one for one in path.iterdir() if not one.name.startswith("."))
    if files := sorted(one for one in found if one.name.endswith(SUFFIXES)):
        return files
    raise OSError(errno.ENODATA, os.strerror(errno.ENODATA), path)


def read_file(path: Path, pipes: Mapping[Path, bytes] | None = None) -> Content | OSError:
    """Return the content of a regular file, or why it cannot be read.

    ``pipes`` holds what was read from paths that can be read only once. Raises OSError for a
    shortage of descriptors or memory.
    """
    try:
        if pipes and path in pipes:
            given = Content(text=pipes[path])
        else:
            # Not os.path.abspath: what ".." leads to depends on links.
            with opened(os.fspath(Path.cwd() / path)) as (descriptor, found):
                # More is read than may be there: a file can grow after its size was asked.
                text = read(descriptor, MAX_BYTES + 1)
            given = Content(text=text, at=found.at, doubt=found.trouble)
    except OSError as error:
        return _known(error)
    if len(given.text) > MAX_BYTES:
        return OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return given


def _known(error: OSError) -> OSError:
    if is_shortage(error):  # which says nothing about the file
        raise error
    return error
