"""How much memory a process has once it serves."""

from __future__ import annotations

import asyncio
import socket
import time
import urllib.request
from typing import TYPE_CHECKING

from bench.nodes import nodes
from bench.processes import resident_memory
from bench.results import Result, counted
from bench.runner import DAEMON, PEER, SIDES, things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bench.runner import Bench

_COUNTS = (1, 100)
_GOAL = 1.2
"""Times the bare plugin, which has the same libraries."""
_LISTEN_GOAL = 6.0
_LISTEN_SECONDS = 30.0
_SETTLE_SECONDS = 1.0


async def measure(bench: Bench) -> AsyncIterator[Result]:
    """Look at both sides shortly after all is registered."""
    rounds = 1 if bench.quick else 3
    with nodes(max(_COUNTS), bench.scratch) as host:
        for count in _COUNTS:
            bench.say(f"memory with {count} resources, {rounds} rounds")
            found: dict[str, list[float]] = {side: [] for side in SIDES}
            for _ in range(rounds):
                for side in SIDES:
                    found[side].append(await _memory(bench, side, count, host.root))
            yield Result(
                what=f"memory, {counted(count, 'resource')}",
                unit="MB",
                daemon=found[DAEMON],
                peer=found[PEER],
                goal=_GOAL,
                judged_by="ratio",
            )
        bench.say(f"memory with --listen, {rounds} rounds")
        more = []
        for _ in range(rounds):
            without = await _memory(bench, DAEMON, 1, host.root)
            listening = await _memory(bench, DAEMON, 1, host.root, port=free_port())
            more.append(listening - without)
        yield Result(
            what="more memory with --listen",
            unit="MB",
            daemon=more,
            goal=_LISTEN_GOAL,
        )


async def _memory(
    bench: Bench, side: str, count: int, root: Path, *, port: int | None = None
) -> float:
    address = f"127.0.0.1:{port}"
    options = () if port is None else (f"--listen={address}",)
    async with bench.registered(side, things(count), root=root, options=options) as plugin:
        if port is not None:
            await asyncio.to_thread(_read, f"http://{address}/metrics")
        await asyncio.sleep(_SETTLE_SECONDS)
        return resident_memory(plugin.process.pid)


def free_port() -> int:
    """Return a port at which nothing listens on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _read(url: str) -> None:
    """Read an answer; the daemon listens a moment after the kubelet has its lists."""
    ends = time.monotonic() + _LISTEN_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=_LISTEN_SECONDS) as answer:
                answer.read()
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.05)
        else:
            return
