"""``genericdp probe`` while it takes its time: what it says, and how it ends early."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.explain_output import HEAD
from tests.cli.test_probe import exec_of, own
from tests.polling import poll_until

if TYPE_CHECKING:
    from asyncio.subprocess import Process

SLOW = """\
#!/bin/sh
# Ctrl-C of a terminal does not reach a session of its own.
setsid sleep 600 &
echo $! >> {pids}
trap '' INT TERM HUP
echo $$ >> {pids}
while :; do sleep 600; done
"""


async def probe_slowly(directory: Path, *arguments: str, devices: int = 2) -> Process:
    script = directory / "slow"
    script.write_text(SLOW.format(pids=directory / "pids"))
    script.chmod(0o755)
    for number in range(devices):
        (directory / f"file{number}").touch()
    config = directory / "config.yaml"
    health = exec_of(script).removesuffix("}") + ", timeoutSeconds: 600, periodSeconds: 600}"
    config.write_text(HEAD + own(directory, glob="file*", health=health))
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "genericdp", *arguments, f"--config={config}", "--node-name=n"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def pids(directory: Path, count: int) -> list[int]:
    """Wait until this many processes have said which they are."""
    file = directory / "pids"
    await poll_until(lambda: file.exists() and file.read_text().count("\n") >= count)
    return [int(line) for line in file.read_text().split()]


async def ended(process: Process) -> tuple[int | None, str, str]:
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ("probe", [signal.SIGINT]),
        ("probe -o json", [signal.SIGTERM]),
        ("probe -o wide", [signal.SIGHUP]),
        ("probe", [signal.SIGINT, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]),
    ],
)
async def test_a_signal_ends_the_commands_with_all_that_they_started_and_more_change_nothing(
    words: str, numbers: list[signal.Signals], tmp_path: Path
) -> None:
    process = await probe_slowly(tmp_path, *words.split())
    started = await pids(tmp_path, 4)
    assert all(map(alive, started))
    for number in numbers:
        process.send_signal(number)
    assert await ended(process) in [(128 + number, "", "") for number in numbers]
    assert [pid for pid in started if alive(pid)] == []


async def test_what_takes_its_time_says_how_far_it_is(tmp_path: Path) -> None:
    process = await probe_slowly(tmp_path, "probe", devices=5)
    assert process.stderr is not None
    async with asyncio.timeout(60):
        line = (await process.stderr.readline()).decode()
    process.send_signal(signal.SIGINT)
    assert (await ended(process))[0] == 130
    slow = f"(exec {tmp_path / 'slow'})"
    named = ", ".join(f"file{number} {slow}" for number in range(3))
    assert line == f"0 of 5 devices are done; waiting for {named} and 2 more\n"
