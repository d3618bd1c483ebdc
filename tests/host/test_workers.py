"""Threads that are used again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest
from genericdp.host.workers import MAX_IDLE, finish, in_worker

from tests.polling import others_run, poll_until

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO


async def test_work_goes_on_where_the_working_directory_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = tmp_path / "removed"
    removed.mkdir()
    monkeypatch.chdir(removed)
    removed.rmdir()
    assert await in_worker(partial(os.path.exists, tmp_path), str(tmp_path))


async def test_one_look_after_the_other_does_not_start_a_thread_for_each() -> None:
    seen = {await in_worker(threading.current_thread) for _ in range(100)}
    assert len(seen) <= MAX_IDLE + 1


async def test_one_that_hangs_does_not_hold_up_the_next() -> None:
    release = threading.Event()
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await in_worker(release.wait)
        async with asyncio.timeout(60):
            assert await in_worker(lambda: "next") == "next"
    finally:
        release.set()


async def test_many_at_once_all_run_and_few_threads_stay() -> None:
    together = threading.Barrier(20)
    async with asyncio.timeout(60):
        await asyncio.gather(*(in_worker(together.wait) for _ in range(20)))
        await poll_until(
            lambda: sum(entry.name == "worker" for entry in threading.enumerate()) <= MAX_IDLE + 1
        )


def test_a_loop_that_is_closed_meanwhile_is_no_trouble() -> None:
    release, ran = threading.Event(), threading.Event()

    def work() -> None:
        release.wait()
        ran.set()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await in_worker(work)

    asyncio.run(give_up())
    release.set()
    assert ran.wait(5)
    assert asyncio.run(in_worker(lambda: 1)) == 1


SCARCE = """
import asyncio, logging, resource
from genericdp.host.workers import in_worker
from tests.resource_limits import start_no_more_threads
logging.basicConfig(level="INFO", format="%(message)s")

async def main():
    hard = start_no_more_threads()
    tasks = [asyncio.ensure_future(in_worker(lambda one=one: one)) for one in range(3)]
    tasks[0].cancel()
    await asyncio.sleep(0.1)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    print(await asyncio.gather(*tasks[1:]))

asyncio.run(main())
"""


def test_without_a_thread_it_waits_for_better_times() -> None:
    """A limit of the pod must not end the daemon."""
    done = subprocess.run(
        [sys.executable, "-c", SCARCE], capture_output=True, text=True, timeout=20
    )
    if "is small here" in done.stderr:
        pytest.skip(done.stderr)
    assert (done.stdout, done.returncode) == ("[1, 2]\n", 0), done.stderr
    first, last = done.stderr.splitlines()
    assert first.startswith("no thread can be started: reads of the host wait")
    assert last == "threads can be started again"


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("what", ["", "a pipe"])
async def test_a_file_that_nobody_waits_for_any_more_is_closed(what: str, is_late: bool) -> None:
    """The descriptor would be lost, and with it a lock."""
    loop = asyncio.get_running_loop()

    async def open_and_cancel() -> None:
        cancel = asyncio.current_task().cancel  # type: ignore[union-attr]

        def work() -> BinaryIO:
            # The loop may learn of the cancellation before it learns of the end, or after.
            loop.call_soon_threadsafe(partial(loop.call_soon, cancel) if is_late else cancel)
            return os.fdopen(writer, "wb", buffering=0)

        with await in_worker(work, what):
            pass

    for _ in range(50):
        reader, writer = os.pipe()
        await asyncio.gather(open_and_cancel(), return_exceptions=True)
        assert await in_worker(partial(os.read, reader, 1)) == b"", "the other end is closed"
        os.close(reader)


async def test_what_must_not_be_left_half_done_is_finished_though_canceled_repeatedly() -> None:
    gate, has_begun, done = asyncio.Event(), asyncio.Event(), []

    async def work() -> None:
        has_begun.set()
        await gate.wait()
        done.append("work")

    async def call() -> None:
        try:
            await finish(work())
        finally:
            done.append("caller")

    async with asyncio.TaskGroup() as tasks:
        calling = tasks.create_task(call())
        await has_begun.wait()
        for _ in range(3):
            calling.cancel()
            await others_run()
        gate.set()
    assert done == ["work", "caller"]
    assert calling.cancelled()
