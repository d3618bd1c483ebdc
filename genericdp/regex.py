"""RE2 patterns from a config; matching time is linear and limited."""

from __future__ import annotations

import atexit
import threading
import time
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class RegexMatch(Protocol):
    """A match of a pattern."""

    def group(self, which: int, /) -> str | None:
        """Return the text of a group; 0 is the whole match."""


class Pattern(Protocol):
    """A compiled expression."""

    groups: int
    groupindex: Mapping[str, int]
    programsize: int
    """The size in instructions."""

    def search(self, text: str, /) -> RegexMatch | None:
        """Return the first match, if there is one."""

    def fullmatch(self, text: str, /) -> RegexMatch | None:
        """Return the match of the whole text, if there is one."""


class PatternError(ValueError):
    """A string that is not an expression of RE2, with the reason."""


class TextTooLongError(ValueError):
    """A string that an expression would take too long to search."""


class SearchTimeError(RuntimeError):
    """The searches within ``limited`` have used up their time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"its regular expressions take more than {seconds:g} s")


_MAX_AT_ONCE = 64
_searching = threading.Semaphore(_MAX_AT_ONCE)
_MAX_MEMORY = 1024 * 1024
"""The memory of one expression with its cache, in bytes: RE2's own default is 8 MiB."""
_MAX_GROUPS = 32
"""RE2 copies all groups for each instruction that it follows: 20,000 groups took 6 GiB."""
_MAX_INSTRUCTIONS = 1024
_MAX_STEPS = 64 * 1024 * _MAX_INSTRUCTIONS
"""Limit of one search in characters times instructions, each of which takes at most ten
nanoseconds.
"""
_allowance = threading.local()
"""The remaining CPU time for searches, and the total, in seconds."""


@lru_cache(maxsize=128)  # reloads may add new ones without end
def compiled(pattern: str) -> Pattern:
    """Compile an expression; raises PatternError."""
    import re2  # most configs have no regex, and the module takes a megabyte

    options = re2.Options()
    # RE2 would write to stderr by itself.
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        found: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        detail = error.args[0] if error.args else "it is broken"
        text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
        if text.startswith("pattern too large"):
            text = "it takes more than 1 MiB of memory"
        raise PatternError(text) from error
    if found.groups > _MAX_GROUPS:
        raise PatternError(f"it has {found.groups} groups: at most {_MAX_GROUPS} are allowed")
    if found.programsize > _MAX_INSTRUCTIONS:
        raise PatternError("it is too large: write it with fewer or smaller repetitions")
    return found


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Make searches of this thread raise SearchTimeError once they have used this much CPU time."""
    before = getattr(_allowance, "seconds", None)
    _allowance.seconds = (seconds, seconds)
    try:
        yield
    finally:
        _allowance.seconds = before


def search(pattern: str, text: str, *, whole: bool = False) -> RegexMatch | None:
    """Return the first match of an expression, or that of the whole text, if there is one.

    Raises PatternError; TextTooLongError, never for 64 KiB or less; and SearchTimeError.
    """
    begun, allowed = time.thread_time(), getattr(_allowance, "seconds", None)
    if allowed is not None and allowed[0] <= 0:
        raise SearchTimeError(allowed[1])
    try:
        expression = compiled(pattern)
        limit = _MAX_STEPS // expression.programsize
        if len(text) > limit:
            most = f"at most {limit >> 10} KiB"
            raise TextTooLongError(f"the text is too long for {pattern!r}: {most}")
        with _searching:
            return expression.fullmatch(text) if whole else expression.search(text)
    finally:
        if allowed is not None:
            _allowance.seconds = (allowed[0] - (time.thread_time() - begun), allowed[1])


def extract(pattern: str, text: str) -> str | None:
    """Search the text: return group 1 of the first match, else all of it; None without a match.

    Raises as ``search`` does.
    """
    hit = search(pattern, text)
    if hit is None:
        return None
    return hit.group(1) if compiled(pattern).groups else hit.group(0)


@atexit.register
def _end_searches() -> None:
    """Wait until no thread searches, and prevent new searches.

    When Python exits, it ends daemon threads where they next acquire its lock. Within RE2, which
    is C++, that aborts the process.
    """
    for _ in range(_MAX_AT_ONCE):
        _searching.acquire()
