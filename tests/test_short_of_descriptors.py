"""The daemon with hardly any descriptors: it waits, says so, and goes on once there are more."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CONFIG = """
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/null
    match:
      - path: /dev/null
"""

WITH_FEW = """
import os, resource, sys, threading
from genericdp.cli import main

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
highest = 255 - int(sys.argv.pop(1))
fillers = [os.open(os.devnull, os.O_RDONLY)]
while fillers[-1] < highest:
    fillers.append(os.open(os.devnull, os.O_RDONLY))

def give_back():
    sys.stdin.readline()
    for one in fillers:
        os.close(one)

threading.Thread(target=give_back, daemon=True).start()
sys.exit(main())
"""
"""Runs the command with so many descriptors, and with more once a line comes at stdin."""


@pytest.fixture
def arguments(short_folder: Path) -> list[str]:
    config = short_folder / "config.yaml"
    config.write_text(CONFIG)
    given = ["run", "--config", os.fspath(config), "--kubelet-dir", os.fspath(short_folder)]
    return [*given, "--node-name", "n", "--listen", "127.0.0.1:0"]


def started(*command: str, before: Callable[[], None] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
    )


def read_until(lines: Iterator[str], text: str) -> str:
    seen = []
    for line in lines:
        seen.append(line)
        if text in line:
            return line
    raise AssertionError(f"{text!r} never came: {seen}")


@pytest.mark.parametrize("count", [10, 24])
def test_run_waits_for_descriptors_and_says_so_instead_of_ending(
    count: int, arguments: list[str]
) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))

    with started("-m", "genericdp", *arguments, before=limit) as daemon:
        try:
            assert daemon.stderr is not None
            told = read_until(iter(daemon.stderr), "descriptors run short")
            assert f"of {count} are in use, and starting takes" in told
            assert "nothing is served until there are so many: allow more (LimitNOFILE=" in told
            daemon.send_signal(signal.SIGTERM)
            assert daemon.wait(timeout=30) == 0
        finally:
            daemon.kill()


def test_a_daemon_that_waited_for_descriptors_serves_once_there_are_enough(
    arguments: list[str],
) -> None:
    with started("-c", WITH_FEW, "10", *arguments) as daemon:
        try:
            assert daemon.stderr is not None
            assert daemon.stdin is not None
            lines = iter(daemon.stderr)
            read_until(lines, "descriptors run short")
            daemon.stdin.write("\n")
            daemon.stdin.flush()
            read_until(lines, "descriptors no longer run short")
            missing = {"endpoints at", "example.com/null: 1 of 1 devices healthy"}
            while missing:
                line = next(lines)
                missing -= {one for one in missing if one in line}
            daemon.send_signal(signal.SIGTERM)
            assert daemon.wait(timeout=30) == 0
        finally:
            daemon.kill()
