"""Snapshot archives: gzipped tar files of directories, small files, and links within the tree.

An archive may come from an untrusted source. The inflated size is limited, in total and for each
entry. Names and links are checked as text, and nothing is written through a link: the data filter
of ``tarfile`` is missing before Python 3.11.4 (Debian 12 has 3.11.2), and resolves links on disk,
which Python before 3.11.13, 3.12.11 and 3.13.4 gets wrong for very long ones.
"""

from __future__ import annotations

import gzip
import json
import os
import tarfile
import zlib
from enum import Enum
from typing import IO, TYPE_CHECKING, NamedTuple

from genericdp.errors import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

MANIFEST = "genericdp-snapshot.json"
"""The first entry; identifies the file."""
FORMAT = 1
MAX_BYTES = 256 * 1024 * 1024
"""Maximum inflated size of an archive, including headers: at most half a million entries."""
MAX_FILE_BYTES = 65_536
_MAX_ENTRY_BYTES = 2 * MAX_FILE_BYTES
"""Maximum size of an entry with all its headers, which contain long names."""
_MAX_PATH_BYTES = 4095
_MAX_NAME_BYTES = 255
_MAX_DEPTH = 64
_ENCODING = ("utf-8", "surrogateescape")


class Kind(Enum):
    """The type of an entry."""

    DIRECTORY = tarfile.DIRTYPE
    FILE = tarfile.REGTYPE
    LINK = tarfile.SYMTYPE


class ArchiveEntry(NamedTuple):
    """A directory, file or link of the tree."""

    path: str
    """The path, without a leading slash."""
    kind: Kind
    content: bytes = b""
    """The content of a file."""
    target: str = ""
    """The target of a link: relative, and within the tree."""


class ArchiveError(Exception):
    """A file that is not a snapshot, or is damaged, hostile or too large."""


def write(
    file: IO[bytes],
    manifest: Mapping[str, object],
    entries: Iterable[ArchiveEntry],
    *,
    max_bytes: int = MAX_BYTES,
) -> int:
    """Write a snapshot, byte for byte the same for the same entries; return their number.

    Raise ArchiveError if it would be too large, OSError if it cannot be written.
    """
    about = json.dumps({"format": FORMAT, **manifest}, indent=2, sort_keys=True).encode()
    count = 0
    end = bytes(2 * tarfile.BLOCKSIZE)
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6) as out:
        size = len(end) + out.write(_packed(ArchiveEntry(MANIFEST, Kind.FILE, about)))
        for entry in entries:
            packed = _packed(entry)
            count, size = count + 1, size + len(packed)
            if size > max_bytes:
                raise _too_large(max_bytes)
            out.write(packed)
        out.write(end)
    return count


def _packed(entry: ArchiveEntry) -> bytes:
    info = tarfile.TarInfo(entry.path)
    info.type = entry.kind.value
    info.mode = 0o644 if entry.kind is Kind.FILE else 0o755
    info.size = len(entry.content)
    info.linkname = entry.target
    header = info.tobuf(tarfile.GNU_FORMAT, *_ENCODING)
    return header + entry.content + bytes(-len(entry.content) % tarfile.BLOCKSIZE)


def _too_large(max_bytes: int) -> ArchiveError:
    return ArchiveError(f"it is larger than {max_bytes / 2**20:g} MiB when inflated")


def read(file: IO[bytes], *, max_bytes: int = MAX_BYTES) -> Iterator[ArchiveEntry]:
    """Yield the entries of a snapshot after its manifest; raise ArchiveError and OSError."""
    try:
        with _Inflating(file, max_bytes) as inflating:
            entries = _entries(inflating)
            _check_manifest(next(entries, None))
            yield from entries
    except gzip.BadGzipFile as error:
        raise ArchiveError(
            "it is not a snapshot: it is not a gzip file, or it is damaged"
        ) from error
    except (EOFError, zlib.error) as error:
        raise ArchiveError("it is damaged or cut off") from error
    except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
        raise ArchiveError("it is not a snapshot, or damaged: not a tar archive") from error


class _Inflating(gzip.GzipFile):
    """An archive as ``tarfile`` reads it, within limits."""

    def __init__(self, file: IO[bytes], max_bytes: int) -> None:
        super().__init__(fileobj=file, mode="rb")
        self.last = b""
        """What was read last."""
        self._max_bytes = max_bytes
        self._entry_end = 0

    def begin_entry(self) -> None:
        """Allow as many bytes as one entry may have."""
        self._entry_end = self.tell() + _MAX_ENTRY_BYTES

    def read(self, size: int | None = -1) -> bytes:
        """Return this many bytes or the remaining ones; raise ArchiveError before a limit is
        exceeded.
        """
        begin = self.tell()
        end = begin + (-1 if size is None else size)
        if not begin <= end <= self._entry_end:
            raise ArchiveError(f"it has an entry of more than {MAX_FILE_BYTES} bytes")
        if end > self._max_bytes:
            raise _too_large(self._max_bytes)
        self.last = super().read(size)
        return self.last


