"""Snapshot archives: gzipped tar of folders, small files, and links within the tree.

What is read may come from anybody. It is taken apart here, not by ``tarfile.open``: that reads
headers of any length into memory, and makes devices, hard links and links to anywhere.
"""

from __future__ import annotations

import gzip
import json
import os
import tarfile
import zlib
from enum import Enum
from typing import IO, TYPE_CHECKING, NamedTuple

from genericdp.snapshot import pax

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

MANIFEST = "genericdp-snapshot.json"
"""The first entry; says what the file is."""
FORMAT = 1
MOST_ENTRIES = 1_000_000
MOST_BYTES = 256 * 1024 * 1024
"""Of all contents together."""
MOST_INFLATED_BYTES = 512 * 1024 * 1024
"""Of the whole archive, with headers and long names: what may be inflated bounds the time."""
MOST_FILE_BYTES = 65_536
_MOST_PATH_BYTES = 4095
_MOST_NAME_BYTES = 255
_MOST_DEPTH = 64
_BLOCK = 512
_OF_THE_NEXT = {
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE),
}
_ENCODING = ("utf-8", "surrogateescape")


class Kind(Enum):
    """What an entry is."""

    FOLDER = tarfile.DIRTYPE
    FILE = tarfile.REGTYPE
    LINK = tarfile.SYMTYPE


class Entry(NamedTuple):
    """One thing of the tree."""

    path: str
    """Without a slash at its beginning."""
    kind: Kind
    content: bytes = b""
    """Of a file."""
    target: str = ""
    """Of a link: relative, and within the tree."""


class ArchiveError(Exception):
    """A file that is no snapshot, or a damaged or hostile one; its text says how."""


def write(
    file: IO[bytes], manifest: Mapping[str, object], entries: Iterable[Entry]
) -> tuple[int, int]:
    """Write a snapshot, byte for byte the same for the same entries; give entries and bytes.

    Raises ArchiveError if there is too much, OSError if it cannot be written.
    """
    about = json.dumps({"format": FORMAT, **manifest}, indent=2, sort_keys=True).encode()
    count = size = 0
    end = bytes(2 * _BLOCK)
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6) as out:
        inflated = out.write(_packed(Entry(MANIFEST, Kind.FILE, about))) + len(end)
        for entry in entries:
            piece = _packed(entry)
            count, size = count + 1, size + len(entry.content)
            inflated += len(piece)
            _refuse_too_much(count, size, inflated)
            out.write(piece)
        out.write(end)
    return count, size


def _packed(entry: Entry) -> bytes:
    info = tarfile.TarInfo(entry.path)
    info.type = entry.kind.value
    info.mode = 0o644 if entry.kind is Kind.FILE else 0o755
    info.size = len(entry.content)
    info.linkname = entry.target
    header = info.tobuf(tarfile.GNU_FORMAT, *_ENCODING)
    return header + entry.content + bytes(-len(entry.content) % _BLOCK)


def _refuse_too_much(count: int, size: int, inflated: int) -> None:
    if count > MOST_ENTRIES:
        raise ArchiveError(f"it has more than {MOST_ENTRIES:,} entries")
    if size > MOST_BYTES:
        raise ArchiveError(f"its files have more than {MOST_BYTES >> 20} MiB")
    if inflated > MOST_INFLATED_BYTES:
        raise ArchiveError(f"it is longer than {MOST_INFLATED_BYTES >> 20} MiB when inflated")


def read(file: IO[bytes]) -> Iterator[Entry]:
    """Give the entries of a snapshot behind its manifest; raises ArchiveError and OSError."""
    try:
        with gzip.GzipFile(fileobj=file, mode="rb") as inflating:
            entries = _entries(_Counted(inflating))
            _check_manifest(next(entries, None))
            yield from entries
    except gzip.BadGzipFile as error:
        raise ArchiveError(f"it is no snapshot ({str(error).lower()})") from error
    except (EOFError, zlib.error) as error:
        raise ArchiveError(f"it is damaged or cut off ({str(error).lower()})") from error
    except tarfile.HeaderError as error:
        raise ArchiveError(f"it is no snapshot, or damaged ({error})") from error


