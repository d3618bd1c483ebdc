"""Runs cases: the steps of their transcripts, with what each prints.

    python -m tests.cases.running [TOPIC/NAME …]    # writes transcripts again: ``make cases``

A step is a line ``$ COMMAND``; what it prints follows it. The commands are in ``node.py``.
"""

from __future__ import annotations

import difflib
import re
import sys
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cases.description import CaseError, nearest, shown
from tests.cases.node import COMMANDS, node_of
from tests.config import expectations

if TYPE_CHECKING:
    from collections.abc import Sequence

DIRECTORY = Path(__file__).parent
MOST_LINES = 60
_REASON = re.compile(r"(?<=: )\S+ .*")
"""Several words after the first colon of a line are for humans."""
_STEP = re.compile(rf"[#$]|({'|'.join(COMMANDS)})( |$)")
"""How lines begin that are not output."""


def all_cases(directory: Path = DIRECTORY) -> list[Path]:
    """Return the directories of all cases, also of those that lack a transcript."""
    directories = {path for path in directory.glob("*/*") if path.is_dir()}
    return sorted(directories | {file.parent for file in directory.rglob("expect.txt")})


def run(case: Path) -> str:
    """Run the steps of a case and return its transcript; raise CaseError, which names the place."""
    try:
        return _transcript(case, case / "expect.txt")
    except (OSError, UnicodeDecodeError) as error:
        raise CaseError(f"{shown(case)}: three files of UTF-8 make a case: {error}") from error


def _transcript(case: Path, file: Path) -> str:
    lines = file.read_text().splitlines() if file.exists() else []
    head = list(takewhile(lambda line: line.startswith("# "), lines))
    if not head:
        raise CaseError(f"{shown(file)}:1: begin with '# ' and why the case matters")
    steps = [(at, line) for at, line in enumerate(lines, start=1) if line.startswith("$ ")]
    if not steps:
        raise CaseError(f"{shown(file)}:{len(lines) + 1}: write a step, as '$ genericdp discover'")
    printed = list(head)
    with node_of(case) as node:
        for at, line in steps:
            if not printed[-1].startswith("$ "):
                printed.append("")
            printed.append(line)
            try:
                printed += node.take(line.removeprefix("$ "))
            except (CaseError, OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or error  # without a temporary path
                raise CaseError(f"{shown(file)}:{at}: {line}: {why}") from error
    printed = [line.rstrip() for line in printed]
    for at, line in enumerate(lines, start=1):
        is_early = at < steps[0][0] and line.strip()
        # What is printed may begin with '#', too, but not before a step.
        is_comment = line.startswith("#") and "".join(lines[at : at + 1]).startswith("$ ")
        is_step = _STEP.match(line) and (is_comment or not line.startswith("#"))
        if (is_early or is_step) and line.rstrip() not in printed:
            why = "a step begins with '$ ', and comments stand at the head, each with '# '"
            raise CaseError(f"{shown(file)}:{at}: {line}: {why}")
    return "\n".join(printed) + "\n"


def check_length(case: Path) -> None:
    """Raise CaseError if the files of a case are too long to be read."""
    lines = sum(len(file.read_text().splitlines()) for file in case.iterdir())
    if lines > MOST_LINES:
        last = len((case / "expect.txt").read_text().splitlines())
        why = (
            f"the files have {lines} lines, of {MOST_LINES}: use '| grep REGEX', or make two cases"
        )
        raise CaseError(f"{shown(case / 'expect.txt')}:{last}: {why}")


def difference(case: Path, printed: str) -> str:
    """Return how a transcript differs from what its steps print now; empty if it does not."""
    file = case / "expect.txt"
    before, now = (text.splitlines(keepends=True) for text in (file.read_text(), printed))
    return "".join(difflib.unified_diff(before, now, shown(file), "now"))


def _masked(transcript: str) -> str:
    return _REASON.sub("…", transcript)


def write(names: Sequence[str], directory: Path = DIRECTORY) -> int:
    """Write transcripts again, and say what is wrong with cases; return the exit code."""
    cases = {case.relative_to(directory).as_posix(): case for case in all_cases(directory)}
    known = [*cases, *map(expectations.name_of, expectations.all_cases())]
    mistakes = [
        f"there is no case {name}: {nearest(name, known)}" for name in names if name not in known
    ]
    ran = changed = reworded = 0
    chosen = [case for name, case in cases.items() if not names or name in names]
    for case in () if mistakes else chosen:
        try:
            now = run(case)
            file = case / "expect.txt"
            before = file.read_text()
            ran += 1
            changed += before != now
            reworded += before != now and _masked(before) == _masked(now)
            file.write_text(now)
            check_length(case)
        except CaseError as error:
            mistakes.append(str(error))
    for mistake in mistakes:
        print(mistake, file=sys.stderr)
    if ran:
        more = changed - reworded
        print(f"{changed} of {ran} transcripts changed, {more} in more than wording")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(write(sys.argv[1:]))
