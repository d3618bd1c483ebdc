"""How much memory a process has once it serves."""

from __future__ import annotations

import asyncio
import socket
import time
import urllib.request
from typing import TYPE_CHECKING

from bench.lines import Line
from bench.nodes import nodes
from bench.processes import Memory, memory
from bench.sides import BASELINE, DAEMON, SIDES, Program, things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.nodes import Nodes
    from bench.sides import Bench

_COUNTS = (1, 10, 100, 500)
_GOAL = 1.2
"""Times the resident memory of the floor, which has the same libraries."""
_SETTLE_SECONDS = 1.0
_LISTENING_GOAL = 6.0
_LISTENING_SECONDS = 30.0


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Look at both sides shortly after all is registered."""
    with nodes(max(_COUNTS), bench.scratch) as host:
        for count in _COUNTS:
            rounds = 1 if bench.quick else 2
            bench.progress.say(f"memory with {count} resources, {rounds} rounds")
            found: dict[str, list[Memory]] = {side: [] for side in SIDES}
            for _ in range(rounds):
                for side in SIDES:
                    found[side].append(await _memory(bench, side, count, host))
            own, floor = found[DAEMON], found[BASELINE]
            yield Line(
                what=f"resident memory, {count} resources",
                unit="MB",
                daemon=tuple(one.resident for one in own),
                baseline=tuple(one.resident for one in floor),
                goal=_GOAL,
                relative=True,
            )
            yield Line(
                what=f"private memory, {count} resources",
                unit="MB",
                daemon=tuple(one.own for one in own),
                baseline=tuple(one.own for one in floor),
                note=f"daemon {own[-1]}; floor {floor[-1]}",
            )
        yield await _listening(bench, host)


async def _memory(
    bench: Bench, side: str, count: int, host: Nodes, port: int | None = None
) -> Memory:
    told = {} if port is None else {"GENERICDP_LISTEN": f"127.0.0.1:{port}"}
    program = Program(environment=told)
    async with (
        bench.kubelet() as kubelet,
        bench.registered(side, kubelet, things(count), root=host.root, program=program) as plugin,
    ):
        if port is not None:
            await asyncio.to_thread(_ask, f"http://127.0.0.1:{port}/metrics")
        await asyncio.sleep(_SETTLE_SECONDS)
        return memory(plugin.pid)


async def _listening(bench: Bench, host: Nodes) -> Line:
    """Look at the daemon with and without its endpoints, in turns."""
    rounds = 1 if bench.quick else 2
    bench.progress.say(f"memory with --listen, {rounds} rounds")
    more = []
    for _ in range(rounds):
        without = await _memory(bench, DAEMON, 1, host)
        with_it = await _memory(bench, DAEMON, 1, host, _free_port())
        more.append(with_it.resident - without.resident)
    return Line(
        what="resident memory with --listen, /metrics read once",
        unit="MB more",
        daemon=tuple(more),
        goal=_LISTENING_GOAL,
        note="than the daemon without it, 1 resource",
    )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


def _ask(url: str) -> None:
    """Read an answer; it listens a moment after the kubelet has its lists."""
    ends = time.monotonic() + _LISTENING_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=_LISTENING_SECONDS) as answer:
                answer.read()
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.05)
        else:
            return
