"""A log of the kernel that is written down in a test."""

from __future__ import annotations

import os
from io import RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

RECORDED = Path(__file__).parents[1] / "fixtures" / "kernel-log"


def record(
    text: str, *, sequence: int, seconds: float = 1.0, priority: int = 4, flags: str = "-"
) -> bytes:
    """One record as the kernel gives it."""
    return f"{priority},{sequence},{int(seconds * 1e6)},{flags};{text}\n".encode()


def recorded(name: str) -> list[bytes]:
    """The records of a file; a line that begins with a space belongs to the one before."""
    records: list[bytes] = []
    for line in (RECORDED / name).read_bytes().splitlines(keepends=True):
        if line.startswith(b" "):
            records[-1] += line
        else:
            records.append(line)
    return records


class Script(RawIOBase):
    """Gives what it was given, then waits; an OSError in it is raised.

    Like the kernel's own it is readable only while there is a record.
    """

    def __init__(self, given: Iterable[bytes | OSError] = ()) -> None:
        self.given = list(given)
        self.next = 0
        self.closings = 0
        self._readable, self._writable = -1, -1

    def open(self) -> Script:
        """Begin at its start."""
        self.next = 0
        self._readable, self._writable = os.pipe()
        if self.given:
            os.write(self._writable, b"x")
        return self

    def add(self, *given: bytes | OSError) -> None:
        """Let more come."""
        if self.next == len(self.given):
            os.write(self._writable, b"x")
        self.given += given

    def fileno(self) -> int:
        return self._readable

    def read(self, most: int = -1, /) -> bytes | None:
        if self.next == len(self.given):
            return None
        self.next += 1
        if self.next == len(self.given):
            os.read(self._readable, 10)
        given = self.given[self.next - 1]
        if isinstance(given, OSError):
            raise given
        return given

    def close(self) -> None:
        self.closings += 1
        for entry in {self._readable, self._writable} - {-1}:
            os.close(entry)
        self._readable = self._writable = -1
