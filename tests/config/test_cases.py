"""Configs as files: each bad one has its exact output and the tokens at fault beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from genericdp.config.load import load

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent.parent
INVALID = ROOT / "tests/configs/invalid"
VALID = ROOT / "tests/configs/valid"
CASES = sorted(path.stem for path in INVALID.glob("*.expected"))


def _target(name: str) -> str:
    return name if (INVALID / name).is_dir() else f"{name}.yaml"


@pytest.mark.parametrize("name", CASES)
def test_a_bad_config_gives_exactly_this_output(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """C1: unknown-key-*; C2: unquoted-*; C3: bad-permissions; C4: equal-names*; C5: broken-*."""
    monkeypatch.chdir(INVALID)
    assert main(["validate", _target(name)]) == 2
    assert capsys.readouterr().out == (INVALID / f"{name}.expected").read_text()


@pytest.mark.parametrize("name", CASES)
def test_each_problem_points_at_the_token_at_fault(name: str) -> None:
    tokens = (INVALID / f"{name}.token").read_text().splitlines()
    places = list(_places((INVALID / f"{name}.expected").read_text()))
    assert len(places) == len(tokens)
    for (file, line, column), token in zip(places, tokens, strict=True):
        # An empty file has no token to point at.
        text = ((INVALID / file).read_text().split("\n"))[line - 1]
        assert text[column - 1 :].startswith(token), f"{token!r} is not at {line}:{column}"
        assert token or not (INVALID / file).read_bytes()


def _places(expected: str) -> Iterator[tuple[str, int, int]]:
    for line in expected.splitlines()[:-1]:
        file, row, column, said = line.split(":", 3)
        if not said.startswith(" warning: "):
            yield file, int(row), int(column)


def test_every_bad_config_has_its_output_and_its_tokens() -> None:
    configs = {path.stem for path in INVALID.glob("*.yaml")}
    configs |= {path.name for path in INVALID.iterdir() if path.is_dir()}
    assert configs == set(CASES) == {path.stem for path in INVALID.glob("*.token")}
    assert len(configs) >= 60


def test_all_bad_configs_at_once_name_every_problem() -> None:
    """Each path is a config of its own: names that are equal in two of them are no problem."""
    files = sorted(path.name for path in INVALID.glob("*.yaml"))
    done = subprocess.run(
        [sys.executable, "-m", "genericdp", "validate", *files],
        cwd=INVALID,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    each = [
        line
        for name in CASES
        if not (INVALID / name).is_dir()
        for line in (INVALID / f"{name}.expected").read_text().splitlines()[:-1]
    ]
    assert sorted(lines[:-1]) == sorted(each)
    problems = sum(": warning: " not in line for line in each)
    assert lines[-1] == f"{problems} problems in {len(files)} files"


@pytest.mark.parametrize("path", sorted(VALID.iterdir()), ids=lambda path: path.name)
def test_a_good_config_has_no_problem(path: Path) -> None:
    loaded = load([path])
    assert loaded.problems == ()
    assert loaded.resources


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples/configs").iterdir()), ids=lambda p: p.name
)
def test_an_example_is_carried_out_as_a_whole_and_without_warning(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "--strict", str(path)]) == 0
    assert capsys.readouterr().out.endswith(": valid\n")
