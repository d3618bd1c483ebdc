"""A fake for a USB serial stick: the link that udev would make, and a terminal behind it."""

from __future__ import annotations

import fcntl
import os
import termios
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.cluster.looking import Looking

if TYPE_CHECKING:
    from typing import Self

LINK = Path("/dev/serial/by-id/usb-FTDI_FT230X_Basic_UART_DN05FSZ9-if00-port0")
TERMINAL = Path("/dev/tty63")
"""A virtual console that no one uses."""
_SEND_EVERY_SECONDS = 0.5


class Stick(Looking):
    """Plugged in while the context lasts, and sends a line over and over, as a sensor does."""

    def __init__(self, line: bytes) -> None:
        super().__init__(_SEND_EVERY_SECONDS)
        self._line = line

    def __enter__(self) -> Self:
        LINK.parent.mkdir(parents=True, exist_ok=True)
        LINK.symlink_to(TERMINAL)
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        unplug()

    def look(self) -> None:
        """Send the line to anyone who reads the terminal."""
        # Opened again: when a reader ends, all who have it open are hung up.
        terminal = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY)
        try:
            with suppress(OSError):  # hung up meanwhile
                for byte in self._line:
                    fcntl.ioctl(terminal, termios.TIOCSTI, bytes([byte]))
        finally:
            os.close(terminal)


def unplug() -> None:
    """Remove the link, unless it is a real stick's."""
    if LINK.is_symlink() and LINK.readlink() == TERMINAL:
        LINK.unlink()
        for directory in (LINK.parent, LINK.parent.parent):
            with suppress(OSError):  # others use it
                directory.rmdir()
