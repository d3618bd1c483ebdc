"""Configs as files: what is said of each stands in it, as comments."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.cli import main

from tests.config.expectations import all_cases, answer_to, difference, name_of

if TYPE_CHECKING:
    from tests.config.expectations import Answer

ROOT = Path(__file__).parent.parent.parent

_answer = cache(answer_to)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _problems(answer: Answer) -> list[str]:
    return [line for line in answer.lines if ": warning: " not in line]


@pytest.mark.parametrize("case", all_cases(), ids=name_of)
def test_of_a_config_is_said_what_stands_in_its_comments(
    case: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """C1: unknown-key-*; C2: unquoted-*; C3: bad-permissions; C4: equal-names*; C5: broken-*."""
    answer = _answer(case)
    if changes := difference(case, answer):
        pytest.fail(f"make cases writes what is said now:\n{changes}", pytrace=False)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("case", all_cases("invalid"), ids=name_of)
def test_a_bad_config_exits_2_with_the_number_of_its_problems(case: Path) -> None:
    answer = _answer(case)
    problems = _problems(answer)
    files = {line.split(":")[0] for line in problems}
    total = f"{_count(len(problems), 'problem')} in {_count(len(files), 'file')}"
    if any(file.endswith(".policy") for file in files):
        total += "; the policy cannot be used, so run would not start"
    assert answer.code == 2
    assert answer.total == total


@pytest.mark.parametrize("case", all_cases("valid"), ids=name_of)
def test_a_good_config_has_resources_and_no_problem(case: Path) -> None:
    answer = _answer(case)
    assert answer.code == 0
    assert _problems(answer) == []
    assert answer.total.endswith(": valid")
    assert " 0 resources" not in answer.total


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples/configs").iterdir()), ids=lambda p: p.name
)
def test_an_example_is_carried_out_as_a_whole_and_without_warning(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "--strict", str(path)]) == 0
    assert capsys.readouterr().out.endswith(": valid\n")
