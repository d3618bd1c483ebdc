"""Commands that do what no probe should, each with the daemon's own means to contain it."""

from __future__ import annotations

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

TOO_LONG, HANGS = "took longer than 0.2 s", "its last run still hangs in the kernel"


FORKS_128 = (
    "import os\n"
    "{}\n"
    "for _ in range(7):\n"
    "    if os.fork() == 0: os.setsid()\n"
    "os.execve('/bin/sleep', ['sleep', '60'], {{}})"
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


async def test_a_command_that_writes_without_end_is_read_slowly(commands: Commands) -> None:
    """It cost half a core until its timeout."""
    outcome = await shell(commands, "yes", timeout_seconds=1)
    (left_out,) = re.findall(r"\[(\d+) bytes left out\]", outcome.output)
    assert int(left_out) < 16 * MIB
    assert len(outcome.output) < 70_000


@pytest.mark.parametrize(
    ("first", "reason"),
    [("", "took longer than 1 s"), ("if os.fork(): os._exit(3)", "exited with 3")],
)
async def test_a_hundred_processes_in_sessions_of_their_own_are_killed(
    commands: Commands, first: str, reason: str
) -> None:
    seconds = 1 if "longer" in reason else 30
    outcome = await commands.run([*PYTHON, FORKS_128.format(first)], ENV, timeout_seconds=seconds)
    assert outcome.reason == reason


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


BOMBED = """
import asyncio, sys
from genericdp.process.run import Commands
from tests.polling import poll_until
from tests.process.scripts import ENV, children, shell

BOMB = "import os, time\\nwhile True:\\n try: os.fork() or os.setsid()\\n except OSError: pass"
FULL = "Resource temporarily unavailable (a limit on processes is reached)"

async def main():
    async with Commands() as commands:
        reasons = set()
        # On a busy machine a bomb, which is nice, may not have filled all its room in time.
        while f"cannot be started: {FULL}" not in reasons:
            bombing = commands.run([sys.executable, "-ISc", BOMB], ENV, timeout_seconds=1)
            bomb = asyncio.create_task(bombing)
            while not bomb.done():
                reasons.add((await shell(commands, "exit 0")).reason)
                await asyncio.sleep(0.01)
            assert bomb.result().reason == "took longer than 1 s", bomb.result()
            await poll_until(lambda: not children())  # the last dead are reaped by a sweep
        assert (await shell(commands, "exit 0")).ok
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
