"""Two runs of the benchmark agree if their ratios do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from bench.compare import main, report, run_of
from bench.lines import Line

if TYPE_CHECKING:
    from pathlib import Path


def _text(*lines: Line) -> str:
    return json.dumps({"machine": {}, "lines": [line.as_json() for line in lines]})


def _line(daemon: float, floor: float, *, what: str = "start", comparable: bool = True) -> Line:
    return Line(what=what, unit="ms", daemon=(daemon,), baseline=(floor,), comparable=comparable)


@pytest.mark.parametrize(
    ("first", "second", "agree"),
    [
        (_line(20.0, 10.0), _line(40.0, 20.0), True),  # a slower machine
        (_line(20.0, 10.0), _line(22.9, 10.0), True),
        (_line(20.0, 10.0), _line(23.1, 10.0), False),
        (_line(23.1, 10.0), _line(20.0, 10.0), False),
        (_line(1.0, 10.0, comparable=False), _line(9.0, 10.0, comparable=False), True),
        (_line(20.0, 10.0), _line(99.0, 0.0), True),  # no ratio without a floor
        (_line(20.0, 10.0), _line(99.0, 10.0, what="another"), False),
    ],
)
def test_runs_agree_by_the_ratios_of_the_lines_that_both_have(
    first: Line, second: Line, agree: bool
) -> None:
    assert report(run_of(_text(first)), run_of(_text(second)), 0.15)[1] is agree


def test_the_report_has_ratios_and_medians_and_what_only_one_run_has() -> None:
    first = run_of(_text(_line(20.0, 10.0), _line(1.0, 1.0, what="older")))
    second = run_of(_text(_line(30.0, 10.0), _line(1.0, 1.0, what="newer")))
    text, _ = report(first, second, 0.15)
    _, line, *rest = text.splitlines()
    assert line.split() == ["start", "ms", "2.00", "3.00", "50%", "20.0", "30.0", "50%", "APART"]
    assert rest == ["only in A: older", "only in B: newer", "0 of 1 ratios agree within 15%"]


@pytest.mark.parametrize(("arguments", "status"), [([], 1), (["--within", "0.5"], 0)])
def test_the_status_says_whether_they_agree(
    arguments: list[str], status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file, daemon in zip(files, (20.0, 25.0), strict=True):
        file.write_text(_text(_line(daemon, 10.0)))
    assert main([*map(str, files), *arguments]) == status
    assert "start" in capsys.readouterr().out
