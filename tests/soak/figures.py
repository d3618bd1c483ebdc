"""Figures of the soak, and their table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from bench.results import percentile

from tests.soak.allocating import Tally


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """The time until the kubelet's lists were true again after one step."""

    seconds: float
    limit: float


@dataclass(slots=True)
class Figures:
    """The figures of all chapters together."""

    taken: dict[str, list[Taken]] = field(default_factory=dict)
    """By what was done."""
    kubelets: Counter[str] = field(default_factory=Counter)
    checked: int = 0
    """How often all lists were compared with the record."""
    spared: int = 0
    """Resources that a reload did not concern, and that were seen to be left alone."""
    tally: Tally = field(default_factory=Tally)
    lines: dict[str, str] = field(default_factory=dict)
    """Further figures, in words."""
    ended: list[float] = field(default_factory=list)
    """How long the daemon took to end at SIGTERM, in seconds."""

    def all_taken(self) -> list[Taken]:
        return [entry for many in self.taken.values() for entry in many]

    @property
    def worst(self) -> float:
        """The longest time to true lists, in seconds."""
        return max((entry.seconds for entry in self.all_taken()), default=0.0)

    def table(self) -> str:
        rows: list[tuple[str, ...]] = [
            ("lists true after", "times", "p50 ms", "p99 ms", "max ms", "late by load")
        ]
        rows += [_row(what, many) for what, many in sorted(self.taken.items())]
        rows.append(_row("all steps", self.all_taken()))
        text = [f"{row[0]:<42}" + "".join(f"{cell:>14}" for cell in row[1:]) for row in rows]
        return "\n".join([*text, "", *(f"{what}: {said}" for what, said in self._said().items())])

    def _said(self) -> dict[str, str]:
        tally = self.tally
        calls = sorted(tally.milliseconds) or [0.0]
        kubelets = ", ".join(f"{count} {what}" for what, count in sorted(self.kubelets.items()))
        said = {
            "lists compared with the record": f"{self.checked} times",
            "kubelets started": kubelets or "none",
            "Allocate": f"{tally.made} calls: {tally.answered} answered"
            f" (p50 {percentile(calls, 0.5):.1f}, p99 {percentile(calls, 0.99):.1f} ms),"
            f" {tally.refused} refused, {tally.unreachable} while no plugin was registered;"
            f" {tally.for_gone} for missing devices: none answered",
            "resources that a reload does not concern": f"{self.spared} times left alone",
        }
        if self.ended:
            most = f"{max(self.ended):.2f} s at most"
            said["SIGTERM"] = f"{len(self.ended)} times, ended in {most}, exit code 0"
        return said | self.lines


def _row(what: str, many: list[Taken]) -> tuple[str, ...]:
    """Return a row; late is what came later than its limit, by less than the wait for a core."""
    times = sorted(entry.seconds * 1000 for entry in many) or [0.0]
    figures = percentile(times, 0.5), percentile(times, 0.99), times[-1]
    late = sum(entry.seconds > entry.limit for entry in many)
    return what, str(len(many)), *(f"{figure:.0f}" for figure in figures), str(late or "-")
