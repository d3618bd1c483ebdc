from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

from bench import compare
from bench.flags import between, writable_file

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("text", ["0.5", "nan", "-1", "101", "a", ""])
def test_a_number_out_of_bounds_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        between(1, 100)(text)


def test_a_number_within_them_is_taken() -> None:
    assert between(1, 100, int)("7") == 7


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    assert writable_file(str(tmp_path / "a.json")) == tmp_path / "a.json"
    for wrong in (tmp_path, tmp_path / "none" / "a.json"):
        with pytest.raises(argparse.ArgumentTypeError):
            writable_file(str(wrong))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"lines": [1]}', "none"])
def test_a_file_that_is_no_run_is_told(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    assert compare.main([str(file), str(file)]) == 2
    assert str(file) in capsys.readouterr().err


def test_nothing_to_compare_is_no_agreement(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"lines": []}')
    assert compare.main([str(file), str(file)]) == 1
