"""Loop devices that come and go."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_CLEAR_FILE = 0x4C01  # LOOP_CLR_FD of linux/loop.h
_CONFIGURE = 0x4C0A
_CONFIG = struct.Struct("I56xI240x")
"""The fields fd and info.lo_flags of a struct loop_config."""
_AUTOCLEAR = 4
"""When the last one closes it, the file goes: also when the tests are killed."""
_ADD = 0x4C80
_REMOVE = 0x4C81
NUMBERS = range(60, 90)
"""Those of the tests; no one else has this many."""


def node_of(number: int) -> Path:
    """Give the path of a loop device's node."""
    return Path(f"/dev/loop{number}")


def add(number: int) -> None:
    """Plug it in: the kernel makes the node before this returns."""
    _control(_ADD, number)


def remove(number: int) -> None:
    """Unplug it, as soon as no one has it open."""

    def removed() -> bool:
        try:
            _control(_REMOVE, number)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True

    eventually(removed, what=f"{node_of(number)} can be removed")


def remove_all(numbers: Iterable[int] = NUMBERS) -> None:
    """Unplug every one of these, by default of the tests' own, that is there and not in use."""
    for number in numbers:
        with suppress(OSError):
            _control(_REMOVE, number)


@contextmanager
def backed_by(number: int, file: Path) -> Iterator[None]:
    """Put a file behind a loop device that is there; the kernel shows so by a change event."""
    device = os.open(node_of(number), os.O_RDWR)
    try:
        with file.open("r+b") as image:
            fcntl.ioctl(device, _CONFIGURE, _CONFIG.pack(image.fileno(), _AUTOCLEAR))
        yield
    finally:
        fcntl.ioctl(device, _CLEAR_FILE)
        os.close(device)


@contextmanager
def plugged(number: int, file: Path) -> Iterator[None]:
    """Plug in a loop device with a file behind it, and unplug it at the end."""
    add(number)
    with backed_by(number, file):
        yield
    remove(number)


def _control(request: int, number: int) -> None:
    control = os.open("/dev/loop-control", os.O_RDWR)
    try:
        fcntl.ioctl(control, request, number)
    finally:
        os.close(control)
