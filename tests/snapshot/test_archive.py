from __future__ import annotations

import gzip
import io
import os
import re
import tarfile
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from genericdp.snapshot.archive import (
    MANIFEST,
    ArchiveEntry,
    ArchiveError,
    Kind,
    led_to,
    read,
    unpack,
    write,
)
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

LONG = "sys/devices/" + "/".join(["0000:00:14.0"] * 30)


def packed(*entries: ArchiveEntry) -> bytes:
    out = io.BytesIO()
    write(out, {}, entries)
    return out.getvalue()


START = gzip.decompress(packed())[:1024]
"""The manifest of a snapshot, as tar has it."""


def info(
    name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0
) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size, made.mtime = kind, target, size, 1.25
    return made


def repacked(
    *infos: tarfile.TarInfo,
    content: bytes = b"",
    format_: int = tarfile.GNU_FORMAT,
    headers: dict[str, str] | None = None,
) -> bytes:
    """Return an archive as anyone may write it, after a manifest as it should be."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=format_, pax_headers=headers or {}) as tar:
        tar.addfile(info(MANIFEST, size=13), io.BytesIO(b'{"format": 1}'))
        for each_info in infos:
            tar.addfile(each_info, io.BytesIO(content) if each_info.size else None)
    return out.getvalue()


def with_header(records: bytes, kind: bytes = tarfile.XHDTYPE, count: int = 1) -> bytes:
    """Return an archive with such headers before a directory."""
    header = info("PaxHeaders/dev", kind, size=len(records)).tobuf(tarfile.USTAR_FORMAT)
    directory = info("dev", tarfile.DIRTYPE).tobuf(tarfile.USTAR_FORMAT)
    padded = records + bytes(-len(records) % 512)
    return gzip.compress(START + (header + padded) * count + directory + bytes(1024))


@pytest.mark.parametrize("format_", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_one_that_was_packed_again_is_the_same(format_: int) -> None:
    again = repacked(
        info("./", tarfile.DIRTYPE),
        info("./dev/odd \udcff\n"),
        info(LONG, tarfile.DIRTYPE),
        info("sys/class/tty/a", tarfile.SYMTYPE, "../../../" + LONG),
        format_=format_,
        headers={"comment": "by hand"},
    )
    assert list(read(io.BytesIO(again))) == [
        ArchiveEntry("dev/odd \udcff\n", Kind.FILE),
        ArchiveEntry(LONG, Kind.DIRECTORY),
        ArchiveEntry("sys/class/tty/a", Kind.LINK, target="../../../" + LONG),
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is not a snapshot, or damaged"),
        (b"apiVersion: v1", "it is not a snapshot: it is not a gzip file"),
        (gzip.compress(bytes(1024), mtime=0), "does not begin with"),
        (packed(ArchiveEntry("sys", Kind.DIRECTORY))[:-20], "damaged or cut off"),
        (gzip.compress(START + b"x" * 512 + bytes(1024)), "has no end"),
        (repacked(info("/etc/passwd")), "path '/etc/passwd'"),
        (repacked(info("dev/../../x")), "path 'dev/../../x'"),
        (repacked(info("/".join("a" * 65))), "path 'a/a"),
        (repacked(info("a", tarfile.SYMTYPE, "/etc")), "link out of the tree, to '/etc'"),
        # Where d/b is a link to ../e, that is the parent of the tree.
        (repacked(info("d/a", tarfile.SYMTYPE, "b/../..")), "link out of the tree"),
        (repacked(info("a", tarfile.LNKTYPE, MANIFEST)), "neither a file nor a directory"),
        (repacked(info("a", tarfile.CHRTYPE)), "neither a file nor a directory"),
        (repacked(info("a", size=65_537), content=bytes(65_537)), "65536 are the most"),
        (repacked(info("a"), info("a/b")), "twice, or below a file"),
        (repacked(info("b", tarfile.SYMTYPE, "c"), info("b/x")), "below a file"),
        (with_header(b"11 size=42\n"), "'dev' is not a file, but has content"),
        (with_header(b"12 path=a\0b\n"), r"path 'a\x00b'"),
        (with_header(b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"), "damaged"),
        (repacked(info("a", tarfile.GNUTYPE_SPARSE)), "is sparse"),
        (with_header(bytes(1 << 20)), "an entry of more than 65536 bytes"),
        (with_header(b"dev\0", tarfile.GNUTYPE_LONGNAME, 300), "an entry of more than 65536"),
        (with_header(b"19 path=/etc/abcd\n\n", tarfile.XGLTYPE), "path '/etc/abcd"),
    ],
)
def test_what_is_no_snapshot_is_refused_with_a_reason(
    content: bytes, said: str, tmp_path: Path
) -> None:
    directory = tmp_path / "tree"
    directory.mkdir()
    with pytest.raises(ArchiveError, match=re.escape(said)):
        unpack(io.BytesIO(content), directory)
    assert {file.name for file in tmp_path.iterdir()} == {"tree"}


def test_what_never_ends_is_not_read_to_its_end() -> None:
    """Long names count as well as contents."""
    names = [
        info("././@LongLink", kind, size=4096).tobuf(tarfile.GNU_FORMAT) + b"dev".ljust(4096, b"\0")
        for kind in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
    ]
    directory = info("dev", tarfile.DIRTYPE).tobuf(tarfile.GNU_FORMAT)
    content = gzip.compress(START + b"".join([*names, directory]) * 200 + bytes(1024))
    with pytest.raises(ArchiveError, match="larger than 1 MiB when inflated"):
        list(read(io.BytesIO(content), max_bytes=1 << 20))


def test_what_is_written_can_be_read_to_the_byte() -> None:
    entry = ArchiveEntry(LONG, Kind.DIRECTORY)
    size = len(gzip.decompress(packed(entry)))
    out = io.BytesIO()
    write(out, {}, [entry], max_bytes=size)
    assert list(read(io.BytesIO(out.getvalue()), max_bytes=size)) == [entry]
    with pytest.raises(ArchiveError, match="when inflated"):
        write(io.BytesIO(), {}, [entry], max_bytes=size - 1)


PARTS = st.sampled_from(["a", "b", "..", ".", "", "dev", "x" * 300, "\0", "é"])
PATHS = st.lists(PARTS, max_size=5).map("/".join)
KINDS = st.sampled_from([bytes([kind]) for kind in b"01235xS"])
"""Files, links, device nodes, directories, headers and sparse files."""
INFOS = st.lists(st.builds(info, PATHS, KINDS, PATHS), max_size=8)


def tree_below(directory: Path) -> list[str]:
    return sorted(f"{at}/{name}" for at, node, files in os.walk(directory) for name in node + files)


@given(infos=INFOS, cut=st.integers(0, 400), noise=st.binary(max_size=20))
def test_nothing_is_written_outside_the_directory(
    infos: list[tarfile.TarInfo], cut: int, noise: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    around = tmp_path_factory.mktemp("around")
    directory = around / "tree"
    directory.mkdir()
    whole = START + b"".join(info.tobuf(tarfile.GNU_FORMAT) for info in infos)
    content = gzip.compress(whole[: len(whole) - cut % 512] + noise + bytes(1024))
    try:
        unpack(io.BytesIO(content), directory)
    except ArchiveError:
        pass
    else:
        assert all(is_within(directory, directory / entry) for entry in tree_below(directory))
    assert list(around.iterdir()) == [directory]


def is_within(directory: Path, path: Path) -> bool:
    """Return whether a path is a file or directory, or a link to a place within."""
    if path.is_symlink():
        return led_to(str(path.relative_to(directory)), os.readlink(path)) is not None
    return path.is_file() or path.is_dir()


RECORDS = st.binary(max_size=80) | st.from_regex(
    rb"([1-9][0-9]? (path|size|linkpath|GNU\.sparse\.(map|size|offset))=.*\n)*", fullmatch=True
)


@given(content=st.binary(max_size=600), records=RECORDS)
def test_any_bytes_are_refused_and_no_worse(content: bytes, records: bytes) -> None:
    for entry in (content, gzip.compress(content), gzip.compress(packed()[:512] + content)):
        with pytest.raises(ArchiveError):
            list(read(io.BytesIO(entry)))
    with suppress(ArchiveError):
        list(read(io.BytesIO(with_header(records))))
