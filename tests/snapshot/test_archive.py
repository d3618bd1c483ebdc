from __future__ import annotations

import gzip
import io
import os
import re
import tarfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.snapshot import archive
from genericdp.snapshot.archive import (
    MANIFEST,
    ArchiveError,
    Entry,
    Kind,
    led_to,
    read,
    unpack,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

ABOUT = tarfile.TarInfo(MANIFEST)
ABOUT.size = len(b'{"format": 1}')
LONG = "sys/devices/" + "/".join(["0000:00:14.0"] * 30)


def packed(*entries: Entry) -> bytes:
    out = io.BytesIO()
    write(out, {}, entries)
    return out.getvalue()


def hostile(*infos: tarfile.TarInfo, content: bytes = b"") -> bytes:
    """Give an archive as anybody may write it, behind a manifest as it should be."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(ABOUT, io.BytesIO(b'{"format": 1}'))
        for info in infos:
            tar.addfile(info, io.BytesIO(content) if info.size else None)
    return out.getvalue()


def info(
    name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0
) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, target, size
    return made


def test_what_was_written_is_read() -> None:
    entries = [
        Entry("dev", Kind.FOLDER),
        Entry("dev/odd \udcff\n", Kind.FILE),
        Entry(LONG, Kind.FILE, b"x" * 700),
        Entry("sys/class/tty/a", Kind.LINK, target="../../../" + LONG),
    ]
    assert list(read(io.BytesIO(packed(*entries)))) == entries


def test_the_same_entries_give_the_same_bytes_and_tar_can_read_them() -> None:
    one = packed(Entry("sys", Kind.FOLDER), Entry(LONG, Kind.FILE, b"1\n"))
    assert one == packed(Entry("sys", Kind.FOLDER), Entry(LONG, Kind.FILE, b"1\n"))
    with tarfile.open(fileobj=io.BytesIO(one)) as tar:
        assert tar.getnames() == [MANIFEST, "sys", LONG]
        assert {one.mtime for one in tar} == {0}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "damaged or cut off"),
        (b"apiVersion: v1", "not a gzipped file"),
        (gzip.compress(b"hello", mtime=0), "no snapshot, or damaged"),
        (gzip.compress(bytes(1024), mtime=0), "does not begin with"),
        (packed(Entry("sys", Kind.FOLDER))[:-20], "damaged or cut off"),
        (gzip.compress(gzip.decompress(packed())[:1024]), "has no end"),
        (hostile(info("/etc/passwd")), "path '/etc/passwd'"),
        (hostile(info("dev/../../x")), "path 'dev/../../x'"),
        (hostile(info("a//b")), "path 'a//b'"),
        (hostile(info("/".join("a" * 65))), "path 'a/a"),
        (hostile(info("a", tarfile.SYMTYPE, "/etc")), "link out of the tree, to '/etc'"),
        (hostile(info("a/b", tarfile.SYMTYPE, "../../etc")), "link out of the tree"),
        # Where d/b is a link to ../e, that is the parent of the tree.
        (hostile(info("d/a", tarfile.SYMTYPE, "b/../..")), "link out of the tree"),
        (hostile(info("a", tarfile.LNKTYPE, MANIFEST)), "neither a file nor a folder"),
        (hostile(info("a", tarfile.CHRTYPE)), "neither a file nor a folder"),
        (hostile(info("a", tarfile.FIFOTYPE)), "neither a file nor a folder"),
        (hostile(info("a", size=65_537), content=bytes(65_537)), "65536 are the most"),
        (hostile(info("a"), info("a")), "twice"),
        (hostile(info("a"), info("a/b")), "twice, or below a file"),
        (hostile(info("b", tarfile.SYMTYPE, "c"), info("b/x")), "below a file"),
    ],
)
def test_what_is_no_snapshot_is_refused_with_a_reason(
    content: bytes, said: str, tmp_path: Path
) -> None:
    folder = tmp_path / "tree"
    folder.mkdir()
    with pytest.raises(ArchiveError, match=re.escape(said)):
        unpack(io.BytesIO(content), folder)
    assert {one.name for one in tmp_path.iterdir()} == {"tree"}


def test_a_header_cannot_make_us_read_a_long_name() -> None:
    name = info("././@LongLink", tarfile.GNUTYPE_LONGNAME, size=1 << 33).tobuf(tarfile.GNU_FORMAT)
    start = gzip.decompress(packed())[:1024]
    with pytest.raises(ArchiveError, match="4096 are the most"):
        list(read(io.BytesIO(gzip.compress(start + name + bytes(4096)))))


def test_too_much_is_neither_read_nor_written(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [Entry(f"dev/{i}", Kind.FILE, b"12345678") for i in range(4)]
    small = packed(*entries)
    for limit, most, said in (("MOST_ENTRIES", 3, "3 entries"), ("MOST_BYTES", 10, "0 MiB")):
        with monkeypatch.context() as patched:
            patched.setattr(archive, limit, most)
            with pytest.raises(ArchiveError, match=said):
                list(read(io.BytesIO(small)))
            with pytest.raises(ArchiveError, match=said):
                packed(*entries)


def test_long_names_are_inflated_within_the_same_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"dev".ljust(4096, b"\0")
    names = [
        info("././@LongLink", kind, size=4096).tobuf(tarfile.GNU_FORMAT) + text
        for kind in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
    ]
    folder = info("dev", tarfile.DIRTYPE).tobuf(tarfile.GNU_FORMAT)
    start = gzip.decompress(packed())[:1024]
    monkeypatch.setattr(archive, "MOST_INFLATED_BYTES", 1 << 20)
    content = io.BytesIO(gzip.compress(start + b"".join([*names, folder]) * 200 + bytes(1024)))
    with pytest.raises(ArchiveError, match="longer than 1 MiB when inflated"):
        list(read(content))


def test_what_is_inflated_to_too_much_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the byte: what is written can be read."""
    entry = Entry(LONG, Kind.FOLDER)
    size = len(gzip.decompress(packed(entry)))
    monkeypatch.setattr(archive, "MOST_INFLATED_BYTES", size)
    assert list(read(io.BytesIO(packed(entry)))) == [entry]
    monkeypatch.setattr(archive, "MOST_INFLATED_BYTES", size - 1)
    with pytest.raises(ArchiveError, match="when inflated"):
        packed(entry)


def test_an_archive_that_was_unpacked_changed_and_packed_again_is_read() -> None:
    """As ``tar czf x.tar.gz -C folder ./genericdp-snapshot.json ./dev`` writes it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(info("./", tarfile.DIRTYPE))
        about = info(f"./{MANIFEST}", size=13)
        tar.addfile(about, io.BytesIO(b'{"format": 1}'))
        tar.addfile(info("./dev/", tarfile.DIRTYPE))
    assert [one.path for one in read(io.BytesIO(out.getvalue()))] == ["dev"]


PARTS = st.sampled_from(["a", "b", "..", ".", "", "dev", "x" * 300, "\0", "é"])
PATHS = st.lists(PARTS, max_size=5).map("/".join)
KINDS = st.sampled_from(
    [
        tarfile.REGTYPE,
        tarfile.DIRTYPE,
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.CHRTYPE,
        b"x",
        b"S",
    ]
)
INFOS = st.lists(st.builds(info, PATHS, KINDS, PATHS), max_size=8)


def tree_below(folder: Path) -> list[str]:
    return sorted(f"{at}/{name}" for at, ones, files in os.walk(folder) for name in ones + files)


@given(infos=INFOS, cut=st.integers(0, 400), noise=st.binary(max_size=20))
def test_nothing_is_written_outside_the_folder(
    infos: list[tarfile.TarInfo], cut: int, noise: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    around = tmp_path_factory.mktemp("around")
    folder = around / "tree"
    folder.mkdir()
    tar = b"".join(one.tobuf(tarfile.GNU_FORMAT) for one in infos)
    whole = gzip.decompress(packed())[:1024] + tar
    content = gzip.compress(whole[: len(whole) - cut % 512] + noise + bytes(1024))
    try:
        unpack(io.BytesIO(content), folder)
    except ArchiveError:
        pass
    else:
        assert all(is_within(folder, folder / one) for one in tree_below(folder))
    assert list(around.iterdir()) == [folder]


def is_within(folder: Path, path: Path) -> bool:
    """Say whether what is at a path is a file or folder, or a link that names a place within."""
    if path.is_symlink():
        return led_to(str(path.relative_to(folder)), os.readlink(path)) is not None
    return path.is_file() or path.is_dir()


@given(content=st.binary(max_size=600))
def test_any_bytes_are_refused_and_no_worse(content: bytes) -> None:
    for one in (content, gzip.compress(content), gzip.compress(packed()[:512] + content)):
        with pytest.raises(ArchiveError):
            list(read(io.BytesIO(one)))
