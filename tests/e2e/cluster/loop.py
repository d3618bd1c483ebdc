"""Loop devices that come and go."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from tests.e2e.cluster.waiting import eventually

_ADD = 0x4C80  # LOOP_CTL_ADD of linux/loop.h
_REMOVE = 0x4C81
NUMBERS = range(60, 70)
"""Those of the tests; nobody else has so many."""


def node_of(number: int) -> Path:
    """Give the path of a loop device's node."""
    return Path(f"/dev/loop{number}")


def add(number: int) -> None:
    """Plug it in: the kernel makes the node before this returns."""
    _control(_ADD, number)


def remove(number: int) -> None:
    """Unplug it, as soon as nobody has it open."""

    def removed() -> bool:
        try:
            _control(_REMOVE, number)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True

    eventually(removed, what=f"{node_of(number)} can be removed")


def remove_all() -> None:
    """Unplug every one of the tests' numbers that is there."""
    for number in NUMBERS:
        with suppress(OSError):
            _control(_REMOVE, number)


def _control(request: int, number: int) -> None:
    control = os.open("/dev/loop-control", os.O_RDWR)
    try:
        fcntl.ioctl(control, request, number)
    finally:
        os.close(control)
