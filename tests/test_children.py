"""Real processes; each test runs contained, as the daemon does."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from genericdp import children, processes
from tests.polling import poll_until
from tests.scarcity import spare_descriptors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

DEVNULL = asyncio.subprocess.DEVNULL
ESCAPE = "env -i setsid sh -c 'sleep 60 & sleep 60' >/dev/null 2>&1 &"
"""Leaves two processes in a session and an environment of their own."""


@pytest.fixture
async def contained() -> AsyncIterator[None]:
    with children.contain():
        yield
        async with asyncio.timeout(10):  # for ever if it still waits for one to be spawned
            await children.end_all()
    assert processes.own_children() == []


async def shell(script: str, **env: str) -> children.Child:
    return await children.spawn(
        ["/bin/sh", "-c", script], env={"PATH": os.defpath, **env}, stdout=DEVNULL, stderr=DEVNULL
    )


def marked(child: children.Child) -> list[int]:
    """All that is left of a child, dead ones too."""
    everyone = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()]
    return [pid for pid in everyone if processes.mark_of(pid) == child.mark]


async def until(holds: Callable[[], object]) -> None:
    await poll_until(holds, seconds=10)


@pytest.mark.usefixtures("contained")
async def test_what_a_child_left_behind_is_killed_when_it_ended() -> None:
    child = await shell(f"{ESCAPE} exit 3")
    assert await child.process.wait() == 3
    assert await children.end(child)
    assert marked(child) == []


@pytest.mark.usefixtures("contained")
async def test_a_running_child_is_killed_with_all_that_it_started() -> None:
    child = await shell(f"trap '' TERM INT HUP; {ESCAPE} setsid sleep 60 & sleep 60")
    await until(lambda: len(marked(child)) >= 5)
    assert await children.end(child)
    assert child.process.returncode == -signal.SIGKILL
    assert marked(child) == []


async def test_without_containment_a_child_is_killed_with_all_that_it_started_too() -> None:
    child = await shell(f"{ESCAPE} sleep 60")
    await until(lambda: len(marked(child)) >= 4)
    assert await children.end(child)
    assert all(map(processes.is_dead, marked(child)))  # init reaps


@pytest.mark.usefixtures("contained")
async def test_what_a_running_child_left_to_us_is_spared_until_that_ends() -> None:
    one = await shell("(sleep 60 &); (env -i setsid sleep 60 &); exec sleep 60")
    await until(lambda: len(processes.own_children()) == len(marked(one)) == 3)
    other = await shell(f"{ESCAPE} exit 0")
    await other.process.wait()
    assert await children.end(other)
    assert len([pid for pid in marked(one) if not processes.is_dead(pid)]) == 3
    assert await children.end(one)
    assert marked(one) == []


@pytest.mark.usefixtures("contained")
async def test_orphans_that_die_are_reaped_while_their_command_runs() -> None:
    child = await shell("for i in 1 2 3 4 5; do (setsid sleep 0.01 &); done; exec sleep 60")
    await until(lambda: len(processes.own_children()) > 1)
    await until(lambda: processes.own_children() == [child.process.pid])
    assert child.process.returncode is None
    assert await children.end(child)


@pytest.mark.usefixtures("contained")
async def test_a_child_that_asyncio_waits_for_is_never_reaped_here() -> None:
    """Bites if every dead child is reaped, whoever waits for it: codes become 255."""
    ended = await shell("exit 0")
    await ended.process.wait()

    async def run(code: int) -> int:
        child = await shell(f"(setsid sleep 0.01 &) ; exit {code}")
        try:
            return await child.process.wait()
        finally:
            await children.end(child)

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(run(code)) for code in range(60)]
        while not all(task.done() for task in running):
            assert not children.lingers(ended)
            await asyncio.sleep(0)
    assert [task.result() for task in running] == list(range(60))
    await until(lambda: processes.own_children() == [])


@pytest.mark.usefixtures("contained")
async def test_other_children_of_this_process_are_left_alone() -> None:
    ended = await shell("exit 0")
    await ended.process.wait()
    with subprocess.Popen(["/bin/sh", "-c", "exit 7"]) as other:
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert not children.lingers(ended)
        assert other.wait() == 7
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
        assert not children.lingers(ended)
        assert other.poll() is None
        other.kill()


@pytest.mark.usefixtures("contained")
async def test_a_cancelled_end_still_ends_everything_first() -> None:
    child = await shell(f"{ESCAPE} sleep 60")
    await until(lambda: len(marked(child)) >= 4)
    async with asyncio.TaskGroup() as tasks:
        ending = tasks.create_task(children.end(child))
        await asyncio.sleep(0)
        ending.cancel()
        await asyncio.sleep(0)
        ending.cancel()
    assert ending.cancelled()
    assert marked(child) == []


@pytest.mark.usefixtures("contained")
async def test_a_cancelled_spawn_leaves_nothing() -> None:
    async with asyncio.TaskGroup() as tasks:
        spawning = tasks.create_task(shell(f"{ESCAPE} sleep 60"))
        await asyncio.sleep(0)
        spawning.cancel()
    assert spawning.cancelled()
    assert processes.own_children() == []


@pytest.mark.usefixtures("contained")
async def test_a_program_that_is_not_there_is_an_error_and_nothing_is_left() -> None:
    with pytest.raises(FileNotFoundError):
        await children.spawn(["/no/such"], env={}, stdout=DEVNULL, stderr=DEVNULL)


@pytest.mark.usefixtures("contained")
async def test_children_gain_no_privileges_and_have_a_session_of_their_own(tmp_path: Path) -> None:
    script = "grep NoNewPrivs /proc/self/status; cut -d' ' -f6 /proc/$$/stat; echo $$; cat"
    with (tmp_path / "out").open("wb") as out:
        child = await children.spawn(
            ["/bin/sh", "-c", script], env={"PATH": os.defpath}, stdout=out.fileno(), stderr=DEVNULL
        )
        assert await child.process.wait() == 0
    await children.end(child)
    _, privileges, session, own = (tmp_path / "out").read_text().split()
    assert (privileges, session) == ("1", own)


@pytest.mark.usefixtures("contained")
async def test_neither_threads_nor_descriptors_remain() -> None:
    async def once() -> None:
        child = await shell(f"{ESCAPE} exit 0")
        await child.process.wait()
        await children.end(child)

    await once()
    before = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        await once()
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == before


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="asyncio chooses by itself")
async def test_a_kernel_without_pidfds_costs_threads_but_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with children.contain():
        child = await shell(f"{ESCAPE} exit 5")
        assert await child.process.wait() == 5
        assert await children.end(child)
        assert marked(child) == []


PID_1 = """
import asyncio, os, subprocess, sys
from genericdp import children, processes
from tests.scarcity import spare_descriptors
from genericdp.health.commands import run

