"""What is wrong with a value of a document, and the value with its place that rules look at."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from genericdp.config.tree import shown_path
from genericdp.errors import Problem
from genericdp.printing import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from genericdp.config.tree import Document, Path

MAX_SHOWN = 80
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
    """Return the problem with its place in the file."""
    mark = document.mark(finding.path, of_key=finding.of_key)
    return Problem(
        file=document.file,
        line=mark.line,
        column=mark.column,
        path=shown_path(finding.path),
        message=finding.message,
        hint=finding.hint,
    )


@dataclass(frozen=True, slots=True)
class Field:
    """A value of a document and the way to it; what rules find there is collected."""

    document: Document
    path: Path
    value: Any
    """None where nothing is written, or something that the schema does not allow."""
    findings: list[Finding]

    def __getitem__(self, key: str | int) -> Field:
        found = None
        if isinstance(self.value, dict):
            found = self.value.get(key)
        elif isinstance(self.value, list) and isinstance(key, int):
            found = self.value[key]
        return Field(self.document, (*self.path, key), found, self.findings)

    def __iter__(self) -> Iterator[Field]:
        """Yield the values of a mapping or a list that are not None."""
        keys: Iterable[str | int] = ()
        if isinstance(self.value, dict):
            keys = self.value
        elif isinstance(self.value, list):
            keys = range(len(self.value))
        for key in keys:
            if (field := self[key]).value is not None:
                yield field

    @property
    def key(self) -> str:
        """The key of the mapping that it stands at."""
        return str(self.path[-1])

    @property
    def text(self) -> str | None:
        """The value if it is a text."""
        return self.value if isinstance(self.value, str) else None

    def texts(self) -> list[tuple[Field, str]]:
        """Return a text, or each of a list of texts."""
        fields = self if isinstance(self.value, list) else [self]
        return [(field, field.value) for field in fields if isinstance(field.value, str)]

    def written(self) -> frozenset[str]:
        """Return the keys of a mapping as it is written, also where their values are wrong."""
        return self.document.keys(self.path)

    def refuse(self, message: str, hint: str = "", *, of_key: bool = False) -> None:
        """Collect a mistake."""
        self.findings.append(Finding(path=self.path, message=message, hint=hint, of_key=of_key))

    def warn(self, message: str, hint: str = "", *, of_key: bool = False) -> None:
        """Collect a warning."""
        self.findings.append(
            Finding(path=self.path, message=message, hint=hint, of_key=of_key, warning=True)
        )


def shown(text: str) -> str:
    """Return a text in quotes, cut where it is long."""
    return repr(shortened(text, MAX_SHOWN))


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant, if one is close."""
    # Comparing is quadratic in the length: nobody mistypes by more than this.
    close = get_close_matches(word, sorted(known), n=1) if len(word) <= _MAX_GUESSED else []
    return close[0] if close else None


def guess(word: str, known: Iterable[str]) -> str:
    """Return a hint for a word that is not among the known ones."""
    ordered = sorted(known)
    if (meant := closest(word, ordered)) is not None:
        return f"did you mean {meant!r}?"
    more = ", …" if len(ordered) > _MAX_LISTED else ""
    return f"known: {', '.join(ordered[:_MAX_LISTED])}{more}"
