"""Files that are swapped while they are read: what may not be read is never opened."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.health.kinds.file import FileCheck
from genericdp.host.cache import HostCache
from genericdp.host.pathwalk import NotAFileError, opened, read
from genericdp.host.root import Root

from tests.health.probed_devices import device

if TYPE_CHECKING:
    from collections.abc import Iterator

_EXCHANGE = 2  # of renameat2(2)
_READS = 500
_LIBC = ctypes.CDLL(None, use_errno=True)


def _exchange(first: Path, other: Path) -> None:
    if _LIBC.renameat2(-100, os.fsencode(first), -100, os.fsencode(other), _EXCHANGE):
        raise OSError(ctypes.get_errno(), "renameat2")


@contextmanager
def swapping(first: Path, other: Path) -> Iterator[None]:
    """Exchange two paths over and over meanwhile."""
    ended = threading.Event()

    def swap() -> None:
        while not ended.is_set():
            _exchange(first, other)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def listening(fifo: Path) -> Iterator[list[int]]:
    """Note meanwhile each time that someone else has a FIFO open for reading."""
    held = os.open(fifo, os.O_PATH)
    noticed: list[int] = []
    ended = threading.Event()

    def listen() -> None:
        while not ended.is_set():
            try:
                os.close(os.open(f"/proc/self/fd/{held}", os.O_WRONLY | os.O_NONBLOCK))
            except OSError as error:
                assert error.errno == errno.ENXIO
            else:
                noticed.append(1)

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield noticed
    finally:
        ended.set()
        thread.join()
        os.close(held)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory that anyone can write to, with a good file, next to a secret."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private/file").write_text("secret")
    directory = tmp_path / "home"
    directory.mkdir()
    directory.chmod(0o777)
    (directory / "file").write_text("good")
    return directory


@pytest.mark.parametrize(("kind", "in_copy"), [("link", False), ("directory", True)])
def test_a_file_that_is_swapped_for_a_link_never_gives_what_that_leads_to(
    home: Path, kind: str, in_copy: bool
) -> None:
    top = home.parent if in_copy else Path("/")
    root, given = Root(top), "/home" if in_copy else str(home)
    private = "/private" if in_copy else str(home.parent / "private")
    if kind == "link":
        (home / "evil").symlink_to(f"{private}/file")
        pair, path = (home / "file", home / "evil"), f"{given}/file"
    else:
        (home / "good").mkdir()
        (home / "file").rename(home / "good/file")
        (home / "evil").symlink_to(private)
        pair, path = (home / "good", home / "evil"), f"{given}/good/file"
    check: FileCheck[str, float] = FileCheck(path=path, equals="good")
    probed, read_texts, reasons = device("a"), set(), set()
    with swapping(*pair):
        for _ in range(_READS):
            reasons.add(check.look(probed, root).reason)
            facts = HostCache(root)
            way = facts.target(path)
            if not way.refusal:
                read_texts.add(facts.text(way.target))
    assert "good" in read_texts
    assert read_texts <= {"good", None}
    assert not any("secret" in reason for reason in reasons)
    assert any("lies in a directory that every user can write to" in reason for reason in reasons)


def test_a_file_that_is_swapped_for_a_fifo_never_opens_that(home: Path) -> None:
    """A writer that does not wait can open a FIFO only while someone has it open for reading."""
    os.mkfifo(home / "fifo")
    texts = set()
    with listening(home / "fifo") as noticed, swapping(home / "file", home / "fifo"):
        for _ in range(_READS):
            try:
                with opened(str(home / "file")) as (descriptor, _):
                    texts.add(read(descriptor, 100))
            except NotAFileError:
                texts.add(b"")
    assert texts == {b"good", b""}
    assert not noticed


def test_what_is_swapped_once_it_has_been_looked_up_is_not_read(home: Path) -> None:
    facts = HostCache(Root(Path("/")))
    way = facts.target(str(home / "file"))
    (home / "file").unlink()
    (home / "file").symlink_to(home.parent / "private/file")
    assert facts.text(way.target) is None
    assert facts.why_unreadable(way.target) == f"{home}/file has just become a link"


def test_files_of_procfs_and_of_the_process_are_read() -> None:
    for path, start in (("/proc/self/status", b"Name:"), ("/proc/mounts", b"")):
        with opened(path) as (descriptor, walk):
            assert read(descriptor, 1000).startswith(start)
            assert walk.why_untrusted == ""
    with (
        pytest.raises(OSError, match="a process's own link, no path"),
        opened("/proc/self/root/etc/passwd"),
    ):
        pass
