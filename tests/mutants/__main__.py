"""Brings old mistakes back, each in a copy of the code, and sees the tests that name them fail.

python -m tests.mutants [CASE …]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants import MUTANTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutants.table import Mutant

ROOT = Path(__file__).parents[2]
_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "e2e", "dist", "build")
_LIMIT_SECONDS = 90.0
_FAILED = 1
"""What pytest ends with if tests have failed; anything else than this and 0 is no answer."""


def main() -> int:
    """Run the mutants; gives 1 if one survives or does not apply any more."""
    wanted = _wanted(sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT, copy, ignore=_LEFT_OUT, symlinks=True)
        names = sorted({test for one in wanted for test in one.tests})
        print(f"{len(names)} tests without a mutant: ", end="", flush=True)
        ended, seconds, output = _tested(copy, names)
        if ended == _FAILED:  # a busy machine may have been too slow for one of them
            ended, seconds, output = _tested(copy, names)
        print("pass" if ended == 0 else f"FAIL\n{output}", f"({seconds:.0f} s)", flush=True)
        survived = [one for one in wanted if not _told(copy, one)] if ended == 0 else wanted
    print(f"{len(wanted) - len(survived)} of {len(wanted)} mutants killed")
    return int(bool(survived))


def _wanted(cases: Sequence[str]) -> list[Mutant]:
    """Give the mutants of these cases, all without any; ends with 2 if a case has none."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    known = list(dict.fromkeys(one.case for one in MUTANTS))
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"one of: {', '.join(known)}")
    given = parser.parse_args(cases).cases
    if unknown := [case for case in given if case not in known]:
        parser.error(f"no mutant has the case {', '.join(unknown)} (known: {', '.join(known)})")
    return [one for one in MUTANTS if not given or one.case in given]


def _told(copy: Path, mutant: Mutant) -> bool:
    """Say of each test of a mutant what becomes of it; gives whether all fail."""
    file = copy / "genericdp" / mutant.file
    before = file.read_text()
    if before.count(mutant.old) != 1:
        print(f"{mutant.case:<4} {mutant.file}: {mutant.old!r} is not found once: mend the table")
        return False
    file.write_text(before.replace(mutant.old, mutant.new))
    killed = True
    try:
        for test in mutant.tests:
            ended, seconds, output = _tested(copy, [test])
            verdict = {0: "SURVIVES", _FAILED: "killed"}.get(ended, f"NO ANSWER: {output}")
            killed &= ended == _FAILED
            print(f"{mutant.case:<4} {verdict:<8} {seconds:5.1f} s  {mutant.file}  {test}")
            sys.stdout.flush()
    finally:
        file.write_text(before)
    return killed


def _tested(copy: Path, tests: Sequence[str]) -> tuple[int, float, str]:
    """Run tests of the copy; gives pytest's exit code, the seconds, and its last lines."""
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += [f"tests/{test}" for test in tests]
    # Children of the tests must take the copy as well, wherever they are started.
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=copy,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return _FAILED, _LIMIT_SECONDS, "it hangs"
    last = "\n".join((done.stdout + done.stderr).splitlines()[-8:])
    return done.returncode, time.monotonic() - begun, last


if __name__ == "__main__":
    sys.exit(main())
