"""The kernel's own errors: a loop device whose file is cut off under it. Needs root."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
from genericdp.host.kmsg import PATH, open_log

from tests.health.test_kernellog import Following, following, watched

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

ADD, REMOVE, SET_FD, CLR_FD = 0x4C80, 0x4C81, 0x4C00, 0x4C01
MEBIBYTE = 1024 * 1024


def _why_not() -> str:
    if os.geteuid() != 0 or not os.access("/dev/loop-control", os.R_OK | os.W_OK):
        return "making loop devices needs root and /dev/loop-control"
    try:
        open_log().close()
    except OSError as error:
        return f"{PATH} cannot be read: {error}"
    return ""


pytestmark = pytest.mark.skipif(bool(_why_not()), reason=_why_not())


def _remove_leftover(control: int, number: int) -> None:
    """Remove what a test that was killed left: no other runs now, says the lock."""
    with suppress(FileNotFoundError):
        device = os.open(f"/dev/loop{number}", os.O_RDWR | os.O_CLOEXEC)
        with suppress(OSError):  # it has no file
            fcntl.ioctl(device, CLR_FD, 0)
        os.close(device)
        fcntl.ioctl(control, REMOVE, number)


@contextmanager
def loop_device(control: int, number: int, backing: Path) -> Iterator[None]:
    """A loop device of a file of a mebibyte."""
    backing.write_bytes(b"x" * MEBIBYTE)
    try:
        _remove_leftover(control, number)
        fcntl.ioctl(control, ADD, number)
    except OSError as error:
        pytest.skip(f"no loop device can be added here: {error}")
    device = os.open(f"/dev/loop{number}", os.O_RDWR | os.O_CLOEXEC)
    try:
        file = os.open(backing, os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(device, SET_FD, file)
        os.close(file)
        yield
    finally:
        with suppress(OSError):  # it was never set
            fcntl.ioctl(device, CLR_FD, 0)
        os.close(device)
        fcntl.ioctl(control, REMOVE, number)


class Loops:
    """Loop devices of one test; each has its own numbers: the log keeps what was said of others."""

    def __init__(self, directory: Path, numbers: range) -> None:
        self.numbers = numbers
        self.files = {number: directory / str(number) for number in numbers}
        since = time.monotonic() - 0.2  # the kernel's clock may be a little behind
        # Lines of former runs of this test are still in the log.
        self.watched = partial(watched, known_since=since)

    def cut_off(self, number: int) -> None:
        """Let there be nothing left to read."""
        os.truncate(self.files[number], 0)


@pytest.fixture
def loops(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Loops]:
    loops, control = Loops(tmp_path, request.param), os.open("/dev/loop-control", os.O_RDWR)
    try:
        fcntl.flock(control, fcntl.LOCK_EX)  # another run of such tests has to wait
        with ExitStack() as devices:
            for number, file in loops.files.items():
                devices.enter_context(loop_device(control, number, file))
            yield loops
    finally:
        os.close(control)


def fails_to_read(number: int) -> bool:
    """Read a sector from the disk, past the page cache's read-ahead."""
    descriptor = os.open(f"/dev/loop{number}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.pread(descriptor, 4096, MEBIBYTE // 2)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


async def strike(log: Following, number: int) -> None:
    """Read until something is struck: the kernel shows ten such errors in 5 s at most."""
    async with asyncio.timeout(60):
        while not log.struck:
            assert fails_to_read(number)
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await log.until(lambda: bool(log.struck))


@asynccontextmanager
async def looking(
    loops: Loops, *, recover_after_seconds: int | None = None, ahead: float = 0.0
) -> AsyncIterator[Following]:
    """Follow the kernel's own log, as a daemon for which the devices were there all its time."""
    async with following(open_log, time.monotonic() + ahead) as log:
        watch = partial(loops.watched, recover_after_seconds=recover_after_seconds)
        await log.look(*(watch(f"loop{number}") for number in loops.numbers))
        yield log


@pytest.mark.parametrize("loops", [range(80, 82)], indirect=True)
async def test_an_error_of_the_kernel_strikes_exactly_its_device(loops: Loops) -> None:
    """And stays over a restart, until it recovers as configured."""
    first, second = loops.numbers
    async with looking(loops) as log:
        assert log.struck == []
        loops.cut_off(first)
        assert not fails_to_read(second)
        await strike(log, first)
        assert log.struck == [f"loop{first}"]
        [reason] = log.reasons.values()
        assert f"] I/O error, dev loop{first}, sector " in reason
    async with looking(loops) as log:
        assert log.struck == [f"loop{first}"]
    async with looking(loops, recover_after_seconds=60) as log:
        assert log.struck == [f"loop{first}"]
    async with looking(loops, recover_after_seconds=60, ahead=60) as log:
        assert log.struck == []


@pytest.mark.parametrize("loops", [range(82, 84)], indirect=True)
async def test_a_line_that_user_space_wrote_is_ignored(loops: Loops) -> None:
    first, second = loops.numbers
    async with looking(loops) as log:
        for prefix in ("", "<0>", "<3>"):
            writer = os.open(PATH, os.O_WRONLY | os.O_CLOEXEC)
            line = f"{prefix}I/O error, dev loop{first}, sector 0 (a test of genericdp)\n"
            os.write(writer, line.encode())
            os.close(writer)
        loops.cut_off(second)
        await strike(log, second)  # its line is behind the others
        assert log.struck == [f"loop{second}"]
