"""Commands that do what no probe should, each with the daemon's own means to contain it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.process.run import Commands

from tests.polling import ask_until, poll_until
from tests.process.cgroups import cgroup, freezer
from tests.process.scripts import ENV, children, held, resident, shell

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
PYTHON = [sys.executable, "-ISc"]

FORKS_128 = "import os, time\nfor _ in range(7): os.fork()\ntime.sleep(60)"
TOO_LONG, HANGS = "took longer than 0.2 s", "its last run still hangs in the kernel"
FORKS_128_SESSIONS = (
    "import os, time\n"
    "for _ in range(7):\n"
    "    if os.fork() == 0: os.setsid()\n"
    "os.execve('/bin/sleep', ['sleep', '60'], {})"
)


@pytest.fixture
async def commands() -> AsyncIterator[Commands]:
    """Whatever a command does: memory, threads, descriptors and children stay as they were."""
    async with Commands() as commands:
        await shell(commands, "exit 0")  # opens what is kept open
        before, memory = held(), resident()
        yield commands
        assert children() == []
        assert held() == before
        assert resident() < memory + 8 * MIB


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("trap '' TERM INT HUP QUIT; while :; do sleep 60; done", "took longer than 0.5 s"),
        ("yes", "took longer than 0.5 s: y"),
        ("cat; exit 1", "exited with 1"),
        ("exec 2>&1; cat /dev/tty; exit 1", "exited with 1: cat: /dev/tty: No such device or addr"),
        ("head -c 300000 /dev/zero; exit 1", "exited with 1: \\x00\\x00"),
        (
            "echo again; setsid sh -c 'while :; do echo again; done' & exit 1",
            "exited with 1: again",
        ),
        ("sh -c '(setsid sleep 60 &)'; exit 1", "exited with 1"),
        ("env -i setsid -f sleep 60 >/dev/null 2>&1 </dev/null; exit 1", "exited with 1"),
        ("ulimit -x 5; setsid -f sleep 60; exit 1", "exited with 1"),
        ("kill -STOP $$", "took longer than 0.5 s"),
        ("setsid -f sh -c 'kill -STOP $$'; exit 1", "exited with 1"),
        ("kill -ABRT $$", "killed by SIGABRT"),
    ],
)
async def test_a_command_that_misbehaves_is_contained(
    commands: Commands, script: str, reason: str
) -> None:
    ends_itself = not reason.startswith("took longer")
    begin = time.monotonic()
    outcome = await shell(commands, script, timeout_seconds=30 if ends_itself else 0.5)
    assert not outcome.ok
    assert outcome.reason.startswith(reason)
    assert len(outcome.reason) < 250
    assert time.monotonic() - begin < 30


async def test_of_very_much_output_the_ends_are_kept_and_the_loop_goes_on(
    commands: Commands,
) -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)  # noqa: TID251 -- counts turns of the loop
            turns += 1

    script = "echo first; head -c 16M /dev/zero | tr '\\0' x; echo; echo last; exit 1"
    async with asyncio.TaskGroup() as tasks:
        turning = tasks.create_task(turn())
        outcome = await shell(commands, script, timeout_seconds=120)
        turning.cancel()
    assert outcome.reason == "exited with 1: last"
    assert outcome.output.startswith("first\nxxx")
    assert len(outcome.output) < 70_000
    assert turns > 100 * outcome.seconds


async def test_a_command_that_writes_without_end_is_read_slowly(commands: Commands) -> None:
    """It cost half a core until its timeout."""
    outcome = await shell(commands, "yes", timeout_seconds=1)
    (left_out,) = re.findall(r"\[(\d+) bytes left out\]", outcome.output)
    assert int(left_out) < 16 * MIB


@pytest.mark.parametrize("script", [FORKS_128, FORKS_128_SESSIONS])
async def test_a_hundred_processes_are_killed_at_the_timeout(
    commands: Commands, script: str
) -> None:
    outcome = await commands.run([*PYTHON, script], ENV, timeout_seconds=1)
    assert outcome.reason == "took longer than 1 s"


async def test_a_hundred_processes_are_killed_when_their_first_one_exits(
    commands: Commands,
) -> None:
    script = f"import os\nif os.fork(): os._exit(3)\n{FORKS_128_SESSIONS}"
    outcome = await commands.run([*PYTHON, script], ENV, timeout_seconds=10)
    assert outcome.reason == "exited with 3"


async def test_processes_that_start_another_and_exit_are_caught(
    commands: Commands, tmp_path: Path
) -> None:
    chain = tmp_path / "chain"
    chain.write_text('#!/bin/sh\nsetsid "$0" &\n')
    chain.chmod(0o755)
    assert (await commands.run([str(chain)], ENV, timeout_seconds=10)).ok


async def test_what_cannot_be_killed_is_not_started_again(commands: Commands) -> None:
    with freezer() as frozen:
        script = f"echo $$ > {frozen}/cgroup.procs; echo FROZEN > {frozen}/freezer.state; sleep 60"
        assert (await shell(commands, script, timeout_seconds=0.2)).reason == TOO_LONG
        # Where the machine is slow, it may have been killed before it froze: then it runs again.
        outcome = await ask_until(
            lambda: shell(commands, script, timeout_seconds=0.2),
            lambda outcome: outcome.reason != TOO_LONG,
        )
        assert outcome.reason == HANGS
        assert (await shell(commands, "exit 0")).ok
        (frozen / "freezer.state").write_text("THAWED")
        # It is reaped some time after it can be killed.
        again = await ask_until(
            lambda: shell(commands, script, timeout_seconds=0.2),
            lambda outcome: outcome.reason != HANGS,
        )
        assert again.reason == TOO_LONG
        (frozen / "freezer.state").write_text("THAWED")
        await poll_until(lambda: not children())


async def test_an_orphan_that_cannot_be_killed_does_not_make_its_command_hang(
    commands: Commands,
) -> None:
    with freezer() as frozen:
        orphan = f"echo $$ > {frozen}/cgroup.procs; sleep 60"
        script = (
            f"setsid sh -c '{orphan}' > /dev/null 2>&1 &"
            f" until grep -q . {frozen}/cgroup.procs; do sleep 0.01; done;"
            f" echo FROZEN > {frozen}/freezer.state"
        )
        assert (await shell(commands, script)).ok
        assert (await shell(commands, "exit 0")).ok
        assert (await shell(commands, script)).ok
        (frozen / "freezer.state").write_text("THAWED")
        await poll_until(lambda: not children())


BOMBED = """
import asyncio, sys
from genericdp.process.run import Commands
from tests.process.scripts import children, held, resident