def _entries(inflating: _Inflating) -> Iterator[ArchiveEntry]:
    inflating.begin_entry()
    encoding, errors = _ENCODING
    with tarfile.TarFile(fileobj=inflating, encoding=encoding, errors=errors) as tar:
        while (info := tar.next()) is not None:
            if path := _checked_path(info.name):
                yield _entry(path, info, inflating)
            inflating.begin_entry()
    # tarfile treats a damaged header as the end, too.
    if inflating.last != bytes(tarfile.BLOCKSIZE):
        raise ArchiveError("it is damaged or cut off: it has no end")


def _check_manifest(first: ArchiveEntry | None) -> None:
    if first is None or first.path != MANIFEST:
        raise ArchiveError(
            f"it is an archive, but no snapshot: it does not begin with {MANIFEST}"
            " (unpack it, and give --root the directory)"
        )
    try:
        found = json.loads(first.content)["format"]
    except DAMAGE as error:
        raise ArchiveError(f"its {MANIFEST} cannot be understood") from error
    if found != FORMAT:
        raise ArchiveError(f"it has the format {found!r:.20}; this genericdp reads {FORMAT}")


def _checked_path(name: str) -> str:
    """Return a path below the tree's directory; empty for that itself. Raise ArchiveError."""
    parts = name.removesuffix("/").split("/")
    while parts and parts[0] == ".":  # as tar writes `tar c .`
        parts = parts[1:]
    bad = any(part in {"", ".", ".."} or len(_bytes(part)) > _MAX_NAME_BYTES for part in parts)
    too_long = len(parts) > _MAX_DEPTH or len(_bytes(name)) > _MAX_PATH_BYTES
    if bad or too_long or "\0" in name:
        raise ArchiveError(f"it has an entry with the path {name!r:.200}")
    return "/".join(parts)


def _bytes(text: str) -> bytes:
    return text.encode(*_ENCODING)


def _entry(path: str, info: tarfile.TarInfo, inflating: _Inflating) -> ArchiveEntry:
    if info.isreg():
        return ArchiveEntry(path, Kind.FILE, _content(path, info, inflating))
    if info.size:
        raise ArchiveError(f"{path!r:.200} is not a file, but has content")
    if info.isdir():
        return ArchiveEntry(path, Kind.DIRECTORY)
    if info.issym():
        if led_to(path, info.linkname) is None:
            raise ArchiveError(
                f"{path!r:.200} is a link out of the tree, to {info.linkname!r:.200}"
            )
        return ArchiveEntry(path, Kind.LINK, target=info.linkname)
    raise ArchiveError(f"{path!r:.200} is neither a file nor a directory nor a link")


def _content(path: str, info: tarfile.TarInfo, inflating: _Inflating) -> bytes:
    if info.issparse():
        raise ArchiveError(f"{path!r:.200} is sparse (pack without --sparse)")
    if not 0 <= info.size <= MAX_FILE_BYTES:
        raise ArchiveError(f"{path!r:.200} has {info.size} bytes; {MAX_FILE_BYTES} are the most")
    content = inflating.read(info.size)  # tarfile has read up to that point
    if len(content) < info.size:
        raise ArchiveError("it is damaged or cut off: a file is not complete")
    return content


def led_to(path: str, target: str) -> str | None:
    """Return the target of a relative link, without resolving links; None if it is outside the
    tree.
    """
    too_long = len(_bytes(target)) > _MAX_PATH_BYTES
    if not target or target.startswith("/") or too_long or "\0" in target:
        return None
    parts, has_entered = path.split("/")[:-1], False
    for part in target.split("/"):
        if part == "..":
            # The directory may be a link itself, so that its real parent differs.
            if not parts or has_entered:
                return None
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
            has_entered = True
    return "/".join(parts)


def unpack(file: IO[bytes], directory: Path) -> None:
    """Create the tree in an empty directory of our own; raise ArchiveError and OSError.

    Directories are always created here, never reused, so that nothing is written through a link.
    """
    made = {""}
    for entry in read(file):
        at = f"{directory}/{entry.path}"
        try:
            if entry.kind is Kind.DIRECTORY:
                _make_directories(directory, entry.path, made)
                continue
            _make_directories(directory, entry.path.rpartition("/")[0], made)
            if entry.kind is Kind.LINK:
                os.symlink(entry.target, at)  # noqa: PTH211
            else:
                with open(at, "xb") as out:  # noqa: PTH123
                    out.write(entry.content)
        except FileExistsError as error:
            raise ArchiveError(f"it has {entry.path!r:.200} twice, or below a file") from error


def _make_directories(directory: Path, path: str, made: set[str]) -> None:
    if path not in made:
        _make_directories(directory, path.rpartition("/")[0], made)
        os.mkdir(f"{directory}/{path}", 0o755)  # noqa: PTH102
        made.add(path)
