"""The clauses of the kubelet's contract that the simulator reproduces, each with a test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

REPRODUCED = (
    *("REG-1", "REG-2", "REG-3", "REG-4", "REG-5", "REG-6", "REG-7", "REG-8"),
    *("REG-9a", "REG-9b", "REG-9c", "REG-9d", "REG-10", "REG-11", "REG-12", "REG-13"),
    *("KST-1", "KST-2", "KST-3", "KST-4", "KST-6", "KST-7", "KST-8", "KST-9", "KST-10"),
    *("LAW-1", "LAW-2", "LAW-3", "LAW-4", "LAW-5", "LAW-6", "LAW-9", "LAW-10"),
    *("ALL-1", "ALL-2", "ALL-3", "ALL-5", "ALL-6", "ALL-7", "ALL-9"),
    *("PRF-1", "PRF-2", "PRF-3", "PRF-4", "PRE-1", "PRE-2", "CKP-1", "MET-1", "TRN-1"),
    "PRS-1",
)


@pytest.mark.parametrize("clause", REPRODUCED)
def test_each_clause_is_named_by_a_test(clause: str) -> None:
    assert clause in _cited(), f"no test's docstring begins with {clause}"


def _cited() -> set[str]:
    """Give the clauses before the colon of each test's docstring."""
    cited: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef):
                clauses, _, _ = (ast.get_docstring(node) or "").partition(":")
                cited.update(re.findall(r"[A-Z]{3}-\d+[a-d]?", clauses))
    return cited
