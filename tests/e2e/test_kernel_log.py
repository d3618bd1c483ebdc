"""Devices that the kernel's own log names, under a real kubelet."""

from __future__ import annotations

import math
import mmap
import os
import secrets
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.cluster import loop
from tests.e2e.cluster.versions import NEWEST
from tests.e2e.cluster.waiting import eventually
from tests.e2e.scenarios import START

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bench import Bench

pytestmark = [pytest.mark.e2e, pytest.mark.kubelets(*NEWEST)]

LASTING = "example.com/lasting"
RECOVERING = "example.com/recovering"
RECOVER_AFTER_SECONDS = 3
_RESOURCES = """\
  - name: example.com/lasting
    match:
      - path: /dev/loop7[45]
    health:
      - kernelLog: &errors
          regex: I/O error, dev (?P<name>loop[0-9]+), sector (?P<sector>[0-9]+)
          where: {name: $(device.name), sector: "SECTOR"}
  - name: example.com/recovering
    match:
      - path: /dev/loop7[67]
    health:
      - kernelLog: *errors
        recoverAfterSeconds: SECONDS
"""
NUMBERS = range(74, 78)
_SIZE = 1024**3
_BLOCK = 4096
_SECTOR = 512


class Disks:
    """Loop devices with files behind them, all holes.

    They are read in one place, another one in each test: the log, which outlives a test, holds
    nothing about that yet.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._offset = secrets.randbelow(_SIZE // _BLOCK) * _BLOCK

    @property
    def sector(self) -> int:
        """Give the place as the kernel calls it."""
        return self._offset // _SECTOR

    def file(self, number: int) -> Path:
        """Give the path of what is behind it."""
        return self._directory / f"disk{number}"

    def cut_off(self, number: int) -> None:
        """Leave nothing to read."""
        os.truncate(self.file(number), 0)

    def mend(self, number: int) -> None:
        """Let it be read again."""
        os.truncate(self.file(number), _SIZE)

    def can_read(self, number: int) -> bool:
        """Read from the file, past the page cache."""
        descriptor = os.open(loop.node_of(number), os.O_RDONLY | os.O_DIRECT)
        try:
            with mmap.mmap(-1, _BLOCK) as aligned:
                return os.preadv(descriptor, [aligned], self._offset) == _BLOCK
        except OSError:
            return False
        finally:
            os.close(descriptor)


@pytest.fixture
def unplugged(tmp_path: Path) -> Disks:
    return Disks(tmp_path)


@pytest.fixture
def config(unplugged: Disks) -> str:
    resources = _RESOURCES.replace("SECTOR", str(unplugged.sector))
    return START + resources.replace("SECONDS", str(RECOVER_AFTER_SECONDS))


@pytest.fixture
def disks(unplugged: Disks, bench: Bench) -> Iterator[Disks]:
    """Plug them in; all work and are listed."""
    with ExitStack() as ends:
        for number in NUMBERS:
            unplugged.file(number).touch()
            unplugged.mend(number)
            loop.add(number)
            ends.enter_context(loop.backed_by(number, unplugged.file(number)))
        bench.await_listed(LASTING, "loop74", "loop75")
        bench.await_listed(RECOVERING, "loop76", "loop77")
        yield unplugged


def break_until_told(bench: Bench, disks: Disks, number: int) -> str:
    """Read in vain until the daemon has a line of the kernel about it; give the line."""
    disks.cut_off(number)
    reported = f"device loop{number} is Unhealthy: kernelLog: ["
    tried_at = -math.inf

    def lines() -> list[str]:
        nonlocal tried_at
        # Of such lines the kernel writes ten in 5 s at most, for all disks: not at each look.
        if time.monotonic() > tried_at + 2:
            assert not disks.can_read(number)
            tried_at = time.monotonic()
        with_it = (line for line in bench.daemon.log().splitlines() if reported in line)
        return [line.partition(reported)[2] for line in with_it]

    return eventually(lines, what=f"the daemon has heard of loop{number}")[-1]


def test_an_error_of_the_kernel_takes_exactly_its_device_until_it_recovers(
    bench: Bench, disks: Disks
) -> None:
    """D6: Unhealthy forever after one error."""
    began = time.monotonic()
    line = break_until_told(bench, disks, 76)
    assert f"] I/O error, dev loop76, sector {disks.sector} " in line
    bench.await_listed(RECOVERING, "loop77")
    assert [number for number in NUMBERS if disks.can_read(number)] == [74, 75, 77]

    disks.mend(76)
    assert disks.can_read(76)
    bench.await_listed(RECOVERING, "loop76", "loop77")
    assert time.monotonic() - began > RECOVER_AFTER_SECONDS
    bench.await_listed(LASTING, "loop74", "loop75")


def test_a_device_stays_off_the_list_over_a_restart_of_the_daemon(
    bench: Bench, disks: Disks
) -> None:
    """As its config gives no ``recoverAfterSeconds``, though it can be read again."""
    line = break_until_told(bench, disks, 74)
    bench.await_listed(LASTING, "loop75")
    disks.mend(74)
    assert disks.can_read(74)

    bench.daemon.stop()
    eventually(
        lambda: bench.resources.allocatable().get(LASTING, frozenset()),
        frozenset().__eq__,
        what="the kubelet notices that the daemon has gone",
    )
    already = len(bench.daemon.log())
    bench.daemon.start()
    bench.await_listed(RECOVERING, "loop76", "loop77")
    bench.await_listed(LASTING, "loop75")
    bench.await_registered(LASTING, since=already)
    log = bench.daemon.log()[already:]
    before, _, _ = log.partition(f"{LASTING}: registered")
    # Not of which time: the kernel may have written it twice.
    (unhealthy,) = (
        text_line
        for text_line in before.splitlines()
        if "loop74 is Unhealthy: kernelLog" in text_line
    )
    assert unhealthy.endswith(line.partition("] ")[2]), "the kubelet never heard otherwise"


def test_lines_that_user_space_wrote_are_ignored(bench: Bench, disks: Disks) -> None:
    for level in ("", "<0>", "<3>"):
        line = f"{level}I/O error, dev loop75, sector {disks.sector} (a test of genericdp)\n"
        with Path("/dev/kmsg").open("wb", buffering=0) as log:
            log.write(line.encode())
    break_until_told(bench, disks, 74)  # its line is behind the others
    bench.await_listed(LASTING, "loop75")
    assert "loop75 is Unhealthy" not in bench.daemon.log()
