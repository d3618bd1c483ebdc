from __future__ import annotations

import gzip
import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.snapshot import pax
from genericdp.snapshot.archive import MANIFEST, ArchiveError, Entry, Kind, read

LONG = "sys/devices/" + "/".join(["0000:00:14.0"] * 30)
MANY = b"".join(b"11 k%02d=abc\n" % i for i in range(33))


def of(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mtime = kind, target, 1.25
    return made


def repacked(*infos: tarfile.TarInfo, about: dict[str, str] | None = None) -> bytes:
    """Give an archive as ``tar --format=posix`` makes it: a pax header before each entry."""
    out = io.BytesIO()
    with tarfile.open(
        fileobj=out, mode="w:gz", format=tarfile.PAX_FORMAT, pax_headers=about or {}
    ) as tar:
        first = of(MANIFEST)
        first.size = 13
        tar.addfile(first, io.BytesIO(b'{"format": 1}'))
        for one in infos:
            tar.addfile(one)
    return out.getvalue()


def with_header(records: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    """Give an archive with such a header before a folder."""
    header = tarfile.TarInfo("PaxHeaders/dev")
    header.type, header.size = kind, len(records)
    whole = gzip.decompress(repacked())
    start = whole[: whole.index(b'{"format": 1}') + 512]
    pieces = [
        *(start, header.tobuf(tarfile.USTAR_FORMAT), records, bytes(-len(records) % 512)),
        *(of("dev", tarfile.DIRTYPE).tobuf(tarfile.USTAR_FORMAT), bytes(1024)),
    ]
    return gzip.compress(b"".join(pieces))


def test_a_snapshot_that_was_packed_again_as_pax_is_the_same() -> None:
    infos = [
        of("dev/odd \udcff\n"),
        of(LONG, tarfile.DIRTYPE),
        of("sys/class/tty/a", tarfile.SYMTYPE, "../../../" + LONG),
    ]
    assert list(read(io.BytesIO(repacked(*infos, about={"comment": "by hand"})))) == [
        Entry("dev/odd \udcff\n", Kind.FILE),
        Entry(LONG, Kind.FOLDER),
        Entry("sys/class/tty/a", Kind.LINK, target="../../../" + LONG),
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (with_header(b"9 path=ab"), "one is damaged"),
        (with_header(b"99 path=a\n"), "one is damaged"),
        (with_header(b"9 path=abc\n"), "one is damaged"),
        (with_header(b"10 pathab\n"), "one is damaged"),
        (with_header(b"9 size=x\n"), "the size 'x' is no number"),
        (with_header(b"11 size=-1\n"), "the size '-1' is no number"),
        (with_header(b"11 size=42\n"), "'dev' is no file, but has content"),
        (with_header(b"12 path=a\0b\n"), "a path holds a zero byte"),
        (with_header(b"22 GNU.sparse.major=1\n"), "is sparse"),
        (with_header(MANY), "more than 32 records"),
        (with_header(bytes(16_385)), "16384 are the most"),
        (with_header(b"12 path=dev\n", tarfile.XGLTYPE), "for all entries"),
        (with_header(b"15 path=/etc/x\n"), "path '/etc/x'"),
    ],
)
def test_a_pax_header_is_bounded_and_checked_as_any_other(content: bytes, said: str) -> None:
    with pytest.raises(ArchiveError, match=said):
        list(read(io.BytesIO(content)))


@given(content=st.binary(max_size=80) | st.from_regex(rb"([1-9][0-9]? [a-z]*=.*\n)*"))
def test_any_bytes_are_records_or_a_value_error(content: bytes) -> None:
    try:
        found = pax.records(content)
    except ValueError:
        return
    assert found.keys() <= {"path", "linkpath", "size"}
