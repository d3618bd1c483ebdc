"""Figures of the soak, and their table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from bench.results import percentile

from tests.soak.allocating import Tally
from tests.soak.faults import FAULTS
from tests.soak.invariants import TRUE_WITHIN_SECONDS


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """The time until the kubelet's lists were true again after one step."""

    seconds: float
    limit: float
    waited: float
    """How long the daemon and the soak waited for a core meanwhile, in all threads."""


@dataclass(slots=True)
class Figures:
    """The figures of all chapters together."""

    taken: dict[str, list[Taken]] = field(default_factory=dict)
    """By what was done."""
    nodes: Counter[str] = field(default_factory=Counter)
    kubelets: Counter[str] = field(default_factory=Counter)
    lists: int = 0
    """Lists that simulated kubelets have received."""
    registered: int = 0
    """Register calls that they have received."""
    checked: int = 0
    """How often all lists were compared with the record."""
    spared: int = 0
    """Resources that a reload did not concern, and that were seen to be left alone."""
    tally: Tally = field(default_factory=Tally)
    lines: dict[str, str] = field(default_factory=dict)
    """Further figures, in words."""
    ended: list[float] = field(default_factory=list)
    """How long the daemon took to end at SIGTERM, in seconds."""

    def enter(self, what: str, taken: Taken) -> None:
        """Note how long one step took."""
        self.taken.setdefault(what, []).append(taken)

    @property
    def steps(self) -> int:
        """Return how many steps have been survived."""
        return len(self._everything())

    @property
    def worst(self) -> float:
        """The longest time to true lists, in seconds."""
        return max((entry.seconds for entry in self._everything()), default=0.0)

    def table(self) -> str:
        """Lay it out for a person."""
        rows: list[tuple[str, ...]] = [
            ("lists true after", "times", "p50 ms", "p99 ms", "max ms", "late by load")
        ]
        order = [fault.name for fault in FAULTS]
        rows += [_row(what, self.taken[what]) for what in sorted(self.taken, key=order.index)]
        rows.append(_row("all steps", self._everything()))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        text = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        return "\n".join([*text, "", *(f"{what}: {said}" for what, said in self._said().items())])

    def _everything(self) -> list[Taken]:
        return [entry for many in self.taken.values() for entry in many]

    def _said(self) -> dict[str, str]:
        tally = self.tally
        calls = sorted(tally.milliseconds) or [0.0]
        said = {
            "limit": f"{TRUE_WITHIN_SECONDS:g} s, a probe's 1.5 periods where one decides, and"
            " the time of each Python that a start or a config needs;"
            " 'late by load': beyond that, by less than the wait for a core meanwhile",
            "lists compared with the record": f"{self.checked} times;"
            f" simulated kubelets received {self.lists} lists, {self.registered} Register calls",
            "kubelets started": _counted(self.kubelets),
            "nodes": _counted(self.nodes),
            "Allocate": f"{tally.made} calls: {tally.answered} answered"
            f" (p50 {percentile(calls, 0.5):.1f}, p99 {percentile(calls, 0.99):.1f} ms),"
            f" {tally.refused} refused, {tally.unreachable} while no plugin was registered;"
            f" {tally.for_gone} for missing devices: none answered",
            "resources that a reload does not concern": f"{self.spared} times left alone:"
            " no Register, the same socket, no list",
        }
        if forgiven := [entry for entry in self._everything() if entry.seconds > entry.limit]:
            said["late by load"] = (
                f"{len(forgiven)} steps,"
                f" {max(item.seconds - item.limit for item in forgiven):.2f} s at most;"
                f" {max(entry.waited for entry in forgiven):.2f} s waited for a core at most"
            )
        if self.ended:
            said["SIGTERM"] = (
                f"{len(self.ended)} times, ended in {max(self.ended):.2f} s at most, exit code 0,"
                " no socket left"
            )
        return said | self.lines


def _row(what: str, many: list[Taken]) -> tuple[str, ...]:
    times = sorted(entry.seconds * 1000 for entry in many) or [0.0]
    late = [item for item in many if item.seconds > item.limit]
    return (
        what,
        str(len(many)),
        *(f"{percentile(times, share):.0f}" for share in (0.5, 0.99)),
        f"{times[-1]:.0f}",
        str(len(late)) if late else "-",
    )


def _counted(counter: Counter[str]) -> str:
    return ", ".join(f"{n} {what}" for what, n in sorted(counter.items())) or "none"
