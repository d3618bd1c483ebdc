"""Reads that hang: they hold up nothing else, and each costs one thread."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from genericdp.errors import Outcome
from genericdp.health.health import MAX_HANGING, Probes
from genericdp.host.workers import in_worker
from genericdp.process.run import Commands
from tests.polling import ask_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

R = "example.com/r"


class Stuck:
    """Reads that hang until they are let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.go = threading.Event()
        self.over = threading.Semaphore(0)
        self._probes = Probes(Commands().run)

    def hang(self) -> Outcome:
        self.begun += 1
        self.go.wait()
        self.over.release()
        return Outcome()

    async def run(
        self,
        what: str,
        read: Callable[[], Outcome] = Outcome,
        *,
        resource: str = R,
        seconds: float = 5.0,
    ) -> Outcome:
        return await self._probes.run_in_thread(
            what, read, resource=resource, timeout_seconds=seconds
        )

    async def succeeds(self, what: str) -> None:
        """Run until that succeeds: a thread that has ended may be counted for a moment."""

        async def run() -> bool:
            return (await self.run(what)).ok

        await ask_until(run, bool)


@contextmanager
def stuck() -> Iterator[Stuck]:
    made = Stuck()
    try:
        yield made
    finally:
        made.go.set()


async def test_while_it_hangs_no_other_read_of_its_name_is_begun() -> None:
    with stuck() as hanging:
        for _ in range(3):
            outcome = await hanging.run("reading /a", hanging.hang, seconds=0.02)
            assert outcome.reason == "reading /a does not end"
        assert hanging.begun == 1
        hanging.go.set()
        await in_worker(lambda: hanging.over.acquire(timeout=5))
        await hanging.succeeds("reading /a")


SCARCE = """
import asyncio
from genericdp.health.health import Probes
from genericdp.errors import Outcome
from genericdp.process.run import Commands
from tests.resource_limits import start_no_more_threads

async def main():
    start_no_more_threads()
    probes = Probes(Commands().run)
    outcome = await probes.run_in_thread("reading /b", Outcome, resource="r", timeout_seconds=0.2)
    print(outcome.reason)

asyncio.run(main())
"""


def test_where_no_thread_can_be_started_that_is_the_reason() -> None:
    """It must not wait for a thread that never comes.

    In a process of its own: here, threads of other tests may come back and be free at any time.
    """
    done = subprocess.run(
        [sys.executable, "-c", SCARCE], capture_output=True, text=True, timeout=60
    )
    if "is small here" in done.stderr:
        pytest.skip(done.stderr)
    assert done.stdout.splitlines() == [
        "reading /b cannot be begun: no thread can be started",
    ], done.stderr


async def test_a_mistake_of_ours_is_raised() -> None:
    with stuck() as none, pytest.raises(ZeroDivisionError):
        await none.run("wrong", lambda: Outcome(seconds=1 // 0))


async def test_with_many_that_hang_no_more_of_that_resource_are_begun() -> None:
    with stuck() as hanging:
        names = [f"reading /many/{n}" for n in range(60)]
        outcomes = [await hanging.run(one, hanging.hang, seconds=0.02) for one in names]
        assert not any(one.ok for one in outcomes)
        assert hanging.begun == MAX_HANGING
        assert outcomes[-1].reason == (
            f"reading /many/59 cannot be begun: 16 others of {R} do not end"
        )
        assert (await hanging.run("reading /b", resource="example.com/other")).ok
        hanging.go.set()
        for _ in range(hanging.begun):
            await in_worker(lambda: hanging.over.acquire(timeout=5))
        await hanging.succeeds("reading /c")  # what has ended counts no longer
