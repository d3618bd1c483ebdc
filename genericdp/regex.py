"""Regular expressions of a config: linear in the text, since hardware and drivers write that."""

from __future__ import annotations

import atexit
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class Match(Protocol):
    """One hit."""

    def group(self, which: int, /) -> str | None:
        """Give the text of a group; 0: of the whole hit."""


class Pattern(Protocol):
    """A compiled expression."""

    groups: int
    groupindex: Mapping[str, int]

    def search(self, text: str, /) -> Match | None:
        """Give the first hit, if there is one."""


class PatternError(ValueError):
    """A text that is no expression of RE2, with what is wrong."""


_MOST_AT_ONCE = 64
_searching = threading.Semaphore(_MOST_AT_ONCE)
_MOST_MEMORY = 1024 * 1024
"""Of one expression, with what it remembers of texts, in bytes: RE2's own default is 8 MiB."""


@lru_cache(maxsize=128)  # reloads bring ever new ones
def compiled(pattern: str) -> Pattern:
    """Compile an expression; raises PatternError."""
    import re2  # most configs have none, and it takes a megabyte

    options = re2.Options()
    # RE2 would write to stderr by itself.
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    try:
        found: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        detail = error.args[0] if error.args else "it is broken"
        text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
        if text.startswith("pattern too large"):
            text = "it takes more than 1 MiB of memory"
        raise PatternError(text) from error
    return found


def search(pattern: str, text: str) -> Match | None:
    """Return the first hit of an expression, if there is one; raises PatternError."""
    with _searching:
        return compiled(pattern).search(text)


def extract(pattern: str, text: str) -> str | None:
    """Search the text: give group 1 of the first hit, else all of it; None without a hit."""
    hit = search(pattern, text)
    if hit is None:
        return None
    return hit.group(1) if compiled(pattern).groups else hit.group(0)


@atexit.register
def _end_searches() -> None:
    """Wait until no thread searches, and let none begin.

    When Python exits, it ends daemon threads where they next ask for its lock. Within RE2, which
    is C++, that aborts the process.
    """
    for _ in range(_MOST_AT_ONCE):
        _searching.acquire()
