"""Signals, from the first moment at which the program can answer one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

CONFIG = f"--config={Path(__file__).parents[1] / 'examples/configs/fuse.yaml'}"
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DELAYS = (0.0, 0.02, 0.1, 0.3)
"""Seconds: within imports, while the config is loaded, around the loop's start."""


def await_handler(process: subprocess.Popen[Any]) -> None:
    """Wait until a process handles SIGTERM: before, a signal ends Python while it starts."""

    def handles() -> bool:
        status = Path(f"/proc/{process.pid}/status").read_text()
        return bool(int(status.split("SigCgt:")[1].split()[0], 16) >> (signal.SIGTERM - 1) & 1)

    while not handles():
        assert process.poll() is None
        time.sleep(0.001)  # noqa: TID251 -- a signal at a moment of its own


class Started:
    """A process of the program that has just begun to handle signals."""

    def __init__(self, command: str, directory: Path) -> None:
        own = {
            "run": [f"--kubelet-dir={directory}"],
            "cdi watch": [f"--cdi-dir={directory / 'cdi'}"],
        }
        given = ["-"] if command == "validate" else [CONFIG, *own.get(command, ())]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "genericdp", *command.split(), *given],
            stdin=subprocess.PIPE,  # validate waits for a config that is never written
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(directory)},
        )
        await_handler(self.process)

    def end(self, number: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(number)
        _, complaint = self.process.communicate(timeout=20)
        return self.process.returncode, complaint


DEFERRED = """
import os, signal, sys, threading
from genericdp.process.signals import HANDLED, deferred, exit_on
exit_on(HANDLED, then=signal.SIG_DFL)
threading.Thread(target=threading.Event().wait, daemon=True).start()
with deferred():
    os.kill(os.getpid(), int(sys.argv[1]))
    print("within", flush=True)
print("after", flush=True)
"""


@pytest.mark.parametrize("number", HANDLED)
def test_a_signal_is_deferred_whichever_thread_takes_it(number: signal.Signals) -> None:
    """Blocked in one thread, it came by way of another, and left a file of tempfile's behind."""
    ran = subprocess.run(
        [sys.executable, "-c", DEFERRED, str(int(number))], capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (128 + number, "within\n", "")


@pytest.mark.parametrize(
    ("command", "numbers"),
    [
        ("simulate", HANDLED),
        ("run", (signal.SIGINT, signal.SIGTERM)),
        ("cdi watch", (signal.SIGINT, signal.SIGTERM)),
    ],
)
def test_an_early_signal_is_a_good_end(
    command: str, numbers: tuple[signal.Signals, ...], short_directory: Path
) -> None:
    for i, delay in enumerate(DELAYS):
        started = Started(command, short_directory)
        time.sleep(delay)  # noqa: TID251 -- a signal at a moment of its own
        code, complaint = started.end(numbers[i % len(numbers)])
        assert (code, "Traceback" in complaint) == (0, False), (delay, complaint)
    assert list(short_directory.iterdir()) == []


def test_one_more_signal_does_not_disturb_the_end(short_directory: Path) -> None:
    started = Started("simulate", short_directory)
    time.sleep(0.5)  # noqa: TID251 -- a signal at a moment of its own
    for _ in range(20):
        started.process.send_signal(signal.SIGINT)
        time.sleep(0.005)  # noqa: TID251 -- a signal at a moment of its own
    code, complaint = started.end(signal.SIGTERM)
    assert (code, complaint) == (0, "")
    assert list(short_directory.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "said"), [("run", "waiting for a kubelet"), ("cdi watch", "active config")]
)
def test_an_early_hangup_does_not_end_a_daemon(
    command: str, said: str, short_directory: Path
) -> None:
    """Its unit reloads it by SIGHUP."""
    started = Started(command, short_directory)
    started.process.send_signal(signal.SIGHUP)
    assert started.process.stderr is not None
    assert any(said in line for line in started.process.stderr)
    code, _ = started.end(signal.SIGTERM)
    assert code == 0


def test_a_hangup_that_is_to_be_ignored_does_not_end_simulate(short_directory: Path) -> None:
    """``nohup genericdp simulate``."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        started = Started("simulate", short_directory)
    finally:
        signal.signal(signal.SIGHUP, before)
    for _ in range(5):
        started.process.send_signal(signal.SIGHUP)
        time.sleep(0.1)  # noqa: TID251 -- a signal at a moment of its own
    assert started.process.poll() is None
    assert started.end(signal.SIGINT) == (0, "")


@pytest.mark.parametrize("number", HANDLED)
def test_an_early_signal_ends_another_command_with_what_shells_report(
    number: signal.Signals, short_directory: Path
) -> None:
    assert Started("validate", short_directory).end(number) == (128 + number, "")


FINALIZED = """
import asyncio
import signal

from genericdp.process.signals import exit_on, until_signaled


class Finalized:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)


exit_on([signal.SIGTERM], 0, then=signal.SIG_IGN)
Finalized()
asyncio.run(until_signaled(lambda: asyncio.sleep(600)))
"""


def test_a_signal_within_a_finalizer_is_not_lost() -> None:
    """Python discards the exception there: so it may be in the midst of an import."""
    ended = subprocess.run(
        [sys.executable, "-c", FINALIZED], check=False, capture_output=True, timeout=20, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")
