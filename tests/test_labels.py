"""Every clause and case that is cited is defined in the project's own docs."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DEFINITIONS = ("docs/explanation/kubelet.md", "docs/development/regressions.md")
CLAUSE = re.compile(
    r"\b(?:REG|TRN|KST|LAW|ALL|PRF|PRE|PWR|CKP|PRS|MET|GATE|DRA)-[1-9][0-9]?[a-z]?\b"
)
CASE = re.compile(r"\b[KDC](?:[1-9]|1[0-9])\b")
SUFFIXES = {".py", ".md", ".yaml", ".toml", ".json", ".proto", ""}
WITHOUT_CASES = ("docs/coming-from", "tests/hosts", "tests/fixtures")
"""Devices and their manuals, which have letters and numbers of their own."""


@cache
def texts() -> dict[str, str]:
    directories = ("genericdp", "tests", "docs", "bench", "tools", "examples", "deploy", "schemas")
    files = [*ROOT.glob("*.md"), ROOT / "Makefile"]
    files += [file for directory in directories for file in (ROOT / directory).rglob("*")]
    return {
        str(each_file.relative_to(ROOT)): each_file.read_text(errors="replace")
        for each_file in files
        if each_file.suffix in SUFFIXES and each_file.is_file() and "corpus" not in each_file.parts
    }


@cache
def defined() -> dict[str, str]:
    """Return each label and the page that defines it."""
    found: dict[str, str] = {}
    for page in DEFINITIONS:
        for line in texts()[page].splitlines():
            if match := re.match(
                r"(?:- )?\*\*([A-Z0-9]+-[0-9a-z]+)\.\*\*|\| ([KDC][0-9]+) \|", line
            ):
                label = match[1] or match[2]
                assert label not in found, f"{label} is defined twice"
                found[label] = page
    return found


def test_every_cited_clause_of_the_kubelet_is_defined() -> None:
    cited = {label: file for file, text in texts().items() for label in CLAUSE.findall(text)}
    assert len(cited) > 50
    assert {label: file for label, file in cited.items() if label not in defined()} == {}


def test_every_cited_case_is_defined() -> None:
    """In docstrings and comments of tests and code: elsewhere K80 is a graphics card."""
    cited = {
        label: file
        for file, text in texts().items()
        if file.endswith(".py") and not file.startswith(WITHOUT_CASES)
        for quoted in re.findall(r'"""(.*?)"""|#\s([^\n]*)', text, re.DOTALL)
        for label in CASE.findall(quoted[0] or quoted[1])
    }
    assert {"K3", "D9", "C7"} <= cited.keys()
    assert {label: file for label, file in cited.items() if label not in defined()} == {}


@pytest.mark.parametrize("page", DEFINITIONS)
def test_the_pages_define_what_they_are_for(page: str) -> None:
    assert page in defined().values()
