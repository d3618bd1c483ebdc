"""From exec to a list of every resource at the kubelet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import cold
from bench.lines import Line
from bench.nodes import nodes
from bench.sides import BASELINE, DAEMON, HERE, SIDES, things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from bench.nodes import Nodes
    from bench.sides import Bench, Program

_GOALS = {1: 250.0, 10: None, 100: 350.0, 500: None}
_WARM = {1: 15, 10: 9, 100: 9, 500: 5}
_COLD = {1: 4, 10: 3, 100: 3, 500: 2}
"""How often each side is started, by the number of resources."""
_QUICK_ROUNDS = 3
_NOTE = (
    "nothing of interpreter, libraries and project is in memory (/proc/sys/vm/drop_caches), but "
    "for libc"
)


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Start both sides in turns."""
    with nodes(max(_GOALS), bench.scratch) as host:
        async for line in _lines(bench, host, HERE, _WARM, "warm", lambda: True):
            yield line
        if lacking := cold.lacking():
            bench.progress.say(f"cold starts are left out: {lacking}")
            return
        bench.progress.say("a copy of the interpreter for cold starts")
        with cold.copied() as program:
            if not cold.drop(program):
                bench.progress.say("cold starts are left out: the page cache stays as it is")
                return
            dropped = lambda: cold.drop(program)  # noqa: E731
            async for line in _lines(bench, host, program, _COLD, "cold", dropped):
                yield line


async def _lines(
    bench: Bench,
    host: Nodes,
    program: Program,
    rounds: Mapping[int, int],
    cache: str,
    prepare: Callable[[], object],
) -> AsyncIterator[Line]:
    for count, goal in _GOALS.items():
        number = min(rounds[count], _QUICK_ROUNDS) if bench.quick else rounds[count]
        bench.progress.say(f"start with {count} resources, page cache {cache}, {number} rounds")
        took: dict[str, list[float]] = {side: [] for side in SIDES}
        for _ in range(number):
            for side in SIDES:
                prepare()
                took[side].append(await _start(bench, side, count, host, program))
        yield Line(
            what=f"exec to all listed, {count} resources, {cache}",
            unit="ms",
            daemon=tuple(took[DAEMON]),
            baseline=tuple(took[BASELINE]),
            goal=goal if cache == "warm" else None,
            note=_NOTE if cache == "cold" and count == 1 else "",
        )


async def _start(bench: Bench, side: str, count: int, host: Nodes, program: Program) -> float:
    async with (
        bench.kubelet() as kubelet,
        bench.registered(side, kubelet, things(count), root=host.root, program=program) as plugin,
    ):
        return await plugin.listed(plugin.started) * 1000
