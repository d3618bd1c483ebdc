"""What fuzzing once found, and what it begins with, runs in every test run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.driver import begin
from tests.fuzz.targets import NAMES, target
from tests.fuzz.watching import Watched, minimised, watching


@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_was_found_comes_back(name: str) -> None:
    with target(name).opened() as run:
        for data in begin(name):
            run(data)


def _fails(data: bytes) -> None:
    if b"loop" in data:
        while True:
            pass
    assert data.count(b"x") < 2, "two"


def test_a_failure_and_a_hang_are_kept_and_the_run_goes_on(tmp_path: Path) -> None:
    watched = Watched(_fails, tmp_path, seconds=0.05)
    with watching():
        for data in (b"a", b"axbx", b"axbxx", b"loop", b"b"):
            watched(data)
    watched.tell()
    assert watched.inputs == 5
    kept = [(tmp_path / f"found-{i}").read_bytes() for i in (1, 2)]
    assert kept == [b"axbx", b"loop"]
    assert "AssertionError" in (tmp_path / "found-1.txt").read_text()
    assert "took more than" in (tmp_path / "found-2.txt").read_text()


def test_what_was_found_is_made_shorter() -> None:
    assert minimised(b"abcxdefghxij", lambda data: data.count(b"x") > 1) == b"xx"


def test_all_targets_can_be_run_by_hypothesis_as_a_person_would(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--engine", "hypothesis", "--seconds", "0.5"]
    done = subprocess.run(
        [*command, "--seed", "1", "--folder", str(tmp_path), "templates"],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("templates")
