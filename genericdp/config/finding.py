"""What a rule has to say about a place of a document."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from genericdp.config.tree import shown_path
from genericdp.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from genericdp.config.tree import Document, Path

_MAX_SHOWN = 80
_MAX_GUESSED = 40
_MAX_LISTED = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One mistake, or a warning, at the value or the key that a path leads to."""

    path: Path
    message: str
    hint: str = ""
    of_key: bool = False
    warning: bool = False


def problem_of(finding: Finding, document: Document) -> Problem:
    """Give the problem with its place in the file."""
    mark = document.mark(finding.path, of_key=finding.of_key)
    return Problem(
        file=document.file,
        line=mark.line,
        column=mark.column,
        path=shown_path(finding.path),
        message=finding.message,
        hint=finding.hint,
    )


def shown(text: str) -> str:
    """Give a text in quotes, cut where it is long."""
    return repr(text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…")


def guess(word: str, known: Iterable[str]) -> str:
    """Give a hint for a word that is not among the known ones."""
    ordered = sorted(known)
    # Comparing is quadratic in the length: nobody mistypes by more than this.
    close = get_close_matches(word, ordered, n=1) if len(word) <= _MAX_GUESSED else []
    if close:
        return f"did you mean {close[0]!r}?"
    more = ", …" if len(ordered) > _MAX_LISTED else ""
    return f"known: {', '.join(ordered[:_MAX_LISTED])}{more}"


def exactly_one(
    path: Path, keys: frozenset[str], choices: tuple[str, ...], known: Iterable[str]
) -> Iterator[Finding]:
    """Say what is wrong unless a mapping has exactly one of the choices.

    An unknown key may be a misspelt choice: it is a problem already, so nothing counts as missing.
    """
    listed = ", ".join(choices)
    present = [choice for choice in choices if choice in keys]
    for extra in present[1:]:
        message = f"{extra!r} cannot stand beside {present[0]!r}"
        yield Finding(path=(*path, extra), message=message, hint=f"one of {listed}", of_key=True)
    if not present and keys <= set(known):
        yield Finding(path=path, message=f"exactly one of {listed} is required")
