from __future__ import annotations

import hashlib
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from inotify_simple import INotify, flags

from genericdp.health.execution import sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextmanager
def _reads(path: Path) -> Iterator[Callable[[], int]]:
    """Yield what tells how often a file has been read meanwhile."""
    with INotify() as inotify:
        inotify.add_watch(path, flags.ACCESS)
        yield lambda: len(inotify.read(timeout=0))


def _sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def test_a_file_that_changes_gets_another_digest(tmp_path: Path) -> None:
    """Even with the size and the time of modification that it had."""
    path = tmp_path / "x"
    path.write_bytes(b"one")
    times = path.stat()
    assert sha256(str(path)) == _sha256(b"one")
    path.write_bytes(b"two")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert sha256(str(path)) == _sha256(b"two")
    path.unlink()
    path.write_bytes(b"six")
    assert sha256(str(path)) == _sha256(b"six")


def test_a_file_that_stays_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, later = tmp_path / "x", time.time_ns() + 10**10  # noqa: TID251
    monkeypatch.setattr(time, "time_ns", lambda: later)
    path.write_bytes(b"one")
    assert sha256(str(path)) == _sha256(b"one")
    with _reads(path) as reads:
        assert sha256(str(path)) == _sha256(b"one")
        assert reads() == 0


def test_a_file_that_was_just_written_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its times would be the same after another write."""
    for later, again in ((10**8, True), (2 * 10**9, False), (-(10**12), True)):
        path = tmp_path / f"{later}"
        path.write_bytes(b"one")
        now = path.stat().st_ctime_ns + later
        monkeypatch.setattr(time, "time_ns", lambda now=now: now)
        sha256(str(path))
        with _reads(path) as reads:
            sha256(str(path))
            assert (reads() > 0) is again


def test_links_are_followed_and_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"one")
    (tmp_path / "link").symlink_to("x")
    os.mkfifo(tmp_path / "pipe")
    assert sha256(str(tmp_path / "link")) == _sha256(b"one")
    for name in ("pipe", "missing", "."):
        with pytest.raises(OSError, match=r"not a file|No such file"):
            sha256(str(tmp_path / name))
