"""Signals, from the first moment at which the program can answer one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from genericdp.daemon import until_signalled
from genericdp.signals import Inbox

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG = f"--config={Path(__file__).parents[1] / 'examples/configs/fuse.yaml'}"
DELAYS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
"""Seconds: within imports, while the config is loaded, around the loop's start."""


@pytest.fixture
def usr1() -> Iterator[signal.Signals]:
    """A signal that nobody else here answers."""
    before = signal.getsignal(signal.SIGUSR1)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def hangup() -> Iterator[signal.Signals]:
    before = signal.getsignal(signal.SIGHUP)
    yield signal.SIGHUP
    signal.signal(signal.SIGHUP, before)


def test_what_comes_is_kept_until_it_is_taken(usr1: signal.Signals) -> None:
    inbox = Inbox([usr1])
    for _ in range(2):
        signal.raise_signal(usr1)
    assert inbox.take() == [usr1, usr1]
    assert inbox.take() == []


async def test_what_came_before_the_loop_ends_the_work(usr1: signal.Signals) -> None:
    inbox = Inbox([usr1])
    signal.raise_signal(usr1)
    async with asyncio.timeout(5):
        await until_signalled(lambda _: asyncio.sleep(60), inbox)


async def test_what_comes_while_the_loop_waits_ends_the_work(usr1: signal.Signals) -> None:
    inbox = Inbox([usr1])

    async def work(_: asyncio.Event) -> None:
        signal.raise_signal(usr1)
        await asyncio.sleep(60)

    async with asyncio.timeout(5):
        await until_signalled(work, inbox)
    signal.raise_signal(usr1)
    assert inbox.take() == [usr1]


async def test_a_hangup_sets_the_event_or_ends_the_work(hangup: signal.Signals) -> None:
    async def work(reload: asyncio.Event) -> None:
        signal.raise_signal(hangup)
        await reload.wait()

    async with asyncio.timeout(5):
        await until_signalled(work, Inbox([hangup]))
        inbox = Inbox([hangup])
        signal.raise_signal(hangup)
        await until_signalled(lambda _: asyncio.sleep(60), inbox, hangup_ends=True)


class Started:
    """A process of the program that has just begun to answer signals."""

    def __init__(self, command: str, folder: Path) -> None:
        own = [f"--kubelet-dir={folder}"] if command == "run" else []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "genericdp", command, CONFIG, *own],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(folder)},
        )
        while not self._answers(signal.SIGTERM):
            assert self.process.poll() is None
            time.sleep(0.001)

    def _answers(self, number: signal.Signals) -> bool:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        caught = int(status.split("SigCgt:")[1].split()[0], 16)
        return bool(caught >> (number - 1) & 1)

    def end(self, number: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(number)
        _, complaint = self.process.communicate(timeout=20)
        return self.process.returncode, complaint


@pytest.mark.parametrize(
    ("command", "numbers"),
    [
        ("simulate", (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)),
        ("run", (signal.SIGINT, signal.SIGTERM)),
    ],
)
def test_an_early_signal_is_a_good_end(
    command: str, numbers: tuple[signal.Signals, ...], short_folder: Path
) -> None:
    for i, delay in enumerate(DELAYS):
        started = Started(command, short_folder)
        time.sleep(delay)
        code, complaint = started.end(numbers[i % len(numbers)])
        assert (code, "Traceback" in complaint) == (0, False), (delay, complaint)
    assert list(short_folder.iterdir()) == []


def test_one_more_signal_does_not_disturb_the_end(short_folder: Path) -> None:
    started = Started("simulate", short_folder)
    time.sleep(0.5)
    for _ in range(20):
        started.process.send_signal(signal.SIGINT)
        time.sleep(0.005)
    code, complaint = started.end(signal.SIGTERM)
    assert (code, complaint) == (0, "")
    assert list(short_folder.iterdir()) == []


def test_an_early_hangup_does_not_end_the_daemon(short_folder: Path) -> None:
    started = Started("run", short_folder)
    started.process.send_signal(signal.SIGHUP)
    assert started.process.stderr is not None
    assert any("waiting for a kubelet" in line for line in started.process.stderr)
    code, _ = started.end(signal.SIGTERM)
    assert code == 0


def test_a_hangup_that_is_to_be_ignored_does_not_end_simulate(short_folder: Path) -> None:
    """``nohup genericdp simulate``."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        started = Started("simulate", short_folder)
    finally:
        signal.signal(signal.SIGHUP, before)
    for _ in range(5):
        started.process.send_signal(signal.SIGHUP)
        time.sleep(0.1)
    assert started.process.poll() is None
    assert started.end(signal.SIGINT) == (0, "")


def test_an_early_control_c_of_another_command_is_130(short_folder: Path) -> None:
    """Waits for a config on stdin that nobody writes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "genericdp", "validate", "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=20)
    assert (process.returncode, complaint) == (130, b"")
