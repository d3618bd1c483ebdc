"""A fake for a USB serial stick: the link that udev would make, and a terminal behind it."""

from __future__ import annotations

import fcntl
import os
import termios
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.cluster.counted import Counted

if TYPE_CHECKING:
    from collections.abc import Iterator

LINK = Path("/dev/serial/by-id/usb-FTDI_FT230X_Basic_UART_DN05FSZ9-if00-port0")
TERMINAL = Path("/dev/tty63")
"""A virtual console that no one uses."""


@contextmanager
def stick(line: bytes) -> Iterator[None]:
    """Have it plugged in; it sends a line over and over, as a sensor does."""

    def send() -> None:
        # Opened again: when a reader ends, all who have it open are hung up.
        terminal = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY)
        try:
            with suppress(OSError):  # hung up meanwhile
                for byte in line:
                    fcntl.ioctl(terminal, termios.TIOCSTI, bytes([byte]))
        finally:
            os.close(terminal)

    LINK.parent.mkdir(parents=True, exist_ok=True)
    LINK.symlink_to(TERMINAL)
    with Counted(send, every_seconds=0.5):
        yield
    unplug()


def unplug() -> None:
    """Remove the link, unless it is a real stick's."""
    if LINK.is_symlink() and LINK.readlink() == TERMINAL:
        LINK.unlink()
        for directory in (LINK.parent, LINK.parent.parent):
            with suppress(OSError):  # others use it
                directory.rmdir()
