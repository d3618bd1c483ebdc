"""What a day has at each rest, and whether it grows from the second hour on."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import sys
from array import array
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.processes import memory
from genericdp.status.events import MOST
from tests.soak.daemon import _POOLED
from tests.soak.daemon_main import _given_out
from tests.soak.invariants import leftover, usual_growth

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MOST_MORE_BLOCKS = 0.01
MOST_MORE_ENTRIES = 0.01
MOST_MORE_SERIES = 0.02
"""A vanished device that is still listed has some."""
MOST_MORE_GIVEN_OUT_KB = 250.0
"""Each connection of gRPC leaves larger gaps that are not given out again, ever fewer: 18,000 of
them one after the other 100 kB, 50, 20, 5, 14, 8, 20, -14, 16, 10, -5 more for each 1,500."""
MOST_GROWTH_MB = 1.0
_MOST_MORE = 20
"""Of one type: a cell or a tuple may be somewhere else at each rest."""
_EVENT = "genericdp.status.model.Event"
_OWN = "tests.day.held.Held"
_CONTAINERS = (dict, list, set, deque)


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """What may not be more at any later rest; only that of one rest is kept, it takes memory."""

    descriptors: Mapping[str, int]
    tasks: Mapping[str, int]
    """By name, without numbers."""


class Objects:
    """How many of each type Python's collector knew at each rest; of a size that stays."""

    def __init__(self, rests: int) -> None:
        self._rests = rests
        self._by_type: dict[str, array[int]] = {}

    def enter(self, rest: int, counts: Mapping[str, int]) -> None:
        """Note what there is at a rest, from 0 on."""
        for kind in counts.keys() - self._by_type.keys() - {_OWN}:
            self._by_type[kind] = array("l", bytes(8 * self._rests))
        for kind, kept in self._by_type.items():
            kept[rest] = counts.get(kind, 0)

    def growths(self, times: Sequence[float], first: int) -> list[str]:
        """Say of which types there are more, by their slopes, from a rest on, from 0 on.

        ``times``: of the rests. A vanished device may still be listed at one and not at another.
        """
        found = []
        for kind, kept in self._by_type.items():
            line = usual_growth(list(zip(times[first:], map(float, kept[first:]), strict=True)))
            most = max(_MOST_MORE, kept[first] * MOST_MORE_ENTRIES)
            if line is not None and line.total > most and kind != _EVENT:
                found.append(f"{kind}: {line.total:+.0f} by its slope (limit {most:+.0f})")
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """The figures of one rest, garbage aside."""

    at: float
    """In seconds of the day."""
    descriptors: int
    tasks: int
    objects: int
    entries: int
    """Of all dicts, lists, sets and deques together."""
    blocks: int
    """Python's blocks of memory."""
    given_out: float
    """By the C library, large blocks aside, in kB."""
    resident: float
    """In MB."""
    series: int
    """Lines of /metrics that are no comment."""
    events: int
    """Lines of the log that are kept to be shown."""


def held(at: float, series: int) -> tuple[Held, Counts, Mapping[str, int]]:
    """Count what there is now; last: objects by type."""
    gc.collect()
    # Before what is counted here makes any itself.
    resident, given_out = memory(os.getpid()).resident, _given_out() / 1000
    blocks = sys.getallocatedblocks()
    objects, entries = _objects()
    counts = Counts(descriptors=_descriptors(), tasks=Counter(_names(asyncio.all_tasks())))
    figures = Held(
        at=at,
        descriptors=sum(counts.descriptors.values()),
        tasks=sum(counts.tasks.values()),
        objects=objects.total(),
        entries=entries,
        blocks=blocks,
        given_out=given_out,
        resident=resident,
        series=series,
        events=objects[_EVENT],
    )
    return figures, counts, objects


def more(before: Counts, now: Counts) -> list[str]:
    """Say what there is more of."""
    found = {
        "descriptors": leftover(before.descriptors, now.descriptors),
        "tasks": leftover(before.tasks, now.tasks),
    }
    return [f"{what}: {which}" for what, which in found.items() if which]


def growths(rests: Sequence[Held]) -> list[str]:
    """Say what grows, by its slope, from the first of these rests to the last."""
    begin = rests[0]
    limits = {
        "blocks": MOST_MORE_BLOCKS * begin.blocks,
        "entries": MOST_MORE_ENTRIES * begin.entries,
        "given_out": MOST_MORE_GIVEN_OUT_KB,
        "resident": MOST_GROWTH_MB,
        "series": MOST_MORE_SERIES * begin.series,
        "events": float(MOST - begin.events),
    }
    return [
        f"{what}: {total:+.1f} by its slope (limit {most:+.1f})"
        for what, most in limits.items()
        if (total := slope(rests, what)) > most
    ]


def slope(rests: Sequence[Held], what: str) -> float:
    """Give how much more of something there is at the end, on its line."""
    line = usual_growth([(one.at, float(getattr(one, what))) for one in rests])
    return 0.0 if line is None else line.total


def _objects() -> tuple[Counter[str], int]:
    tracked = gc.get_objects()
    known = set(map(id, tracked))
    counts: Counter[str] = Counter()
    entries = 0
    for one in tracked:
        kind = type(one)
        counts[f"{kind.__module__}.{kind.__qualname__}"] += 1
        if isinstance(one, _CONTAINERS) and one is not tracked:
            entries += len(one)
        # A dict of plain values is no matter for the collector.
        for other in gc.get_referents(one) if one is not tracked else ():
            if type(other) is dict and id(other) not in known:
                known.add(id(other))
                entries += len(other)
    return counts, entries


def _descriptors() -> Counter[str]:
    found: Counter[str] = Counter()
    for name in os.listdir("/proc/self/fd"):
        try:
            what = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # the one that lists them
        # Those by which this process looks at its threads come and go with these.
        if not what.startswith((*_POOLED, "/proc/")):
            found[re.sub(r"\d+", "N", what)] += 1
    return found


def _names(tasks: Iterable[asyncio.Task[object]]) -> list[str]:
    number = re.compile(r"genericdp-\S+|\d+|soak\.example\.com/\S+")
    return [number.sub("N", one.get_name()) for one in tasks]
