"""Fuzzes one target after another, each in a process of its own, and tells what came of it.

    python -m tests.fuzz [--seconds 60] [--seed N] [--engine atheris] [TARGET …]

What is found is kept in ``--folder``; its shortest form belongs into ``tests/fuzz/corpus/TARGET``,
where ``make test`` runs it each time.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.driver import ENGINES
from tests.fuzz.targets import NAMES

_PATIENCE_SECONDS = 120


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What came of one target."""

    target: str
    inputs: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    failures: tuple[str, ...] = ()
    growth: str = "?"
    """KiB in so many inputs, when those of the run are repeated and the first half is over."""

    def __str__(self) -> str:
        rate = self.inputs / self.seconds if self.seconds else 0.0
        return (
            f"{self.target:<10} {self.seconds / 60:>7.1f} {self.inputs:>10} {rate:>9.0f}"
            f" {self.longest * 1000:>10.0f} {self.growth:>16} {len(self.failures):>6}"
        )


HEAD = (
    f"{'target':<10} {'minutes':>7} {'inputs':>10} {'inputs/s':>9} {'longest ms':>10}"
    f" {'grown KiB in':>16} {'found':>6}"
)


def main() -> int:
    """Run the targets; gives 1 if anything was found."""
    given = _arguments()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="fuzz-"))
    engine = given.engine or (ENGINES[0] if importlib.util.find_spec("atheris") else ENGINES[1])
    print(f"engine {engine}, seed {given.seed}, results in {folder}", flush=True)
    print(HEAD, flush=True)
    found = False
    for name in given.targets or NAMES:
        outcome = _fuzzed(name, folder / name, engine, given.seconds, given.seed)
        print(outcome, flush=True)
        for failure in outcome.failures:
            print(f"    {failure}", flush=True)
        found |= bool(outcome.failures)
    return int(found)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(NAMES))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument("--engine", choices=ENGINES, help="atheris where it is installed")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if unknown := set(given.targets) - set(NAMES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(NAMES)}")
    return given


def _fuzzed(name: str, folder: Path, engine: str, seconds: float, seed: int) -> Outcome:
    folder.mkdir(parents=True, exist_ok=True)
    ended = _driven(name, folder, engine, seconds, seed)
    failures: list[str] = []
    stats: dict[str, Any] = {"inputs": 0, "seconds": 0.0, "longest": 0.0, "failures": []}
    if (folder / "stats.json").exists():
        stats = json.loads((folder / "stats.json").read_text())
        failures += (file.read_text().strip() for file in sorted(folder.glob("found-*.txt")))
    if ended:
        _keep_current(folder)
        failures.append(f"the process ended with {ended}: see found-died and {engine}.log")
    if failures:
        _driven(name, folder, "minimise", seconds, seed)
    _driven(name, folder, "memory", seconds / 10, seed)
    memory = folder / "memory.txt"
    return Outcome(
        target=name,
        inputs=stats["inputs"],
        seconds=stats["seconds"],
        longest=stats["longest"],
        failures=tuple(failures),
        growth=" in ".join(memory.read_text().split()) if memory.exists() else "?",
    )


def _driven(name: str, folder: Path, engine: str, seconds: float, seed: int) -> int:
    """Run the driver; gives its exit code, -9 if it does not end."""
    command = [sys.executable, "-m", "tests.fuzz.driver", name, str(folder), "--engine", engine]
    command += ["--seconds", str(seconds), "--seed", str(seed)]
    with (folder / f"{engine}.log").open("wb") as log:
        try:
            return subprocess.run(
                command, stdout=log, stderr=log, check=False, timeout=seconds + _PATIENCE_SECONDS
            ).returncode
        except subprocess.TimeoutExpired:
            return -9


def _keep_current(folder: Path) -> None:
    """Keep the input during which the process died."""
    content = (folder / "current").read_bytes() if (folder / "current").exists() else bytes(8)
    (folder / "found-died").write_bytes(content[8 : 8 + int.from_bytes(content[:8])])


if __name__ == "__main__":
    sys.exit(main())
