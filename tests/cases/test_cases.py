"""Each case prints what its transcript says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cases.running import DIRECTORY, CaseError, all_cases, difference, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

MOST_LINES = 60
CASES = all_cases()
each_case = pytest.mark.parametrize(
    "case", CASES, ids=[str(case.relative_to(DIRECTORY)) for case in CASES]
)


@each_case
def test_a_case_prints_what_its_transcript_says(case: Path) -> None:
    difference_now = difference(case, run(case))
    assert not difference_now, f"\n{difference_now}\nif this is right: make cases"


@each_case
def test_a_case_fits_on_a_screen_or_two(case: Path) -> None:
    assert sum(len(file.read_text().splitlines()) for file in case.iterdir()) <= MOST_LINES


MACHINE = "nodes: {fuse: 10:229}\n"


@pytest.mark.parametrize(
    ("machine", "transcript", "error"),
    [
        (None, "# Why.\n$ reconcile\n", "has no machine.yaml"),
        ("mice: 3\n", "# Why.\n$ reconcile\n", "machine.yaml: ['mice']; the keys are "),
        (MACHINE, "$ reconcile\n", "expect.txt:1: begin with '# ' and why the case matters"),
        (MACHINE, "# Why.\n", "expect.txt: there is no step"),
        (MACHINE, "# Why.\n$ dance\n", "expect.txt:2: $ dance: there is no command dance: config"),
        (MACHINE, "# Why.\n$ plug\n", "expect.txt:2: $ plug: "),
        (MACHINE, "# Why.\n$ plug nothing\n", "expect.txt:2: $ plug nothing: 0 devices are named"),
        (MACHINE, "# Why.\n\n$ remove /x\n", "expect.txt:3: $ remove /x: "),
        (MACHINE, "# Why.\n$ unplug fuse\n$ unplug fuse\n", "expect.txt:3: $ unplug fuse: "),
        (MACHINE, "# Why.\n$ reconcile\n", "expect.txt:2: $ reconcile: config.yaml"),
    ],
)
def test_a_case_with_a_mistake_names_its_place(
    machine: str | None, transcript: str, error: str, tmp_path: Path
) -> None:
    (tmp_path / "expect.txt").write_text(transcript)
    if machine is not None:
        (tmp_path / "machine.yaml").write_text(machine)
    with pytest.raises(CaseError) as raised:
        run(tmp_path)
    assert error in str(raised.value)
