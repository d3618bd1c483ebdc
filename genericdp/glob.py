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
    """Say whether the text holds a character that makes it a pattern."""
    return _MAGIC.search(text) is not None


def escape(text: str) -> str:
    """Make a pattern that matches exactly this text."""
    return _MAGIC.sub(lambda found: f"[{found.group()}]", text)


def unescape(pattern: str) -> str:
    """Give the only text that an escaped pattern matches; undoes ``escape``."""
    return _ESCAPED.sub(r"\1", pattern)


def has_wildcard(pattern: str) -> bool:
    """Say whether the pattern can match more than the one text of ``unescape``."""
    return is_glob(_ESCAPED.sub("", pattern))


def matches(pattern: str, text: str, *, ignore_case: bool = False) -> bool:
    """Say whether the whole text matches the pattern."""
    return _compiled(pattern, ignore_case).match(text) is not None


def matches_any(patterns: Iterable[str], text: str, *, ignore_case: bool = False) -> bool:
    """Say whether the whole text matches one of the patterns."""
    return any(matches(pattern, text, ignore_case=ignore_case) for pattern in patterns)


@lru_cache(maxsize=4096)
def _compiled(pattern: str, ignore_case: bool) -> re.Pattern[str]:  # noqa: FBT001
    # fnmatch makes each `*` but the last atomic, so that no text makes it backtrack.
    return re.compile(fnmatch.translate(pattern), re.IGNORECASE if ignore_case else 0)


def pattern_problem(pattern: str) -> str | None:
    """Say what is wrong with a pattern, if anything."""
    at = 0
    while (at := pattern.find("[", at)) != -1:
        # A `]` right after the bracket (or after its `!`) stands for itself.
        first = at + 2 if pattern[at + 1 : at + 2] == "!" else at + 1
        end = pattern.find("]", first + 1)
        if end == -1:
            return f"the bracket at character {at + 1} of {pattern!r} is not closed"
        if (reversed_range := _reversed_range(pattern[first:end])) is not None:
            return f"the range {reversed_range!r} in {pattern!r} runs backwards and matches nothing"
        at = end + 1
    return None


def _reversed_range(members: str) -> str | None:
    for found in re.finditer(r"(?s)(.)-(.)", members):
        if found[1] > found[2]:
            return found[0]
    return None


def path_problem(pattern: str) -> str | None:
    """Say what is wrong with a pattern for absolute paths, if anything."""
    if not pattern.startswith("/"):
        return f"{pattern!r} is not an absolute path"
    if "\0" in pattern or "\n" in pattern:
        return "a path cannot hold a NUL or a newline"
    segments = pattern.split("/")
    if ".." in segments:
        return f"{pattern!r} holds '..'"
    if pattern != "/" and not {"", "."}.isdisjoint(segments[1:]):
        return f"{pattern!r} holds '//' or '/./' or ends in '/'"
    if any("**" in segment for segment in segments):
        return f"{pattern!r} holds '**': a glob matches within one folder"
    return pattern_problem(pattern)


Segments = tuple[str, ...]
"""A path as globs, one for each part of it; it stands for what they match and all below."""

_MOST_STEPS = 50_000
"""Patterns for which more are needed are written to be hard: they count as not covered."""


def segments_of(path: str) -> Segments:
    """Take an absolute path or glob apart."""
    return tuple(part for part in path.split("/") if part not in {"", "."})


def lies_within(inner: Sequence[str], outer: Sequence[str]) -> bool:
    """Say whether each path that ``inner`` stands for is one that ``outer`` stands for.

    Where it says so it is so; where it does not, it may be too hard to tell. But for a dot that
    begins a text which is not known yet: ``is_within`` tells of that.
    """
    if len(outer) > len(inner):
        return False
    return all(
        _may_name(wide, narrow) and covers(wide, narrow)
        for wide, narrow in zip(outer, inner, strict=False)
    )


