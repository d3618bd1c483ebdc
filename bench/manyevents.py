"""Events where there are many devices, or many events: to the bytes of the list elsewhere."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from bench.events import in_turns
from bench.lines import Line
from bench.nodes import FOLDER, nodes
from bench.sides import BASELINE, DAEMON, SIDES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from bench.ear import Ear
    from bench.nodes import Nodes
    from bench.sides import Bench, Globs

_MANY = {1_000: 120.0, 10_000: 1500.0}
"""So many devices, of which one changes; the goal in milliseconds."""
_EACH = 100
"""So many resources have so many devices each."""
_HUNDREDS = {
    f"bench.example.com/thing-{i}": f"/dev/{FOLDER}/thing-{i}[0-9][0-9]"
    for i in range(1, _EACH + 1)
}
_ONE: Globs = {"bench.example.com/thing": f"/dev/{FOLDER}/thing-*"}
_SETTLE_SECONDS = 2.5
"""By then all has been looked at once more, now that events tell of changes."""
_STORM = 500
_BEFORE_THE_STORM = 100
_STORM_SETTLE_SECONDS = 0.8
_CALM_SECONDS = 0.4
"""After the last list of a storm."""


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Let one node of very many change, then many at once."""
    rounds, turns = (3, 1) if bench.quick else (5, 2)
    for many, goal in _MANY.items():
        bench.progress.say(f"one of {many} nodes vanishes or returns, {rounds * turns} times each")
        numbers = [i * 997 % many for i in range(rounds)]
        what = f"one of {many} nodes changes to list"
        yield await _changes(bench, what, _ONE, many, numbers, turns, goal)
    bench.progress.say(f"one of {_EACH} nodes of one of {_EACH} resources vanishes or returns")
    numbers = [_EACH + i * 997 for i in range(rounds)]
    yield await _changes(
        bench,
        f"one of {_EACH} nodes of one of {_EACH} resources changes to list",
        _HUNDREDS,
        _EACH + _EACH * _EACH,
        numbers,
        turns,
        None,
    )
    bench.progress.say(f"{_STORM} nodes appear at once")
    async for line in _storms(bench, 2 if bench.quick else 5):
        yield line


async def _changes(
    bench: Bench,
    what: str,
    globs: Globs,
    count: int,
    numbers: Sequence[int],
    turns: int,
    goal: float | None,
) -> Line:
    with nodes(count, bench.scratch) as host:
        if not host.real:
            # Of a copied tree everything is looked at each time: seconds.
            numbers, turns = numbers[:3], 1
        changes = (host.remove, host.make, numbers)
        sides = dict.fromkeys(SIDES, (globs, changes))
        took = await in_turns(bench, host.root, sides, turns, _SETTLE_SECONDS)
        samples = {
            side: tuple(one for happening in took[side].values() for one in happening)
            for side in SIDES
        }
        return Line(
            what=what,
            unit="ms",
            daemon=samples[DAEMON],
            baseline=samples[BASELINE],
            goal=goal,
            note=f"{host.kind}; to the list's bytes in another process, which decodes nothing",
        )


async def _storms(bench: Bench, rounds: int) -> AsyncIterator[Line]:
    took: dict[str, list[float]] = {side: [] for side in SIDES}
    sent: dict[str, list[float]] = {side: [] for side in SIDES}
    with nodes(_BEFORE_THE_STORM, bench.scratch) as host:
        host.describe(range(_BEFORE_THE_STORM, _BEFORE_THE_STORM + _STORM))
        for side in SIDES:
            async with bench.heard(side, _ONE, root=host.root) as ear:
                await asyncio.sleep(_STORM_SETTLE_SECONDS)
                whole = await _last_size(ear, _appear, host)
                await _last_size(ear, _vanish, host)
                for _ in range(rounds):
                    seconds, lists = await _storm(ear, host, whole)
                    took[side].append(seconds * 1000)
                    sent[side].append(lists)
                    await _last_size(ear, _vanish, host)
    what = f"{_STORM} nodes appear at once"
    yield Line(
        what=f"{what}, all listed",
        unit="ms",
        daemon=tuple(took[DAEMON]),
        baseline=tuple(took[BASELINE]),
        comparable=False,
        note="from before the first node is made; lists are put together for up to 0.1 s, which "
        "the floor does not do",
    )
    yield Line(
        what=f"{what}, lists sent",
        unit="",
        daemon=tuple(sent[DAEMON]),
        baseline=tuple(sent[BASELINE]),
        comparable=False,
    )


async def _storm(ear: Ear, host: Nodes, whole: int) -> tuple[float, int]:
    """Give the seconds until the list with all of them, and how many lists came."""
    since = time.monotonic()
    await asyncio.to_thread(_appear, host)
    lists = await ear.lists_for(_CALM_SECONDS)
    while not lists or lists[-1].size != whole:
        lists += [await ear.next_list()]
    complete = next(one for one in lists if one.size == whole)
    return complete.at - since, len(lists)


async def _last_size(ear: Ear, change: Callable[[Nodes], None], host: Nodes) -> int:
    """Change many nodes, wait until nothing more comes; give the bytes of the last list."""
    await asyncio.to_thread(change, host)
    last = await ear.next_list()
    while more := await ear.lists_for(_CALM_SECONDS):
        last = more[-1]
    return last.size


def _appear(host: Nodes) -> None:
    for number in range(_BEFORE_THE_STORM, _BEFORE_THE_STORM + _STORM):
        host.make(number)


def _vanish(host: Nodes) -> None:
    for number in range(_BEFORE_THE_STORM, _BEFORE_THE_STORM + _STORM):
        host.remove(number)
