"""The site of ``docs/``: what can be told without the program that makes it."""

from __future__ import annotations

import runpy
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FAULTS = runpy.run_path(str(ROOT / "tools/check_site"))["faults"]


def test_the_pages_of_the_examples_are_those_of_the_examples() -> None:
    """``make generate`` makes them so."""
    ended = subprocess.run([sys.executable, ROOT / "tools/generate_hardware", "--check"])
    assert ended.returncode == 0


def test_titles_tell_the_examples_apart() -> None:
    """A reader of the list knows which one is meant: no title is the beginning of another."""
    pages = (ROOT / "docs/hardware").glob("*.md")
    titles = sorted(page.read_text().split("\n", 1)[0].lower() for page in pages)
    assert not [two for two in pairwise(titles) if two[1].startswith(two[0])]


def test_every_page_is_in_the_nav_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    tool = ROOT / "tools/build_site"
    ended = subprocess.run(
        [sys.executable, tool, "--stage", "--into", tmp_path], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "src/index.md").read_text().startswith("# genericdp")


@pytest.mark.parametrize(
    ("html", "wrong"),
    [
        ('<a href="b.html#there">', []),
        ('<a href="https://elsewhere.example/">', []),
        ('<link rel="canonical" href="https://elsewhere.example/">', []),
        ('<img src="data:image/png;base64,AA==">', []),
        ('<a href="c.html">', ["a.html leads to c.html: no such file"]),
        ('<a href="b.html#gone">', ["a.html leads to b.html#gone: no such place"]),
        ('<a href="#gone">', ["a.html leads to #gone: no such place"]),
        ('<script src="//cdn.example/x.js">', ["a.html loads //cdn.example/x.js"]),
        (
            '<link rel="stylesheet" href="https://fonts.example/">',
            ["a.html loads https://fonts.example/"],
        ),
    ],
)
def test_what_is_wrong_with_a_built_page_is_found(
    tmp_path: Path, html: str, wrong: list[str]
) -> None:
    (tmp_path / "a.html").write_text(html)
    (tmp_path / "b.html").write_text('<h2 id="there">')
    assert FAULTS(tmp_path) == wrong


def test_a_style_sheet_that_loads_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("@import 'https://fonts.example/x.css';")
    assert FAULTS(tmp_path) == ["a.css loads https:"]
