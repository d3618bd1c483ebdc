"""Whether all that one glob stands for is among what another one stands for."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from genericdp.glob import has_wildcard, matches, may_name, unescape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MOST_STEPS = 50_000
"""Patterns for which more are needed are written to be hard: they count as not covered."""


def lies_within(inner: Sequence[str], outer: Sequence[str]) -> bool:
    """Return whether each path that ``inner`` stands for is one that ``outer`` stands for.

    Where it says so it is so; where it does not, it may be too hard to tell. But for a dot that
    begins a text which is not known yet: ``is_within`` tells of that.
    """
    if len(outer) > len(inner):
        return False
    return all(
        may_name(wide, narrow) and covers(wide, narrow)
        for wide, narrow in zip(outer, inner, strict=False)
    )


@lru_cache(maxsize=4096)
def covers(wide: str, narrow: str) -> bool:
    """Return whether every text that the glob ``narrow`` matches is matched by ``wide``.

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
        """Return which characters a single one may be; None for ``*``."""
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
    """Return characters of which one behaves as any other does in these patterns.

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
    """Return where the bracket that opens at ``at`` is closed, or 0 if it is not."""
    first = at + 2 if pattern[at + 1 : at + 2] == "!" else at + 1
    # A `]` right after the bracket (or after its `!`) stands for itself.
    return max(0, pattern.find("]", first + 1))
