"""Runs inputs one after another: notes what must not happen, how fast, and the memory."""

from __future__ import annotations

import json
import logging
import mmap
import os
import signal
import time
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

MOST_BYTES = 1024 * 1024
_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


class OverdueError(BaseException):
    """An input that takes too long; nothing that is fuzzed may catch it."""


class _Formatting(logging.Handler):
    """Makes a text of each log line, for that can fail as well."""

    def emit(self, record: logging.LogRecord) -> None:
        record.getMessage().encode("utf-8", "backslashreplace")


@contextmanager
def watching() -> Iterator[None]:
    """Let inputs be overdue, and log lines be made; around all of ``Watched``."""
    before = signal.signal(signal.SIGALRM, _overdue)
    handler = _Formatting()
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        signal.signal(signal.SIGALRM, before)


class Watched:
    """Takes inputs; failures that come from different lines are kept in ``folder``.

    The input under way lies in ``folder/current``, should the process die of it.
    """

    def __init__(self, run: Callable[[bytes], None], folder: Path, *, seconds: float) -> None:
        self.failures: dict[str, bytes] = {}
        self.inputs = 0
        self._run = run
        self._folder = folder
        self._seconds = seconds
        self._begun = self._told = time.monotonic()
        self._longest = 0.0
        self._rss: list[tuple[int, int]] = []
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "current").open("wb+") as file:
            file.truncate(8 + MOST_BYTES)
            self._current = mmap.mmap(file.fileno(), 0)

    def __call__(self, data: bytes) -> None:
        """Run one input; a failure is noted, not raised."""
        data = data[:MOST_BYTES]
        self._current[:8] = len(data).to_bytes(8)
        self._current[8 : 8 + len(data)] = data
        self.inputs += 1
        begun = time.monotonic()
        why = self.failure(data)
        now = time.monotonic()
        self._longest = max(self._longest, now - begun)
        if why is not None and (place := why.partition(": ")[0]) not in self.failures:
            self.failures[place] = data
            (self._folder / f"found-{len(self.failures)}").write_bytes(data)
            (self._folder / f"found-{len(self.failures)}.txt").write_text(f"{why}\n")
        if now - self._told > 1.0:
            self._told = now
            self.tell()

    def failure(self, data: bytes) -> str | None:
        """Run one input; say what is wrong and where, with details after a colon."""
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        try:
            self._run(data)
        except OverdueError as error:
            return f"took more than {self._seconds:g} s in {_place(error)}"
        except Exception as error:  # noqa: BLE001  whatever it is, it must not be
            return f"{type(error).__name__} in {_place(error)}: {str(error)[:200]!r}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return None

    def tell(self) -> None:
        """Write down how things stand; libFuzzer never returns."""
        self._rss.append((self.inputs, resident_kib()))
        stats = {
            "inputs": self.inputs,
            "seconds": time.monotonic() - self._begun,
            "longest": self._longest,
            "kib": self._rss[-1][1],
            "failures": list(self.failures),
        }
        part = self._folder / "stats.part"
        part.write_text(json.dumps(stats))
        part.replace(self._folder / "stats.json")


def minimised(data: bytes, same: Callable[[bytes], bool]) -> bytes:
    """Leave out pieces, large ones first, as long as it fails in the same way."""
    size = len(data) // 2
    while size:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + size :]
            if same(shorter):
                data = shorter
            else:
                at += size
        size //= 2
    return data


def resident_kib() -> int:
    """Give the memory of this process in KiB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE_KIB


def slope(points: list[tuple[int, int]]) -> float:
    """Give how much the second grows with the first, by least squares."""
    if len(points) < 2:
        return 0.0
    middle = sum(x for x, _ in points) / len(points)
    square = sum((x - middle) ** 2 for x, _ in points)
    return sum((x - middle) * y for x, y in points) / square if square else 0.0


def _overdue(_number: int, _frame: FrameType | None) -> None:
    raise OverdueError


def _place(error: BaseException) -> str:
    """Give the innermost line of ours, for a failure is known by that."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if "/genericdp/" in one.filename] or frames
    return f"{ours[-1].filename.rpartition('/genericdp/')[2]}:{ours[-1].lineno}"
