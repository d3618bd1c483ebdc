"""The files, commands and outputs that docs/tutorial/getting-started.md shows, or another page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs/tutorial/getting-started.md"
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"# not run by our tests: needs (\w+)\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Commands, and what the page shows as their output."""

    commands: str
    needs: str = ""
    """The program for lack of which they are not run."""
    output: str = ""


def files(page: Path = PAGE) -> dict[str, str]:
    """Return the files that readers write, by name."""
    return {title: text for _, title, text in _BLOCK.findall(page.read_text()) if title}


def blocks(page: Path = PAGE) -> list[Block]:
    """Return all commands in order."""
    found: list[Block] = []
    for language, _, text in _BLOCK.findall(page.read_text()):
        if language == "sh":
            mark = _NOT_RUN.match(text)
            found.append(Block(commands=text, needs=mark[1] if mark else ""))
        elif language in {"text", "json"}:
            assert found[-1].output == "", f"two outputs of {found[-1].commands}"
            found[-1] = replace(found[-1], output=text)
    return found


def block_of(command: str, page: Path = PAGE) -> Block:
    """Return the block that has a command."""
    (found,) = (block for block in blocks(page) if command in block.commands.splitlines())
    return found


def missing_lines(shown: str, printed: str, differs: Mapping[str, str] | None = None) -> list[str]:
    """Return the lines that a page shows and a program did not print, in that order.

    Spaces may differ, and ``…`` stands for any text. ``differs`` has regular expressions for what
    is different on the machine of the test.
    """
    missing = []
    lines = iter(_words(printed))
    for line in _words(shown):
        pattern = re.escape(line).replace("…", ".*")
        for text, expression in (differs or {}).items():
            pattern = pattern.replace(re.escape(text), expression)
        if not any(re.fullmatch(pattern, printed_line) for printed_line in lines):
            missing.append(line)
            lines = iter(_words(printed))
    return missing


def _words(text: str) -> Iterable[str]:
    return (" ".join(line.split()) for line in text.splitlines() if line.strip())
