"""Time jumps over what is only waited for, and stands still while anything is in flight."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest

from genericdp.host.workers import in_worker
from tests.day.clock import Clock, StuckError, VirtualLoop
from tests.day.quiet import Threads, is_quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


def lived(work: Callable[[Clock], Coroutine[None, None, None]], stuck_seconds: float = 60) -> Clock:
    """Run something on a virtual loop; gives its clock."""
    clock = Clock()
    with closing(Threads()) as threads:
        make = partial(VirtualLoop, clock, partial(is_quiet, threads), stuck_seconds)
        with asyncio.Runner(loop_factory=make) as runner:
            runner.run(work(clock))
    return clock


def test_a_day_of_sleep_takes_no_time() -> None:
    begun = time.monotonic()

    async def sleep(clock: Clock) -> None:
        before = clock.now
        await asyncio.sleep(86400)
        assert clock.now - before == pytest.approx(86400, abs=0.01)

    assert lived(sleep).jumps == 1
    assert time.monotonic() - begun < 3600


@pytest.mark.parametrize("sleeps", [False, True])
def test_no_timer_fires_while_a_thread_works(sleeps: bool) -> None:
    async def work(clock: Clock) -> None:
        def spin() -> None:
            until = time.monotonic() + 0.2
            while time.monotonic() < until:
                if sleeps:
                    time.sleep(0.05)

        before = clock.now
        async with asyncio.timeout(1):
            await in_worker(spin)
        assert clock.now == before

    lived(work)


def test_no_timer_fires_while_a_child_runs() -> None:
    async def work(clock: Clock) -> None:
        before = clock.now
        async with asyncio.timeout(0.1):
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", "import time; time.sleep(0.5)")
            )
            assert await child.wait() == 0
        assert clock.now == before

    lived(work)


def test_what_waits_until_a_moment_finds_it_past() -> None:
    """However the sum was rounded: else a loop that sleeps for the rest spins for ever."""

    async def work(clock: Clock) -> None:
        loop = asyncio.get_running_loop()
        for number in range(1000):
            due = loop.time() + number / 7
            await asyncio.sleep(due - loop.time())
            assert loop.time() >= due

    lived(work)


def test_what_never_comes_is_told() -> None:
    async def work(clock: Clock) -> None:
        await asyncio.Event().wait()

    with pytest.raises(StuckError):
        lived(work, stuck_seconds=0.1)


def test_a_thread_that_waits_for_pythons_lock_does_not_count_as_asleep() -> None:
    """The one-line change that brings it back: look at states only once, without the turns."""
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        with closing(Threads()) as threads:
            assert not any(threads.all_sleep() for _ in range(200))
    finally:
        stop.set()
        thread.join()