class _Counted:
    """An archive as it is inflated; remembers how much of it was asked for."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file
        self.size = 0

    def read(self, size: int) -> bytes:
        """Give that many bytes, or those left; raises ArchiveError before they are too many."""
        self.size += size
        _refuse_too_much(0, 0, self.size)
        return self._file.read(size)


def _check_manifest(first: Entry | None) -> None:
    if first is None or first.path != MANIFEST:
        raise ArchiveError(
            f"it is an archive, but no snapshot: it does not begin with {MANIFEST}"
            " (unpack it, and give --root the folder)"
        )
    try:
        found = json.loads(first.content)["format"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ArchiveError(f"its {MANIFEST} cannot be understood") from error
    if found != FORMAT:
        raise ArchiveError(f"it has the format {found!r:.20}; this genericdp reads {FORMAT}")


def _entries(packed: _Counted) -> Iterator[Entry]:
    count = size = 0
    while (info := _header(packed)) is not None:
        count, size = count + 1, size + info.size
        _refuse_too_much(count, size, packed.size)
        path = _checked_path(info.name)
        if path:
            yield _entry(path, info, packed)


def _header(packed: _Counted) -> tarfile.TarInfo | None:
    """Read one header; long names, and what pax adds, come before it, in headers of their own."""
    long: dict[bytes, str] = {}
    replaced: dict[str, str] = {}
    while True:
        block = packed.read(_BLOCK)
        if not block.strip(b"\0") and len(block) in {0, _BLOCK}:
            if not block:
                raise ArchiveError("it is damaged or cut off (it has no end)")
            return None
        info = tarfile.TarInfo.frombuf(block, *_ENCODING)
        if info.type not in _OF_THE_NEXT:
            break
        if info.type in long:
            raise ArchiveError("an entry has two names")
        if info.type in {tarfile.XHDTYPE, tarfile.XGLTYPE}:
            found = _pax_records(packed, info)
            # A global one holds for all that follows, of which only remarks can be ignored.
            if info.type == tarfile.XGLTYPE and found:
                raise ArchiveError("it has one name or size for all entries (a global pax header)")
            replaced |= found
            long[info.type] = ""
            continue
        text = _content(packed, info, _MOST_PATH_BYTES + 1).split(b"\0", 1)[0]
        long[info.type] = text.decode(*_ENCODING)
    info.name = replaced.get("path") or long.get(tarfile.GNUTYPE_LONGNAME, info.name)
    info.linkname = replaced.get("linkpath") or long.get(tarfile.GNUTYPE_LONGLINK, info.linkname)
    info.size = int(replaced.get("size") or info.size)
    return info


def _pax_records(packed: _Counted, info: tarfile.TarInfo) -> dict[str, str]:
    try:
        return pax.records(_content(packed, info, pax.MOST_BYTES))
    except ValueError as error:
        raise ArchiveError(f"its pax headers cannot be read: {error}") from error


def _content(packed: _Counted, info: tarfile.TarInfo, most: int) -> bytes:
    if not 0 <= info.size <= most:
        raise ArchiveError(f"{info.name!r:.200} has {info.size} bytes; {most} are the most")
    padded = info.size + -info.size % _BLOCK
    content = packed.read(padded)
    if len(content) < padded:
        raise ArchiveError("it is damaged or cut off (a file is not complete)")
    return content[: info.size]


def _checked_path(name: str) -> str:
    """Give a path below the tree's folder; empty for that itself. Raises ArchiveError."""
    parts = name.removesuffix("/").split("/")
    while parts and parts[0] == ".":  # as tar writes `tar c .`
        parts = parts[1:]
    bad = any(part in {"", ".", ".."} or len(_bytes(part)) > _MOST_NAME_BYTES for part in parts)
    if bad or len(parts) > _MOST_DEPTH or len(_bytes(name)) > _MOST_PATH_BYTES:
        raise ArchiveError(f"it has an entry with the path {name!r:.200}")
    return "/".join(parts)


def _bytes(text: str) -> bytes:
    return text.encode(*_ENCODING)


def _entry(path: str, info: tarfile.TarInfo, packed: _Counted) -> Entry:
    if info.type in {tarfile.REGTYPE, tarfile.AREGTYPE}:
        return Entry(path, Kind.FILE, _content(packed, info, MOST_FILE_BYTES))
    if info.size:
        raise ArchiveError(f"{path!r:.200} is no file, but has content")
    if info.type == tarfile.DIRTYPE:
        return Entry(path, Kind.FOLDER)
    if info.type == tarfile.SYMTYPE:
        if led_to(path, info.linkname) is None:
            raise ArchiveError(
                f"{path!r:.200} is a link out of the tree, to {info.linkname!r:.200}"
            )
        return Entry(path, Kind.LINK, target=info.linkname)
    raise ArchiveError(f"{path!r:.200} is neither a file nor a folder nor a link")


def led_to(path: str, target: str) -> str | None:
    """Give where a relative link leads, as it is written; None: out of the tree, or nowhere."""
    if not target or target.startswith("/") or len(_bytes(target)) > _MOST_PATH_BYTES:
        return None
    parts, has_entered = path.split("/")[:-1], False
    for part in target.split("/"):
        if part == "..":
            # What was entered may be a link itself: its parent is another folder than it seems.
            if not parts or has_entered:
                return None
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
            has_entered = True
    return "/".join(parts)


def unpack(file: IO[bytes], folder: Path, tell: Callable[[int], None] = lambda _: None) -> None:
    """Make the tree in a folder that is empty and our own; raises ArchiveError and OSError.

    A folder is only ever made by this, never found: so nothing is written through a link.
    ``tell`` is called with the number of entries before each.
    """
    made = {""}
    for count, entry in enumerate(read(file)):
        tell(count)
        at = os.path.join(folder, entry.path)  # noqa: PTH118  # up to a million times
        parent = entry.path.rpartition("/")[0]
        try:
            _make_folders(folder, parent, made)
            if entry.kind is Kind.FOLDER:
                _make_folders(folder, entry.path, made)
            elif entry.kind is Kind.LINK:
                os.symlink(entry.target, at)  # noqa: PTH211
            else:
                _make_file(at, entry.content)
        except FileExistsError as error:
            raise ArchiveError(f"it has {entry.path!r:.200} twice, or below a file") from error


def _make_folders(folder: Path, path: str, made: set[str]) -> None:
    if path in made:
        return
    _make_folders(folder, path.rpartition("/")[0], made)
    os.mkdir(os.path.join(folder, path), 0o755)  # noqa: PTH102, PTH118
    made.add(path)


def _make_file(at: str, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(at, flags, 0o644)
    try:
        while content:
            content = content[os.write(descriptor, content) :]
    finally:
        os.close(descriptor)
