"""Compare the working tree with an earlier commit, by what a user can see of both.

Runs discover, explain, allocate and validate of both on the same machines and configs, and two
daemons through the same steps of a soak. Prints every difference; exits 1 if there is one.
"""

from __future__ import annotations

import argparse
import difflib
import json
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.compare import soaking
from tools.compare.jobs import PARTS, all_jobs
from tools.compare.sides import BASE, ROOT, CompareError, Result, Side, installed

if TYPE_CHECKING:
    from tools.compare.jobs import Job

_PROGRESS_SECONDS = 10.0
_MAX_SHOWN = 20
_MAX_LINES = 30
_MAX_WIDTH = 200


class Comparison:
    """Runs jobs on both sides, and prints what differs."""

    def __init__(self, base: Side, current: Side) -> None:
        self._sides = (base, current)
        self.commands = 0
        self.differences = 0

    def run(self, job: Job) -> None:
        """Run one job."""
        first = job.first()
        discovered = self._compare(job, first)[1]
        if second := job.second(discovered.out):
            self._compare(job, second)

    def close(self) -> None:
        """End the processes."""
        for side in self._sides:
            side.close()

    def _compare(self, job: Job, batch: list[list[str]]) -> list[Result]:
        """Run commands on both sides; return the results of the base."""
        for side in self._sides:
            side.begin(batch)
        base, current = (side.end(len(batch)) for side in self._sides)
        self.commands += len(batch)
        for arguments, before, now in zip(batch, base, current, strict=True):
            if (before.code, before.err) != (now.code, now.err) or not agree(before.out, now.out):
                self._show(job, arguments, before, now)
        return base

    def _show(self, job: Job, arguments: list[str], before: Result, now: Result) -> None:
        self.differences += 1
        if self.differences > _MAX_SHOWN:
            return
        print(f"\nDIFFERENT: {job.name}: {arguments[0]}")
        for line in _diff(before, now):
            print(f"    {line}")
        for side in self._sides:
            command = f"{shlex.quote(sys.executable)} -P -m genericdp {shlex.join(arguments)}"
            print(f"  {side.name + ':':<9}PYTHONPATH={shlex.quote(str(side.package))} {command}")


def agree(before: Any, now: Any) -> bool:  # noqa: ANN401  # parsed JSON
    """Return whether two documents agree in all fields that both have.

    A base before the schema of output has resources by name, lists shares, and null in place of
    empty texts and lists.
    """
    match before, now:
        case dict(), list():
            return agree(before, {resource["name"]: resource for resource in now})
        case dict(), dict():
            return all(agree(before[key], now[key]) for key in before.keys() & now.keys())
        case list(), list():
            return len(before) == len(now) and all(map(agree, before, now))
        case list(), int():
            return len(before) == now
        case None, "" | []:
            return True
        case _:
            return bool(before == now)


def _diff(before: Result, now: Result) -> list[str]:
    lines = list(
        difflib.unified_diff(_lines(before), _lines(now), "base", "current", lineterm="", n=3)
    )
    shown = [line[:_MAX_WIDTH] for line in lines[2 : _MAX_LINES + 2]]
    more = len(lines) - 2 - len(shown)
    return [*shown, f"… {more} more lines"] if more > 0 else shown


def _lines(result: Result) -> list[str]:
    out = result.out
    text = out if isinstance(out, str) else json.dumps(out, indent=1, sort_keys=True)
    return [f"exit code {result.code}", *text.splitlines(), "stderr:", *result.err.splitlines()]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.compare", description=__doc__)
    parser.add_argument("--base", default=BASE, help=f"the commit (default: {BASE})")
    parts = (*PARTS, "soak")
    parser.add_argument(
        "--only", action="append", choices=parts, help="this part; may be repeated (default: all)"
    )
    parser.add_argument("--pairs", type=int, default=2000, help="generated (default: 2000)")
    parser.add_argument("--seed", type=int, default=1, help="of the generated pairs (default: 1)")
    parser.add_argument("--select", default="", help="only jobs whose name contains this text")
    parser.add_argument("--seeds", type=int, default=20, help="of the soak (default: 20)")
    parser.add_argument("--first-seed", type=int, default=1, help="of the soak (default: 1)")
    parser.add_argument("--steps", type=int, default=20, help="for each seed (default: 20)")
    return parser.parse_args()


def main() -> int:
    """Return 1 if anything differs, 2 if the base cannot be had."""
    arguments = _arguments()
    try:
        package = installed(arguments.base)
    except CompareError as error:
        print(error, file=sys.stderr)
        return 2
    parts = tuple(arguments.only or (*PARTS, "soak"))
    differences = 0
    if set(parts) & set(PARTS):
        differences = _run_commands(arguments, package, parts)
    if "soak" in parts:
        seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
        differences += soaking.compare(package, seeds, arguments.steps)
    print(f"{differences} differences" if differences else "no difference")
    return int(differences > 0)


def _run_commands(arguments: argparse.Namespace, package: Path, parts: tuple[str, ...]) -> int:
    scratch = Path(tempfile.mkdtemp(prefix="compare-"))
    comparison = Comparison(Side("base", package), Side("current", ROOT))
    begun = told = time.monotonic()
    done = 0
    try:
        for job in all_jobs(parts, arguments.pairs, arguments.seed, scratch):
            if arguments.select not in job.name:
                continue
            comparison.run(job)
            done += 1
            if time.monotonic() - told > _PROGRESS_SECONDS:
                told = time.monotonic()
                print(f"{told - begun:5.0f} s  {done} jobs, at {job.name}", flush=True)
    finally:
        comparison.close()
    print(
        f"{done} jobs, {comparison.commands} commands on each side, {comparison.differences}"
        f" different, {time.monotonic() - begun:.0f} s",
        flush=True,
    )
    if comparison.differences:
        print(f"the machines and configs are kept in {scratch}")
    else:
        shutil.rmtree(scratch)
    return comparison.differences


if __name__ == "__main__":
    sys.exit(main())
