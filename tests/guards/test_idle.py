"""What the daemon does while nothing happens, counted as calls of the kernel.

What only waits is counted apart: each event in a folder on the way to the config wakes it, and
gRPC's timers wake more of its threads the busier the machine is.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.guards.running import Process, at_rest

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 32
"""One full look at all devices lies in it, two at most."""
WAITING = {"epoll_wait", "epoll_pwait", "futex", "read", "restart_syscall", "getpid"}
"""gRPC asks for its process id whenever it waits."""
MOST_CALLS = 200
"""That are no waiting, with one resource; there were 128."""
MOST_CALLS_EACH = 60
"""More for each further resource; there were 26 in one full look."""
MOST_TURNS = 150
"""Turns of event loops, ours and gRPC's, for which no event was read; there were 33 at most."""
MOST_SWITCHES = 2_000
"""How often any thread waited for something; there were 490, gRPC's timers most of them."""
RESOURCES = 20
"""Resources of the second daemon."""


async def calls(process: Process, table: Path) -> Counter[str]:
    """Count the calls of the kernel of all threads meanwhile; skips where that is not possible."""
    if shutil.which("strace") is None:
        pytest.skip("there is no strace")
    pid = str(process.pid)
    strace = await asyncio.create_subprocess_exec(
        *("strace", "-f", "-c", "-qq", "-o", table, "-p", pid), stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(SECONDS):
            await strace.wait()
        pytest.skip("strace may not attach to other processes here")
    except TimeoutError:
        strace.send_signal(signal.SIGINT)
        await strace.communicate()
    rows = (line.split() for line in table.read_text().splitlines())
    # Share, seconds, each, calls, (errors,) name.
    found = {row[-1]: int(row[3]) for row in rows if len(row) >= 5 and row[3].isdigit()}
    return Counter({name: count for name, count in found.items() if name != "total"})


async def test_it_looks_at_what_it_must_and_rests(short_folder: Path) -> None:
    """Bites if the kubelet's folder is looked at each second, or everything every 5 s."""
    async with (
        at_rest(short_folder / "1", 1) as one,
        at_rest(short_folder / "many", RESOURCES) as many,
        asyncio.TaskGroup() as tasks,
    ):
        counting = [
            tasks.create_task(calls(process, short_folder / f"{process.pid}"))
            for process in (one, many)
        ]
    few, more = (task.result() for task in counting)
    worked, worked_more = (sum(one.values()) - waited(one) for one in (few, more))
    assert worked <= MOST_CALLS, few
    assert (worked_more - worked) / (RESOURCES - 1) <= MOST_CALLS_EACH, more
    for found in (few, more):
        assert found["epoll_wait"] + found["epoll_pwait"] - found["read"] <= MOST_TURNS, found


def waited(found: Counter[str]) -> int:
    return sum(found[name] for name in WAITING)


async def test_its_threads_hardly_wake(short_folder: Path) -> None:
    async with at_rest(short_folder / "1", 1) as process:
        before = process.switches()
        await asyncio.sleep(SECONDS)
        after = process.switches()
        assert after - before <= MOST_SWITCHES