async def main():
    # As what an ended `kubectl exec` leaves: in a session of its own, not from a command.
    left = "(setsid sleep 0.2 >/dev/null & echo $! ; setsid sleep 60 >/dev/null & echo $!)"
    with children.contain():
        foreign = subprocess.run(["setsid", "-w", "sh", "-c", left], stdout=-1, text=True)
        short, long = map(int, foreign.stdout.split())
        assert processes.parent_of(long) == os.getpid() == 1
        for code in range(5):
            outcome = await run(
                ["/bin/sh", "-c", f"(setsid sleep 60 &); exit {code}"],
                {"PATH": os.defpath}, timeout_seconds=5,
            )
            assert outcome.reason == (f"exited with {code}" if code else ""), outcome
        while processes.parent_of(short) is not None:
            await asyncio.sleep(0.01)
        assert processes.own_children() == [long], processes.own_children()
        assert not processes.is_dead(long)
    print("done")

asyncio.run(main())
"""


def test_as_pid_1_the_dead_are_reaped_and_strangers_live(tmp_path: Path) -> None:
    namespace = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if os.getuid() != 0:
        namespace.insert(1, "--map-root-user")
    try:
        subprocess.run([*namespace, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no PID namespace can be made here: {error}")
    (tmp_path / "pid_1.py").write_text(PID_1)
    done = subprocess.run(
        [*namespace, sys.executable, tmp_path / "pid_1.py"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


@pytest.mark.usefixtures("contained")
async def test_without_descriptors_no_child_is_spawned_and_none_is_left() -> None:
    spawned = 0
    for count in range(12):
        with spare_descriptors(count):
            try:
                child = await shell("exec sleep 60")
            except OSError as error:
                assert error.errno == errno.EMFILE
            else:
                spawned += 1
                assert await children.end(child)
        assert processes.own_children() == []
    assert 0 < spawned < 12


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(not processes.have_pidfds(), reason="the kernel has no pidfds")
@pytest.mark.usefixtures("contained")
async def test_a_child_that_cannot_be_waited_for_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last descriptor may be somebody else's by then: the child runs already."""

    def scarce(pid: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", scarce)
        with pytest.raises(OSError, match="Too many open files") as caught:
            await shell("exec sleep 60")
    assert processes.own_children() == []
    del caught
    gc.collect()
