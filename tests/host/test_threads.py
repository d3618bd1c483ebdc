"""Work off the loop, in threads that never hold up the exit."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from genericdp.host.threads import in_daemon_thread, start_daemon_thread


async def test_the_result_comes_back_from_a_daemon_thread() -> None:
    thread = await in_daemon_thread(threading.current_thread, name="look")
    assert (thread.name, thread.daemon) == ("look", True)
    assert thread is not threading.current_thread()


async def test_an_exception_is_raised_where_it_is_waited_for() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_daemon_thread(lambda: 1 // 0, name="fail")


@pytest.mark.parametrize("fails", [False, True])
async def test_what_ends_after_nobody_waits_any_more_is_dropped(fails: bool) -> None:
    gate, ended = threading.Event(), threading.Event()

    def work() -> None:
        gate.wait()
        threading.Thread(target=ended.set).start()
        if fails:
            raise ValueError

    future = start_daemon_thread(work, name="late")
    future.cancel()
    gate.set()
    await in_daemon_thread(ended.wait, name="end")
    await in_daemon_thread(lambda: None, name="after")  # its delivery comes behind the other
    assert future.cancelled()


def test_a_thread_that_ends_after_the_loop_is_closed_is_silent() -> None:
    gate = threading.Event()
    threads: list[threading.Thread] = []

    def work() -> None:
        threads.append(threading.current_thread())
        gate.wait()

    async def leave() -> None:
        future = start_daemon_thread(work, name="late")
        future.cancel()

    asyncio.run(leave())
    gate.set()
    for thread in threads:
        thread.join()  # an exception in it would be a warning, which fails the test


def test_a_thread_that_never_ends_does_not_hold_up_the_exit() -> None:
    program = (
        "import asyncio, threading\n"
        "from genericdp.host.threads import start_daemon_thread\n"
        "async def main():\n"
        "    start_daemon_thread(threading.Event().wait, name='hang')\n"
        "asyncio.run(main())\n"
        "print('left')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True
    )
    assert (done.stdout, done.stderr) == ("left\n", "")
