from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.mutants import MUTANTS

if TYPE_CHECKING:
    from tests.mutants.table import Mutant

TESTS = Path(__file__).parents[1]
CASES = [f"K{i}" for i in range(1, 13)] + [f"C{i}" for i in range(1, 11)]


@cache
def _docstrings(file: str) -> dict[str, str]:
    tree = ast.parse((TESTS / file).read_text())
    return {
        one.name: ast.get_docstring(one) or ""
        for one in ast.walk(tree)
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


@pytest.mark.parametrize("case", CASES)
def test_every_case_has_a_mutant_and_a_test_whose_docstring_begins_with_it(case: str) -> None:
    mutants = [one for one in MUTANTS if one.case == case]
    named = [
        _docstrings(file)[name]
        for one in mutants
        for file, _, name in (test.partition("::") for test in one.tests)
    ]
    assert any(text.startswith(f"{case}:") for text in named), named


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: f"{one.case}-{one.file}")
def test_a_mutant_still_applies_and_its_tests_name_the_case(mutant: Mutant) -> None:
    """Run ``make mutants`` after mending the table."""
    content = (TESTS.parent / "genericdp" / mutant.file).read_text()
    assert content.count(mutant.old) == 1
    assert mutant.old != mutant.new
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert re.search(rf"\b{mutant.case}\b", _docstrings(file)[name]) or (
            mutant.case in {f"C{i}" for i in range(1, 6)} and "C1 to C5" in _docstrings(file)[name]
        )


def test_an_unknown_case_is_named_at_once() -> None:
    command = [sys.executable, "-m", "tests.mutants", "K3", "K999"]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no mutant has the case K999 (known: " in done.stderr
