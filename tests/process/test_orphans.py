"""Orphans of commands, whose parent becomes this process."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.process.run import Commands

from tests.polling import others_run, poll_until
from tests.process.scripts import children, is_alive, shell

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ESCAPE = "env -i setsid sh -c 'sleep 60 & sleep 60' >/dev/null 2>&1 &"
"""Leaves three processes in a session and an environment of their own."""


@pytest.fixture
async def commands() -> AsyncIterator[Commands]:
    async with Commands() as commands:
        yield commands
        await poll_until(lambda: not children())


async def pids_in(file: Path, count: int) -> list[int]:
    """Wait until this many processes have said which they are."""
    await poll_until(lambda: file.exists() and file.read_text().count("\n") >= count)
    return [int(entry) for entry in file.read_text().split()]


async def test_an_orphan_is_killed_once_no_command_runs_that_may_have_started_it(
    commands: Commands, tmp_path: Path
) -> None:
    file = f"{tmp_path}/NAME"
    orphan = (
        f"(setsid sh -c 'echo $$ > {file}; exec sleep 60' >/dev/null 2>&1 &);"
        f"until [ -s {file} ]; do sleep 0.01; done;"
    )
    async with asyncio.TaskGroup() as tasks:
        older = orphan.replace("NAME", "of_older") + "exec sleep 60"
        running = tasks.create_task(shell(commands, older, timeout_seconds=60))
        (of_older,) = await pids_in(tmp_path / "of_older", 1)
        await asyncio.sleep(0.02)  # noqa: TID251 -- start times are reported in hundredths of a second
        assert (await shell(commands, orphan.replace("NAME", "of_newer") + "exit 0")).ok
        (of_newer,) = await pids_in(tmp_path / "of_newer", 1)
        assert (await shell(commands, "exit 0")).ok
        assert is_alive(of_older)
        assert is_alive(of_newer)
        running.cancel()
    assert not is_alive(of_older)
    assert not is_alive(of_newer)


async def test_what_stays_in_its_session_ends_with_a_command_whatever_else_runs(
    commands: Commands, tmp_path: Path
) -> None:
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(shell(commands, f"echo > {tmp_path}/on; sleep 60"))
        await poll_until((tmp_path / "on").exists)
        # As a shell does with job control: a process group of its own, in the same session.
        job = "import os; os.fork() or (os.setpgid(0, 0), os.execlp('sleep', 'sleep', '60'))"
        script = f'{sys.executable} -ISc "{job}" >/dev/null 2>&1; sleep 60 & sleep 60 & exit 3'
        assert (await shell(commands, script)).reason == "exited with 3"
        assert len(children()) == 1
        running.cancel()


async def test_what_commands_leave_behind_does_not_pile_up_beside_a_long_one(
    commands: Commands, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(shell(commands, "exec sleep 60"))
        script = "for i in $(seq 40); do (setsid sleep 60 >/dev/null 2>&1 &); done; sleep 0.1"
        for _ in range(2):
            assert (await shell(commands, script)).ok
        await poll_until(lambda: len(children()) <= 64)
        assert not running.done()
        running.cancel()
    assert "all are killed" in caplog.text


async def test_orphans_that_die_are_reaped_while_their_command_runs(commands: Commands) -> None:
    async with asyncio.TaskGroup() as tasks:
        script = "for i in 1 2 3 4 5; do (setsid sleep 0.01 &); done; exec sleep 60"
        running = tasks.create_task(shell(commands, script))
        await poll_until(lambda: len(children()) > 1)
        await poll_until(lambda: len(children()) == 1)
        assert not running.done()
        running.cancel()


async def test_other_children_of_this_process_are_left_alone(commands: Commands) -> None:
    with subprocess.Popen(["/bin/sh", "-c", "exit 7"]) as other:
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert (await shell(commands, "exit 0")).ok
        assert other.wait() == 7
    with subprocess.Popen(["sleep", "60"], process_group=0) as other:
        assert (await shell(commands, "exit 0")).ok
        assert other.poll() is None
        other.kill()


async def test_a_run_that_is_canceled_twice_leaves_nothing(
    commands: Commands, tmp_path: Path
) -> None:
    async with asyncio.TaskGroup() as tasks:
        script = f"{ESCAPE} echo > {tmp_path}/on; sleep 60"
        running = tasks.create_task(shell(commands, script))
        await poll_until((tmp_path / "on").exists)
        for _ in range(2):
            running.cancel()
            await others_run()
    assert running.cancelled()
    await poll_until(lambda: not children())


async def test_what_is_left_at_the_end_is_ended(tmp_path: Path) -> None:
    async with asyncio.TaskGroup() as tasks:
        async with Commands() as commands:
            # No one waits for it: gRPC does not wait for the calls that it cancels.
            script = f"trap '' TERM; {ESCAPE} echo > {tmp_path}/on; sleep 60"
            running = tasks.create_task(shell(commands, script))
            await poll_until((tmp_path / "on").exists)
        assert children() == []
        assert (await running).reason == "killed by SIGKILL"


async def test_nothing_is_swept_after_the_end() -> None:
    async with Commands():
        os.kill(os.getpid(), signal.SIGCHLD)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
        await asyncio.sleep(0.2)  # noqa: TID251 -- a sweep would come after 0.05 s
        assert other.poll() is None
        other.kill()


async def test_without_proc_children_orphans_are_found_among_all_processes(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel without CONFIG_PROC_CHILDREN."""
    read_text = Path.read_text

    def refuse(path: Path, *arguments: str) -> str:
        if path.name == "children":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return read_text(path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", refuse)
        assert (await shell(commands, f"{ESCAPE} exit 5")).reason == "exited with 5"
    await poll_until(lambda: children() == [])  # one that was just being forked goes a sweep later


LIMITED = """
import asyncio
from genericdp.process.run import Commands

SCRIPT = '''
    until [ "$(cat /proc/$$/oom_score_adj)" = 1000 ]; do :; done  # set last
    nice; ulimit -n; ulimit -c
'''

async def main():
    async with Commands() as commands:
        end = await commands.run(["/bin/sh", "-c", SCRIPT], {"PATH": "/bin"}, timeout_seconds=9)
    print(end.output.split())

asyncio.run(main())
"""


def test_limits_are_never_raised() -> None:
    limited = ["sh", "-c", 'ulimit -n 500; exec "$@"', "sh", sys.executable, "-c", LIMITED]
    done = subprocess.run(limited, capture_output=True, text=True, check=True, env=environment())
    nice = min(19, os.nice(0) + 10)  # these tests may themselves be run by nice
    assert done.stdout == f"{[str(nice), '500', '0']}\n"


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


PID_1 = """
import asyncio, subprocess
from genericdp.process.run import Commands
from tests.polling import poll_until
from tests.process.scripts import children, shell

async def main():
    # As what an ended `kubectl exec` leaves: in a session of its own, not from a command.
    left = "(setsid sleep 0.2 >/dev/null &) ; (setsid sleep 60 >/dev/null &)"
    async with Commands() as commands:
        subprocess.run(["setsid", "-w", "sh", "-c", left])
        # The dead are reaped, whether or not commands run.
        await poll_until(lambda: len(children()) < 2)
        end = await shell(commands, "(setsid sleep 60 &); exit 3")
        assert end.reason == "exited with 3", end
        await poll_until(lambda: not children())
    print("done")

asyncio.run(main())
"""


def test_as_pid_1_nothing_that_dies_stays_a_zombie(tmp_path: Path) -> None:
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
        env=environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