ENV = {"PATH": "/usr/bin:/bin"}
BOMB = "import os, time\\nwhile True:\\n try: os.fork() or os.setsid()\\n except OSError: pass"
OTHER = ["/bin/sh", "-c", "exit 0"]

async def main():
    async with Commands() as commands:
        assert (await commands.run(OTHER, ENV, timeout_seconds=9)).ok
        before, memory = held(), resident()
        full = "Resource temporarily unavailable (a limit on processes is reached)"
        reasons = set()
        # On a busy machine a bomb, which is nice, may not have filled all its room in time.
        while f"cannot be started: {full}" not in reasons:
            async with asyncio.TaskGroup() as tasks:
                bombing = commands.run([sys.executable, "-ISc", BOMB], ENV, timeout_seconds=1)
                bomb = tasks.create_task(bombing)
                while not bomb.done():
                    reasons.add((await commands.run(OTHER, ENV, timeout_seconds=9)).reason)
                    await asyncio.sleep(0.01)
            assert bomb.result().reason == "took longer than 1 s", bomb.result()
            async with asyncio.timeout(60):
                while children():  # the last dead are reaped by a sweep
                    await asyncio.sleep(0.01)
        assert (await commands.run(OTHER, ENV, timeout_seconds=9)).ok
        assert held() == before
        assert resident() < memory + 8 * 1024 * 1024
    print("done")

asyncio.run(main())
"""


def test_a_fork_bomb_ends_at_its_timeout_and_no_more_processes_is_a_reason() -> None:
    with cgroup(pids=64, memory=2048 * MIB) as groups:

        def join() -> None:
            for group in groups:
                group.write_text(str(os.getpid()))

        done = subprocess.run(
            [sys.executable, "-c", BOMBED],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)},
            preexec_fn=join, capture_output=True, text=True, timeout=180,
        )  # fmt: skip
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
