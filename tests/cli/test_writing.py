from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from genericdp.cli.output import write_new
from genericdp.errors import GenericdpError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_new_file_is_written(tmp_path: Path) -> None:
    write_new(tmp_path / "a", b"1")
    assert (tmp_path / "a").read_bytes() == b"1"
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()


def test_what_is_there_is_refused_even_if_it_came_just_now(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"mine")
    (tmp_path / "b").symlink_to(tmp_path / "c")
    for name in ("a", "b"):
        with pytest.raises(UsageError, match="is not overwritten"):
            write_new(tmp_path / name, b"2")
    assert (tmp_path / "a").read_bytes() == b"mine"
    assert not (tmp_path / "c").exists()


def test_nothing_is_left_where_there_is_no_room(tmp_path: Path) -> None:
    with pytest.raises(GenericdpError, match="cannot be written: no such file or directory"):
        write_new(tmp_path / "none/a", b"1")
    with pytest.raises(GenericdpError, match="cannot be written"):
        write_new(tmp_path / ("x" * 300), b"1")
    assert list(tmp_path.iterdir()) == []
