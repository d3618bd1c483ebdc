"""The one glob dialect of the config language: ``*``, ``?``, ``[…]`` and ``[!…]``."""

from __future__ import annotations

import fnmatch
import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAGIC = re.compile(r"[*?[]")
_ESCAPED = re.compile(r"\[([*?[])\]")


def is_glob(text: str) -> bool:
    """Return whether the text contains a character that makes it a pattern."""
    return _MAGIC.search(text) is not None


def escape(text: str) -> str:
    """Make a pattern that matches exactly this text."""
    return _MAGIC.sub(lambda found: f"[{found.group()}]", text)


def unescape(pattern: str) -> str:
    """Return the only text that an escaped pattern matches; undoes ``escape``."""
    return _ESCAPED.sub(r"\1", pattern)


def has_wildcard(pattern: str) -> bool:
    """Return whether the pattern can match more than the one text of ``unescape``."""
    return is_glob(_ESCAPED.sub("", pattern))


def matches(pattern: str, text: str, *, ignore_case: bool = False) -> bool:
    """Return whether the whole text matches the pattern."""
    return _compiled(pattern, ignore_case).match(text) is not None


def matches_any(patterns: Iterable[str], text: str, *, ignore_case: bool = False) -> bool:
    """Return whether the whole text matches one of the patterns."""
    return any(matches(pattern, text, ignore_case=ignore_case) for pattern in patterns)


@lru_cache(maxsize=4096)
def _compiled(pattern: str, ignore_case: bool) -> re.Pattern[str]:  # noqa: FBT001
    # fnmatch makes each `*` but the last atomic, so that no text makes it backtrack.
    return re.compile(fnmatch.translate(pattern), re.IGNORECASE if ignore_case else 0)


def pattern_problem(pattern: str, written: str = "") -> str | None:
    """Return the mistake in a pattern as it was written, if there is one."""
    written = written or pattern
    at = 0
    while (at := pattern.find("[", at)) != -1:
        # A `]` right after the bracket (or after its `!`) stands for itself.
        first = at + 2 if pattern[at + 1 : at + 2] == "!" else at + 1
        end = pattern.find("]", first + 1)
        if end == -1:
            return f"the bracket at character {at + 1} of {written!r} is not closed"
        for found in re.finditer(r"(?s)(.)-(.)", pattern[first:end]):
            if found[1] > found[2]:
                return f"the range {found[0]!r} in {written!r} runs backwards and matches nothing"
        at = end + 1
    return None


def path_problem(pattern: str, written: str = "") -> str | None:
    """Return the mistake in a pattern for absolute paths as it was written, if there is one."""
    written = written or pattern
    if not pattern.startswith("/"):
        return f"{written!r} is not an absolute path"
    if "\0" in pattern or "\n" in pattern:
        return "a path cannot hold a NUL or a newline"
    segments = pattern.split("/")
    if ".." in segments:
        return f"{written!r} holds '..'"
    if pattern != "/" and not {"", "."}.isdisjoint(segments[1:]):
        return f"{written!r} holds '//' or '/./' or ends in '/'"
    if any("**" in segment for segment in segments):
        return f"{written!r} holds '**': a glob matches within one directory"
    return pattern_problem(pattern, written)


def segments_of(path: str) -> tuple[str, ...]:
    """Split an absolute path or glob into segments, which also stand for everything below."""
    return tuple(part for part in path.split("/") if part not in {"", "."})


def is_within(path: str, outer: Sequence[str]) -> bool:
    """Return whether a path without wildcards is among those that ``outer`` stands for."""
    parts = segments_of(path)
    # Where `..` would lead depends on links.
    if ".." in parts or len(outer) > len(parts):
        return False
    return all(
        may_name(wide, part) and matches(wide, part)
        for wide, part in zip(outer, parts, strict=False)
    )


def may_name(wide: str, text: str) -> bool:
    """Return whether the leading dots of a pattern and a string allow a match, as in a shell.

    A pattern that begins with a wildcard matches no name that begins with a dot.
    """
    return wide.startswith(".") or not text.startswith(".")
