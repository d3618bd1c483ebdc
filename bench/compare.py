"""``python -m bench.compare A.json B.json``: do two runs of the benchmark agree?

Exits with 1 if the ratio of the medians of any line differs by more than ``--within``, or if they
have no line in common; with 2 if a file cannot be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.flags import between
from bench.lines import columns, figure

if TYPE_CHECKING:
    from collections.abc import Sequence

_WITHIN = 0.15
_HEAD = ("", "unit", "ratio A", "ratio B", "apart", "daemon A", "daemon B", "apart", "")

Run = dict[str, dict[str, Any]]
"""The lines of one run, by what they are of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One line of two runs."""

    what: str
    unit: str
    ratios: tuple[float | None, float | None]
    medians: tuple[float, float]

    @property
    def ratios_apart(self) -> float | None:
        """By what share of the smaller one the larger ratio exceeds it; None without two."""
        first, second = self.ratios
        return None if first is None or second is None else _apart(first, second)

    @property
    def medians_apart(self) -> float | None:
        """The same of the daemon's medians; None where one is zero."""
        return _apart(*self.medians)

    def agrees(self, within: float) -> bool:
        """Say whether the ratios do, as far as there are any."""
        return self.ratios_apart is None or self.ratios_apart <= within


def run_of(text: str) -> Run:
    """Read what ``python -m bench -o json`` or ``--save`` wrote."""
    return {line["what"]: line for line in json.loads(text)["lines"]}


def pairs(first: Run, second: Run) -> list[Pair]:
    """Pair the lines that both runs have, in the order of the first."""
    return [
        Pair(
            what=what,
            unit=one["unit"],
            ratios=(one["ratio"], second[what]["ratio"]),
            medians=(one["daemon"]["median"], second[what]["daemon"]["median"]),
        )
        for what, one in first.items()
        if what in second
    ]


def report(first: Run, second: Run, within: float) -> tuple[str, bool]:
    """Give the table of two runs, and whether they agree."""
    both = pairs(first, second)
    text = columns([_HEAD, *(_row(pair, within) for pair in both)], texts=2)
    for name, run, other in (("A", first, second), ("B", second, first)):
        text += [f"only in {name}: {what}" for what in run if what not in other]
    compared = [pair for pair in both if pair.ratios_apart is not None]
    agreeing = [pair for pair in compared if pair.agrees(within)]
    text.append(f"{len(agreeing)} of {len(compared)} ratios agree within {within:.0%}")
    return "\n".join(text), bool(both) and len(agreeing) == len(compared)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two files; gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("first", metavar="A.json", type=Path)
    parser.add_argument("second", metavar="B.json", type=Path)
    parser.add_argument("--within", type=between(0, 100), default=_WITHIN, help="as a share: 0.15")
    given = parser.parse_args(arguments)
    try:
        first, second = _read(given.first), _read(given.second)
    except ValueError as error:
        print(f"bench.compare: {error}", file=sys.stderr)
        return 2
    text, agree = report(first, second, given.within)
    print(text)
    return 0 if agree else 1


def _read(path: Path) -> Run:
    """Read a run; raises ValueError that says which file is none."""
    try:
        return run_of(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"what `make bench SAVE={path}` writes ({type(error).__name__}: {error})"
        raise ValueError(f"{path} is not {why}") from error


def _apart(first: float, second: float) -> float | None:
    smaller, larger = sorted((first, second))
    return larger / smaller - 1 if smaller > 0 else None


def _row(pair: Pair, within: float) -> tuple[str, ...]:
    return (
        pair.what,
        pair.unit,
        *("-" if ratio is None else f"{ratio:.2f}" for ratio in pair.ratios),
        _share(pair.ratios_apart),
        *map(figure, pair.medians),
        _share(pair.medians_apart),
        "" if pair.agrees(within) else "APART",
    )


def _share(apart: float | None) -> str:
    return "-" if apart is None else f"{apart:.0%}"


if __name__ == "__main__":
    sys.exit(main())
