"""The end of the daemon, whatever it is doing, and the start of the next one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from genericdp.simulator.kubelet import Kubelet

from tests.polling import poll_until
from tests.process.cgroups import freezer
from tests.process.scripts import is_alive
from tests.test_daemon import GOOD, Daemon, Place

pytestmark = pytest.mark.slow

SERIAL = "example.com/serial"
STUBBORN = "trap '' TERM INT HUP; setsid sleep {seconds} & echo $$ > {pid}; {more} sleep {seconds}"
PROBED = GOOD + "    health: [{exec: {command: [/bin/sh, -c, SCRIPT]}, timeoutSeconds: 60}]\n"
SECONDS = 30.0
"""Half of what a probe may take. 2 are promised, but the machine may be busy."""


def script(place: Place, more: str = "") -> str:
    """A command that no gentle signal ends, with a descendant in a session of its own."""
    pid = place.config.with_name("pid")
    return json.dumps(STUBBORN.format(seconds=7000 + os.getpid(), pid=pid, more=more))


def left() -> list[str]:
    """Return the processes that are left of such commands."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"sleep {7000 + os.getpid()}" in (directory / "cmdline").read_text().replace(
                "\0", " "
            ):
                found.append(directory.name)
    return found


async def appears(path: Path) -> None:
    await poll_until(lambda: path.exists() and path.read_text().strip())


async def ends_in_time(daemon: Daemon) -> None:
    begun = time.monotonic()
    daemon.process.terminate()
    assert await daemon.ends() == 0
    assert time.monotonic() - begun < SECONDS


def sockets(place: Place) -> list[Path]:
    return list(place.kubelet_directory.glob("genericdp-*"))


async def test_a_probe_that_hangs_ends_with_it(place: Place) -> None:
    place.config.write_text(PROBED.replace("SCRIPT", script(place)))
    async with Kubelet(place.kubelet_directory), place.daemon() as daemon:
        await appears(place.config.with_name("pid"))
        await ends_in_time(daemon)
    assert [line for line in daemon.lines if "Traceback" in line or "Warning" in line] == []
    assert (sockets(place), left()) == ([], [])


async def test_a_probe_that_not_even_sigkill_ends_does_not_hold_it_up(place: Place) -> None:
    """Its descendant is killed all the same: look for none while the child is there, in _kill."""
    with freezer() as frozen:
        more = f"echo $$ > {frozen}/cgroup.procs; echo FROZEN > {frozen}/freezer.state;"
        place.config.write_text(PROBED.replace("SCRIPT", script(place, more)))
        async with Kubelet(place.kubelet_directory), place.daemon() as daemon:
            await poll_until(lambda: "FROZEN" in (frozen / "freezer.state").read_text())
            await ends_in_time(daemon)
        assert "1 processes of commands are still there 2 s after SIGKILL" in "".join(daemon.lines)
        assert sockets(place) == []
        assert len(left()) <= 1
    assert left() == []


async def test_a_config_that_is_being_loaded_does_not_hold_it_up(place: Place) -> None:
    place.config.mkdir()
    head, entry, _ = GOOD.partition("  - name")
    for i in range(100):  # some seconds
        names = (
            f"{entry}: example.com/a{i}-{j}\n    match: [{{path: /dev/x}}]\n" for j in range(99)
        )
        (place.config / f"{i}.yaml").write_text(head + "".join(names))
    async with place.daemon() as daemon:
        pid = daemon.process.pid
        await poll_until(lambda: Path(f"/proc/{pid}/task/{pid}/children").read_text())
        await ends_in_time(daemon)
        assert "active config" not in "".join(daemon.lines)


INSISTENT = """
import asyncio, os, sys
from functools import partial
from genericdp.daemon import exit_at_once
from genericdp.process.run import Commands
from genericdp.process.signals import until_signaled

commands = Commands()
SCRIPT = f"echo $$ > /proc/{os.getpid()}/fd/1; exec sleep 600"

async def work():
    async with commands, asyncio.TaskGroup() as tasks:
        run = commands.run(["/bin/sh", "-c", SCRIPT], {"PATH": "/bin"}, timeout_seconds=60)
        running = asyncio.get_running_loop().create_task(run)
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                print("cancelled", flush=True)

asyncio.run(until_signaled(work, on_repeat=partial(exit_at_once, commands)))
"""


async def test_one_more_signal_ends_at_once_what_does_not_end() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INSISTENT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "cancelled\n"

        def ends() -> bool:
            process.send_signal(signal.SIGTERM)
            return process.poll() is not None

        await poll_until(ends)
        assert process.returncode == 128 + signal.SIGTERM
    await poll_until(lambda: not is_alive(child))


async def test_a_log_that_nobody_reads_holds_nothing_up(place: Place) -> None:
    """stderr is a pipe that is full."""
    place.config.write_text(GOOD)
    async with Kubelet(place.kubelet_directory) as kubelet, place.daemon() as daemon:
        await daemon.says("registered")
        assert daemon.process.stderr is not None
        reading = daemon.process.stderr._transport  # type: ignore[attr-defined]  # noqa: SLF001
        reading.pause_reading()
        _fill(daemon.process.pid)
        for minor in range(1, 4):
            place.host.plug(f"ttyUSB{minor}")
            await kubelet.wait_for(lambda: kubelet.capacity(SERIAL) == minor + 1)  # noqa: B023
        begun = time.monotonic()
        daemon.process.send_signal(signal.SIGTERM)
        while is_alive(daemon.process.pid):
            await asyncio.sleep(0.01)  # noqa: TID251 -- polls what has no event
            assert time.monotonic() - begun < SECONDS
        reading.resume_reading()
        assert await daemon.ends() == 0
        assert sockets(place) == []


def _fill(pid: int) -> None:
    """Write into the stderr of a process until no more fits."""
    descriptor = os.open(f"/proc/{pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while True:
            os.write(descriptor, b"x" * 4096)
    os.close(descriptor)


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
async def test_a_log_that_cannot_be_written_ends_nothing(place: Place, redirection: str) -> None:
    place.config.write_text(GOOD)
    launch = ("/bin/sh", "-c", f'exec "$0" "$@" {redirection}', sys.executable)
    async with Kubelet(place.kubelet_directory) as kubelet, place.daemon(launch=launch) as daemon:
        await kubelet.wait_for(lambda: kubelet.capacity(SERIAL) == 1)
        await ends_in_time(daemon)
    assert (sockets(place), daemon.lines) == ([], [])
