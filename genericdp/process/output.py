"""What a command writes: kept in bounds, and made fit to be read."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from genericdp.printing import printable, shortened

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

MOST_KEPT = 64 * 1024
"""Bytes of a command's output, half of its start and half of its end."""
_MOST_IN_PIPE = 64 * 1024


class Kept:
    """The first and the last part of what was written."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self.most = most
        """Bytes that are kept."""
        self.size = 0
        """Bytes that were written in all."""
        self._first = bytearray()
        self._last = bytearray()

    def add(self, chunk: bytes) -> None:
        """Take in the next bytes."""
        half = self.most // 2
        self.size += len(chunk)
        room = half - len(self._first)
        if room > 0:
            self._first += chunk[:room]
            chunk = chunk[room:]
        self._last += chunk[-half:]
        if len(self._last) > half:
            del self._last[:-half]

    @property
    def data(self) -> bytes:
        """What is kept; without the middle if that is not all."""
        return bytes(self._first + self._last)

    def text(self) -> str:
        """Return the output as text, with unprintable bytes escaped."""
        left_out = self.size - len(self._first) - len(self._last)
        if not left_out:
            return decoded(self.data)
        return f"{decoded(self._first)}\n[{left_out} bytes left out]\n{decoded(self._last)}"


class Pipe:
    """A pipe that a command writes to and the loop reads from while it runs."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self.kept = Kept(most)
        self._loop = asyncio.get_running_loop()
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        try:
            self._loop.add_reader(self._read_end, self.read)
        except OSError:
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        self.close_write_end()
        self._loop.remove_reader(self._read_end)
        os.close(self._read_end)

    def close_write_end(self) -> None:
        """Leave the write end to the command alone."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def read(self) -> None:
        """Read what is there, as much as a pipe holds; do not wait for more."""
        with suppress(BlockingIOError):
            chunk = os.read(self._read_end, _MOST_IN_PIPE)
            self.kept.add(chunk)
            if not chunk:
                self._loop.remove_reader(self._read_end)


def decoded(data: bytes | bytearray) -> str:
    """Decode as UTF-8, and escape all that is not, or that no terminal should see."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() or one in "\t\n" else printable(one) for one in text)


def last_line(text: str) -> str:
    """Return the last line that is not blank, shortened; empty if there is none."""
    return shortened(text.rstrip().rpartition("\n")[2].strip())
