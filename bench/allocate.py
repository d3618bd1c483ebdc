"""How long the calls of a pod's admission take, seen from the other end of the socket."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from bench.calls import allocating, block, preferring
from bench.nodes import FOLDER, nodes
from bench.quantiles import quantiles
from bench.sides import BASELINE, DAEMON, SIDES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from bench.calls import Call
    from bench.lines import Line
    from bench.sides import Bench, Plugin

_BLOCKS = 7
_DEVICES, _PREFERRED = 8, 4
_AT_ONCE = 8
_GLOBS = {"bench.example.com/thing": f"/dev/{FOLDER}/thing-*"}
_GOALS = {"p50": 0.7, "p99": 2.0}
_NO_GOALS: Mapping[str, float] = {}


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Call both sides in turns, a block of calls each; the first block warms up."""
    with nodes(_DEVICES, bench.scratch) as host:
        async with AsyncExitStack() as stack:
            plugins = {}
            for side in SIDES:
                kubelet = await stack.enter_async_context(bench.kubelet())
                plugins[side] = await stack.enter_async_context(
                    bench.registered(side, kubelet, _GLOBS, root=host.root)
                )
            for at_once in (1, _AT_ONCE):
                async for line in _lines(bench, plugins, at_once):
                    yield line


async def _lines(bench: Bench, plugins: dict[str, Plugin], at_once: int) -> AsyncIterator[Line]:
    how = "alone" if at_once == 1 else f"{at_once} at once"
    preferred = f"GetPreferredAllocation, {_PREFERRED} of {_DEVICES}"
    async with AsyncExitStack() as stack:
        calls: dict[str, dict[str, Call]] = {"Allocate": {}, preferred: {}}
        for side, plugin in plugins.items():
            calls["Allocate"][side] = await stack.enter_async_context(allocating(plugin))
            calls[preferred][side] = await stack.enter_async_context(preferring(plugin, _PREFERRED))
        for method, call in calls.items():
            took = await _in_turns(bench, f"{method}, {how}", call, at_once)
            goals = _GOALS if method == "Allocate" and at_once == 1 else _NO_GOALS
            for line in quantiles(f"{method}, {how}", took[DAEMON], took[BASELINE], goals=goals):
                yield line


async def _in_turns(
    bench: Bench, what: str, call: Mapping[str, Call], at_once: int
) -> dict[str, list[list[float]]]:
    calls = 200 if bench.quick else 1000
    bench.progress.say(f"{what}, {_BLOCKS} blocks of {calls} calls")
    took: dict[str, list[list[float]]] = {side: [] for side in SIDES}
    for number in range(_BLOCKS + 1):
        for side in SIDES:
            samples = await block(call[side], calls, at_once=at_once)
            if number:
                took[side].append(samples)
    return took
