"""Reads config files with limits on size and time."""

from __future__ import annotations

import errno
import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.errors import Problem, is_shortage, reason_of
from genericdp.host import calls
from genericdp.host.pathwalk import NotAFileError, opened, read
from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from genericdp.config.document import Document
    from genericdp.host.calls import Watched
    from genericdp.model import Resource
    from genericdp.policy import Policy

STDIN = Path("-")
"""Placeholder for a config from stdin, which has been read already."""
SUFFIXES = (".yaml", ".yml")
MAX_BYTES = 1024 * 1024
LOAD_SECONDS = 60.0
"""Time limit for callers that wait until a config is loaded. The CPU time of loading is limited,
too, and a hang is reported sooner; this limit is for a process that gets no processor.
"""
_MESSAGES = {
    errno.ENOENT: "it does not exist",
    errno.EACCES: "it cannot be read: permission denied",
    errno.ELOOP: "it is a symbolic link that leads to itself",
    errno.ENOTDIR: "a part of its path is not a directory",
    errno.EFBIG: "it is larger than 1 MiB, the most that a config may have",
    errno.ENODATA: "the directory holds no config: no *.yaml or *.yml that is not hidden",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """A whole config: its resources if it is valid, and its problems and warnings."""

    digest: str = ""
    """Hexadecimal SHA-256 of the names (without their directories) and contents of its files, in
    the order of precedence, and of the content of the policy. Empty if loading itself has failed.
    """
    resources: tuple[Resource, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    files: tuple[Path, ...] = ()
    """The files that were read or should have been, in the order of precedence."""
    policy: Policy | None = None
    """The policy; each resource refers to it."""
    policy_is_unusable: bool = False
    """Whether a requested policy could not be loaded; ``problems`` has the reasons."""
    texts: tuple[tuple[str, bytes], ...] = field(default=(), compare=False, repr=False)
    """Name and content of each file that was read; if a child loaded it, only those of a valid
    config.
    """
    pinned: tuple[str, ...] = field(default=(), compare=False)
    """Files and directories that are never seen to change on this machine, with the reason."""
    config_map: str = ""
    """The ConfigMap that it is in, where it is one of several configs in manifests."""
    claims: Sequence[Document] = field(default=(), compare=False, repr=False)
    """The claims and DeviceClasses in its files, if these are to be checked."""
    policy_text: str = field(default="", compare=False, repr=False)
    """The policy in the same manifests, which bounds it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """The content of a file."""

    text: bytes
    at: str = ""
    """The path that it was read from, with links resolved."""
    untrusted_link: str = ""
    """Return the link on the way that an unprivileged user could redirect, or an empty string.

    If there is one, the content must not be shown: it may be from a file that only root can read.
    """


class Digest:
    """SHA-256 of the names and contents of files; for a config, the policy comes first."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, name: str, given: Content | OSError) -> None:
        """Add a file, or the reason why it cannot be read."""
        text = given.text if isinstance(given, Content) else f"errno {given.errno}".encode()
        self._hash.update(os.fsencode(f"{name}\0{len(text)}\0"))
        self._hash.update(text)

    def __str__(self) -> str:
        return self._hash.hexdigest()


def read_files(
    paths: Iterable[Path], pipes: Mapping[Path, bytes] | None = None
) -> Iterator[tuple[Path, Content | OSError]]:
    """Yield each file of a config with its content, or why that cannot be read.

    A path is a file or a directory with files. Raises OSError for a shortage of descriptors or
    memory.
    """
    for path in paths:
        try:
            files = [path] if pipes and path in pipes else _files_of(path)
        except OSError as error:
            yield path, _known(error)
        else:
            yield from ((file, read_file(file, pipes)) for file in files)


def _files_of(path: Path) -> list[Path]:
    calls.looking_at(printable(str(path)))
    if not calls.isdir(str(path)):
        return [path]
    names = calls.listdir(str(path))
    found = (path / name for name in names if not name.startswith("."))
    if files := sorted(file for file in found if file.name.endswith(SUFFIXES)):
        return files
    raise OSError(errno.ENODATA, os.strerror(errno.ENODATA), path)


def read_file(path: Path, pipes: Mapping[Path, bytes] | None = None) -> Content | OSError:
    """Return the content of a regular file, or why it cannot be read.

    ``pipes`` has the content of paths that can be read only once. Raises OSError for a shortage of
    descriptors or memory.
    """
    try:
        if pipes and path in pipes:
            given = Content(text=pipes[path])
        else:
            calls.looking_at(printable(str(path)))
            # Not os.path.abspath: what ".." leads to depends on links.
            with opened(os.fspath(Path.cwd() / path)) as (descriptor, found):
                # One byte more than allowed is read: a file can grow after its size was checked.
                text = read(descriptor, MAX_BYTES + 1)
            given = Content(text=text, at=found.at, untrusted_link=found.why_untrusted)
    except OSError as error:
        return _known(error)
    if len(given.text) > MAX_BYTES:
        return OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return given


def _known(error: OSError) -> OSError:
    if is_shortage(error):  # which says nothing about the file
        raise error
    return error


def unreadable(name: str | Path, error: OSError) -> Problem:
    """Return the problem for a file that cannot be read."""
    if isinstance(error, NotAFileError):
        return unusable(name, error.strerror or "it is not a file")
    other = f"it cannot be read: {reason_of(error).lower()}"
    return unusable(name, _MESSAGES.get(error.errno or 0, other))


def hanging(reading: Watched) -> Problem:
    """Return the problem for a file or directory whose reading hangs."""
    at = printable(reading.path)
    hint = "" if at == reading.what else f"{at} hangs"
    return unusable(reading.what, "reading it timed out", hint)


def unusable(name: str | Path, message: str, hint: str = "") -> Problem:
    """Return a problem that concerns a file as a whole."""
    return Problem(file=printable(str(name)), line=1, column=1, path="", message=message, hint=hint)