def is_within(path: str, outer: Sequence[str]) -> bool:
    """Say whether one path, without wildcards, is one that ``outer`` stands for."""
    parts = segments_of(path)
    # Where `..` would lead depends on links.
    if ".." in parts or len(outer) > len(parts):
        return False
    return all(
        _may_name(wide, part) and matches(wide, part)
        for wide, part in zip(outer, parts, strict=False)
    )


def _may_name(wide: str, text: str) -> bool:
    """Say whether a pattern may stand for a text by the dots that they begin with, as in a shell.

    A pattern that begins with a wildcard stands for no name that begins with a dot.
    """
    return wide.startswith(".") or not text.startswith(".")


@lru_cache(maxsize=4096)
def covers(wide: str, narrow: str) -> bool:
    """Say whether every text that the glob ``narrow`` matches is matched by ``wide``.

    May say no where the patterns are too hard to compare.
    """
    if wide in {"*", narrow}:
        return True
    if not has_wildcard(narrow):
        return matches(wide, unescape(narrow))
    return _Comparison(wide, narrow).holds()


class _Comparison:
    """Looks for a text that ``narrow`` matches and ``wide`` does not.

    Both are automata whose states are places in the pattern. Where ``narrow`` is in one state,
    ``wide`` may be in several.
    """

    def __init__(self, wide: str, narrow: str) -> None:
        self._alphabet = _representatives(wide + narrow)
        self._wide = [self._taken_by(one) for one in _elements(wide)]
        self._narrow = [self._taken_by(one) for one in _elements(narrow)]

    def _taken_by(self, element: str) -> frozenset[str] | None:
        """Give which characters a single one may be; None for ``*``."""
        if element == "*":
            return None
        return frozenset(one for one in self._alphabet if matches(element, one))

    def holds(self) -> bool:
        first = (0, self._spread({0}))
        pending, seen, steps = [first], {first}, 0
        while pending:
            at, states = pending.pop()
            if at == len(self._narrow):
                if len(self._wide) not in states:
                    return False
                continue
            for following in self._following(at, states):
                steps += 1
                if steps > _MOST_STEPS:
                    return False
                if following not in seen:
                    seen.add(following)
                    pending.append(following)
        return True

    def _following(self, at: int, states: frozenset[int]) -> Iterable[tuple[int, frozenset[int]]]:
        taken = self._narrow[at]
        if taken is None:
            yield at + 1, states
        for character in self._alphabet if taken is None else taken:
            yield at + (taken is not None), self._step(states, character)

    def _step(self, states: frozenset[int], character: str) -> frozenset[int]:
        reached = set()
        for state in states:
            if state == len(self._wide):
                continue
            taken = self._wide[state]
            if taken is None:
                reached.add(state)
            elif character in taken:
                reached.add(state + 1)
        return self._spread(reached)

    def _spread(self, states: set[int]) -> frozenset[int]:
        """Add what is reached without a character: a ``*`` may stand for nothing."""
        for state in sorted(states):
            after = state
            while after < len(self._wide) and self._wide[after] is None:
                after += 1
                states.add(after)
        return frozenset(states)


def _representatives(patterns: str) -> tuple[str, ...]:
    """Give characters of which one behaves as any other does in these patterns.

    What a bracket takes changes only at a character that is written in it.
    """
    codes = {ord(character) + offset for character in patterns for offset in (-1, 0, 1)}
    return tuple(chr(code) for code in sorted(codes) if 0 < code <= 0x10FFFF)


def _elements(pattern: str) -> list[str]:
    """Take a glob apart into pieces that match one character each, and ``*``."""
    elements = []
    at = 0
    while at < len(pattern):
        end = bracket_end(pattern, at) if pattern[at] == "[" else 0
        piece = pattern[at : end + 1] if end else pattern[at]
        # A bracket that is not closed stands for itself.
        elements.append("[[]" if piece == "[" else piece)
        at += len(piece)
    return elements


def bracket_end(pattern: str, at: int) -> int:
    """Give where the bracket that opens at ``at`` is closed, or 0 if it is not."""
    first = at + 2 if pattern[at + 1 : at + 2] == "!" else at + 1
    # A `]` right after the bracket (or after its `!`) stands for itself.
    return max(0, pattern.find("]", first + 1))
