"""Pages for operators quote what the program says."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / f"docs/how-to/{name}.md"
    for name in ("troubleshooting", "monitor", "held-devices", "dra")
]
QUOTED = sorted({hit for page in PAGES for hit in re.findall("“`([^`]+)`”", page.read_text())})


@cache
def said() -> str:
    """Give every text of the program, a line each; ``…`` stands for what differs."""
    texts = []
    for path in ROOT.glob("genericdp/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [
                    value.value if isinstance(value, ast.Constant) else "…" for value in node.values
                ]
                texts.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(re.sub(r"%(\.\d)?[sdfg]", "…", node.value))
    return "\n".join(texts)


@pytest.mark.parametrize("quoted", QUOTED)
def test_what_is_quoted_in_curly_marks_is_said_by_the_program(quoted: str) -> None:
    """The words between the … of a quotation are exact; a string may be joined at a colon."""
    parts = [part.strip(" '") for part in re.split("…|: ", quoted)]
    missing = [part for part in parts if re.search("[a-z]{3}", part) and part not in said()]
    assert missing == []


def test_there_are_quotations() -> None:
    """Else the marks are others now, and nothing is held against anything."""
    assert len(QUOTED) > 30
