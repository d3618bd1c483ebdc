"""Looks in batches: what hangs holds up nothing else, and costs one thread."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from genericdp.health.looks import MOST_AT_ONCE, MOST_HANGING, FileLook, look_at_all
from genericdp.host.workers import in_worker
from tests.polling import ask_until, poll_until

if TYPE_CHECKING:
    from collections.abc import Iterator

R = "example.com/r"


class Stuck:
    """Looks that hang until they are let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.go = threading.Event()
        self.over = threading.Semaphore(0)

    def look(self, what: str) -> FileLook:
        return FileLook(what, self._work)

    def _work(self) -> str:
        self.begun += 1
        self.go.wait()
        self.over.release()
        return ""


@contextmanager
def stuck() -> Iterator[Stuck]:
    made = Stuck()
    try:
        yield made
    finally:
        made.go.set()


def good(what: str) -> FileLook:
    return FileLook(what, lambda: "")


def noting(what: str, ended: list[str]) -> FileLook:
    def work() -> str:
        ended.append(what)
        return ""

    return FileLook(what, work)


async def test_the_outcomes_come_in_the_order_of_the_looks() -> None:
    batch = [FileLook(f"look {n}", lambda n=n: f"{n}" if n % 2 else "") for n in range(9)]  # type: ignore[misc]
    outcomes = await look_at_all(batch, resource=R, timeout_seconds=5)
    assert [(one.ok, one.reason) for one in outcomes] == [
        (n % 2 == 0, f"{n}" if n % 2 else "") for n in range(9)
    ]
    assert all(0 <= one.seconds < 5 for one in outcomes)


async def test_nothing_to_look_at_is_nothing() -> None:
    assert await look_at_all([], resource=R, timeout_seconds=5) == []


async def succeeds(what: str) -> None:
    """Look until that succeeds: a thread that has ended may be counted for a moment."""

    async def look() -> bool:
        [outcome] = await look_at_all([good(what)], resource=R, timeout_seconds=5)
        return outcome.ok

    await ask_until(look, bool, seconds=5)


async def test_one_that_hangs_ends_at_its_timeout_and_the_others_before() -> None:
    """Without another thread after ``PATIENCE_SECONDS`` the last look waits for the first."""
    ended: list[str] = []
    with stuck() as hanging:
        batch = [
            good("first"),
            hanging.look("reading /hangs"),
            noting("last", ended),
        ]
        whole = asyncio.gather(look_at_all(batch, resource=R, timeout_seconds=0.5))
        await poll_until(lambda: ended, seconds=0.4)
        [outcomes] = await whole
    assert [one.reason for one in outcomes] == ["", "reading /hangs does not end", ""]
    assert outcomes[1].seconds >= 0.5


async def test_while_it_hangs_no_other_look_of_its_name_is_begun() -> None:
    with stuck() as hanging:
        for _ in range(3):
            [outcome] = await look_at_all(
                [hanging.look("reading /a")], resource=R, timeout_seconds=0.02
            )
            assert outcome.reason == "reading /a does not end"
        assert hanging.begun == 1
        hanging.go.set()
        await in_worker(lambda: hanging.over.acquire(timeout=5))
        await succeeds("reading /a")


async def test_so_many_threads_and_no_more_hang_in_one_batch_at_once() -> None:
    with stuck() as hanging:
        batch = [hanging.look(f"reading /many/{n}") for n in range(10)]
        outcomes = await look_at_all([*batch, good("last")], resource=R, timeout_seconds=0.3)
        # Given up by four and four and two.
        assert [one.ok for one in outcomes] == [False] * 10 + [True]
        began = sorted(one.began for one in batch if one.began is not None)
        assert began[MOST_AT_ONCE] - began[0] >= 0.25


async def test_a_batch_that_is_canceled_begins_no_more_looks() -> None:
    begun: list[str] = []
    with stuck() as hanging:
        later = [noting("later", begun)]
        batch = asyncio.gather(
            look_at_all([hanging.look("now"), *later], resource=R, timeout_seconds=5)
        )
        await poll_until(lambda: hanging.begun, seconds=5)
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch
    await in_worker(lambda: hanging.over.acquire(timeout=5))
    assert begun == []


SCARCE = """
import asyncio
from genericdp.health.looks import FileLook, look_at_all
from tests.scarcity import start_no_more_threads

async def main():
    start_no_more_threads()
    two = [FileLook(f"reading /{name}", str) for name in "bc"]
    for outcome in await look_at_all(two, resource="r", timeout_seconds=0.2):
        print(outcome.reason)

asyncio.run(main())
"""


def test_where_no_thread_can_be_started_that_is_the_reason() -> None:
    """A batch must not wait for threads that never come.

    In a process of its own: here, threads of other tests may come back and be free at any time.
    """
    done = subprocess.run(
        [sys.executable, "-c", SCARCE], capture_output=True, text=True, timeout=60
    )
    if "is small here" in done.stderr:
        pytest.skip(done.stderr)
    assert done.stdout.splitlines() == [
        "reading /b cannot be begun: no thread can be started",
        "reading /c cannot be begun: no thread can be started",
    ], done.stderr


async def test_a_mistake_of_ours_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await look_at_all([FileLook("wrong", lambda: str(1 // 0))], resource=R, timeout_seconds=5)


async def test_with_many_that_hang_no_more_of_that_resource_are_begun() -> None:
    with stuck() as hanging:
        for start in (0, 100):  # also those that were begun in an earlier batch count
            batch = [hanging.look(f"reading /cap/{start + n}") for n in range(60)]
            outcomes = await look_at_all(batch, resource=R, timeout_seconds=0.02)
            assert not any(one.ok for one in outcomes)
            assert hanging.begun == MOST_HANGING
            assert outcomes[-1].reason == (
                f"reading /cap/{start + 59} cannot be begun: 16 others of {R} do not end"
            )
        [other] = await look_at_all([good("reading /b")], resource="other", timeout_seconds=5)
        assert other.ok
    for _ in range(hanging.begun):
        await in_worker(lambda: hanging.over.acquire(timeout=5))
    await succeeds("reading /c")  # what has ended counts no longer
