"""What a process costs while nothing happens."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.lines import Line
from bench.nodes import nodes
from bench.processes import cpu_seconds, descriptors, threads, waits
from bench.sides import BASELINE, DAEMON, SIDES, things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from bench.sides import Bench, Plugin

_COUNTS = (1, 100)
_GOALS = {100: 0.1}
_SETTLE_SECONDS = 3.0
_WINDOW_SECONDS = 30.0
"""As long as from one look at all devices to the next, so that each window has one of these."""
_QUICK_SECONDS = 5.0

Who = tuple[int, str]
"""The number of resources, and the side."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _State:
    """Of one process at a moment."""

    cpu: float
    waits: dict[int, int]
    threads: int
    descriptors: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Window:
    """What a process did in a window."""

    share: float
    """Of a core, in per cent."""
    wakes: float
    """A second."""
    threads: float
    descriptors: float


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Let all do nothing side by side; the simulator does not disturb them."""
    seconds = _QUICK_SECONDS if bench.quick else _WINDOW_SECONDS
    number = 2 if bench.quick else max(1, round(bench.idle_seconds / seconds))
    bench.progress.say(f"idle for {number} times {seconds:.0f} s")
    with nodes(max(_COUNTS), bench.scratch) as host:
        async with AsyncExitStack() as stack:
            plugins: dict[Who, Plugin] = {}
            for count in _COUNTS:
                for side in SIDES:
                    kubelet = await stack.enter_async_context(bench.kubelet())
                    plugins[count, side] = await stack.enter_async_context(
                        bench.registered(side, kubelet, things(count), root=host.root)
                    )
            await asyncio.sleep(_SETTLE_SECONDS)
            found = await _windows(plugins, number, seconds)
    for count in _COUNTS:
        for line in _lines(count, found[count, DAEMON], found[count, BASELINE], seconds):
            yield line


async def _windows(
    plugins: dict[Who, Plugin], number: int, seconds: float
) -> dict[Who, list[_Window]]:
    found: dict[Who, list[_Window]] = {who: [] for who in plugins}
    before = {who: _state(plugin.pid) for who, plugin in plugins.items()}
    for _ in range(number):
        await asyncio.sleep(seconds)
        after = {who: _state(plugin.pid) for who, plugin in plugins.items()}
        for who, windows in found.items():
            windows.append(_window(before[who], after[who], seconds))
        before = after
    return found


def _state(pid: int) -> _State:
    return _State(
        cpu=cpu_seconds(pid), waits=waits(pid), threads=threads(pid), descriptors=descriptors(pid)
    )


def _window(before: _State, after: _State, seconds: float) -> _Window:
    # Of a thread that has ended meanwhile nothing can be known any more.
    wakes = sum(count - before.waits.get(thread, 0) for thread, count in after.waits.items())
    return _Window(
        share=(after.cpu - before.cpu) / seconds * 100,
        wakes=wakes / seconds,
        threads=after.threads,
        descriptors=after.descriptors,
    )


def _lines(
    count: int, daemon: Sequence[_Window], floor: Sequence[_Window], seconds: float
) -> list[Line]:
    def line(what: str, unit: str, of: Callable[[_Window], float], **more: object) -> Line:
        own, other = tuple(map(of, daemon)), tuple(map(of, floor))
        return Line(
            what=f"{what}, {count} resources",
            unit=unit,
            daemon=own,
            baseline=other,
            **more,  # type: ignore[arg-type]
        )

    total = sum(one.share for one in daemon) / len(daemon) / 100 * 600
    return [
        line(
            "idle CPU",
            "% of a core",
            lambda one: one.share,
            goal=_GOALS.get(count),
            note=f"{len(daemon)} times {seconds:.0f} s; in ten minutes {total:.2f} s of a core",
        ),
        line("idle wake-ups", "a second", lambda one: one.wakes),
        # Those of gRPC's pool come and go.
        line("idle threads", "", lambda one: one.threads, comparable=False),
        line("idle descriptors", "", lambda one: one.descriptors),
    ]
