"""The comments of tests/configs: the problems that ``genericdp validate`` finds in each config.

    python -m tests.config.expectations [KIND/NAME …]    # writes them again, as ``make cases`` does

A comment ``# LINE:COLUMN `WORD`: …`` is a problem or a warning, with the word at that place. They
stand at the end of the file at fault, where they move no line; where a comment there would be a
part of what is wrong, as behind an open quote, at its head: write a line ``# 0:0 `` there at first.
A case is a file, or a directory with several; NAME.policy next to it is the policy that bounds it.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from genericdp.cli import main

CONFIGS = Path(__file__).parent.parent / "configs"
_COMMENT = re.compile(r"^# \d+:\d+ .*\n", re.MULTILINE)
_WORD = re.compile(r".+?(?=:?[\]}]*(?:[\s,]|$))")
"""Without what closes or follows it in YAML."""


class Answer(NamedTuple):
    """The answer of ``validate`` to a case."""

    code: int
    lines: list[str]
    total: str


def all_cases(kind: str = "*") -> list[Path]:
    """Return the files and directories that are a config each."""
    return sorted(path for path in CONFIGS.glob(f"{kind}/*") if path.suffix != ".policy")


def name_of(case: Path) -> str:
    """Return how a case is called."""
    return case.relative_to(CONFIGS).with_suffix("").as_posix()


def answer_to(case: Path) -> Answer:
    """Validate a copy of a case, which no one else can write, anyone who has checked it out."""
    output = io.StringIO()
    with tempfile.TemporaryDirectory() as work, contextlib.chdir(work):
        bounds = []
        for file in _files_of(case):
            copy = Path(file.relative_to(case.parent))
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(file, copy)
            copy.chmod(0o644)
            bounds += ["--policy", copy.name] if copy.suffix == ".policy" else []
        with contextlib.redirect_stdout(output):
            code = main(["validate", *bounds, case.name])
    *lines, total = output.getvalue().splitlines()
    return Answer(code, lines, total)


def _files_of(case: Path) -> list[Path]:
    config = sorted(case.iterdir()) if case.is_dir() else [case]
    return [*config, *(path for path in [case.with_suffix(".policy")] if path.exists())]


def expected(case: Path, answer: Answer) -> dict[Path, str]:
    """Return what each file of a case should be: itself, with what is said of it."""
    return {file: _with_comments(file, answer.lines) for file in _files_of(case)}


def difference(case: Path, answer: Answer) -> str:
    """Return how the files of a case differ from what they should be; empty if they do not."""
    return "".join(
        line
        for file, text in expected(case, answer).items()
        for line in difflib.unified_diff(
            _read(file).splitlines(keepends=True),
            text.splitlines(keepends=True),
            f"tests/configs/{file.relative_to(CONFIGS)}",
            "now",
            n=1,
        )
    )


def _with_comments(file: Path, said: list[str]) -> str:
    text = _read(file)
    lines = text.split("\n")
    comments = ""
    for problem in said:
        name, line, column, message = problem.split(":", 3)
        if file.match(name):
            word = _WORD.match(lines[int(line) - 1][int(column) - 1 :])
            comments += f"# {line}:{column} `{word[0] if word else ''}`:{message}\n"
    rest = _COMMENT.sub("", text)
    return comments + rest if _COMMENT.match(text) else rest + comments


def _read(file: Path) -> str:
    """Return the text of a file, its line ends as they are."""
    return file.read_bytes().decode()


def _write(case: Path) -> bool:
    """Write what is said of a case into its files; return whether that was something else."""
    before = difference(case, answer_to(case))
    # At the head comments move lines, and with these what is said.
    while difference(case, answer := answer_to(case)):
        for file, text in expected(case, answer).items():
            file.write_bytes(text.encode())
    return bool(before)


if __name__ == "__main__":
    cases = [case for case in all_cases() if not sys.argv[1:] or name_of(case) in sys.argv[1:]]
    changed = sum(map(_write, cases))
    if cases:  # else all names are those of tests/cases, which have been looked up
        print(f"{changed} of {len(cases)} configs changed")
