"""A YAML document with the place of every key and value, and its problems."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from genericdp.errors import Finding, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence, Set

    from genericdp.errors import KeyPath
    from genericdp.scalars import Scalar

Plain = Any
"""A plain Python value: a dict, a list, a scalar, or INVALID."""

_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Mark(NamedTuple):
    """A place in a file, counted from 1, columns in characters."""

    line: int
    column: int


INVALID = object()
"""Placeholder for a value that already has a problem."""


@dataclass(frozen=True, kw_only=True, slots=True)
class YamlNode:
    """A scalar, a list or a mapping: one of the three is not None, or the scalar is null."""

    mark: Mark
    scalar: Scalar = None
    source: str | None = None
    """How an unquoted scalar is written."""
    entries: tuple[YamlNode, ...] | None = None
    items: dict[str, tuple[Mark, YamlNode]] | None = None
    """The place of each key, and its value, by key."""
    faulty: bool = False

    def child(self, step: str | int) -> tuple[Mark, YamlNode] | None:
        """Return the place of a key or list entry, and its value; or None."""
        if isinstance(step, str):
            return (self.items or {}).get(step)
        entries = self.entries or ()
        return (entries[step].mark, entries[step]) if step < len(entries) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One document of a file; several may share a file."""

    file: str
    root: YamlNode
    data: Plain = field(compare=False)
    """The plain values, INVALID where a problem was reported."""
    place: Mark | None = None
    """The place of the whole document, if it is a quoted string within another document."""

    def node(self, path: KeyPath) -> YamlNode | None:
        """Return the node at a path, or None."""
        node = self.root
        for step in path:
            if (found := node.child(step)) is None:
                return None
            _, node = found
        return node

    def mark(self, path: KeyPath, *, of_key: bool = False) -> Mark:
        """Return the place of a value or of its key; if it is missing, that of its parent."""
        if self.place is not None:
            return self.place
        node, key = self.root, self.root.mark
        for step in path:
            if (found := node.child(step)) is None:
                return node.mark
            key, node = found
        return key if of_key else node.mark

    def keys(self, path: KeyPath) -> Set[str]:
        """Return the keys of a mapping as it is written, including invalid ones."""
        node = self.node(path)
        return ((node and node.items) or {}).keys()


def shown_path(path: Sequence[str | int]) -> str:
    """Return a path as ``.resources[1].env["a b"]``."""
    return "".join(
        f"[{step}]"
        if isinstance(step, int)
        else f".{step}"
        if _SIMPLE_KEY.fullmatch(step)
        else f"[{json.dumps(step, ensure_ascii=False)}]"
        for step in path
    )


def problem_of(finding: Finding, document: Document) -> Problem:
    """Return the problem with its place in the file."""
    mark = document.mark(finding.path, of_key=finding.of_key)
    return problem_at(document.file, mark, finding.message, finding.hint, finding.path)


def problem_at(file: str, mark: Mark, message: str, hint: str = "", path: KeyPath = ()) -> Problem:
    """Return the problem at a place of a file."""
    where = shown_path(path)
    return Problem(
        file=file, line=mark.line, column=mark.column, path=where, message=message, hint=hint
    )


@dataclass(frozen=True, slots=True)
class Field:
    """A value of a document and the path to it; collects the problems that rules find."""

    document: Document
    path: KeyPath
    value: Any
    """None if the value is missing, or is not allowed by the schema."""
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
        """Its key in the mapping."""
        return str(self.path[-1])

    @property
    def place(self) -> str:
        """Return its place, as ``FILE:LINE:COLUMN``."""
        mark = self.document.mark(self.path)
        return f"{self.document.file}:{mark.line}:{mark.column}"

    @property
    def text(self) -> str | None:
        """The value if it is a string."""
        return self.value if isinstance(self.value, str) else None

    @property
    def source(self) -> str | None:
        """Return the spelling of an unquoted scalar."""
        node = self.document.node(self.path)
        return None if node is None else node.source

    def strings(self) -> Iterator[Field]:
        """Yield the value if it is a string, else each string below it."""
        if isinstance(self.value, str):
            yield self
        for inner in self:
            yield from inner.strings()

    def written(self) -> Set[str]:
        """Return the keys of a mapping as it is written, even those with invalid values."""
        return self.document.keys(self.path)

    def refuse(self, message: str, hint: str = "", *, of_key: bool = False) -> None:
        """Collect a mistake."""
        self.findings.append(Finding(self.path, message, hint, of_key=of_key))

    def warn(self, message: str, hint: str = "", *, of_key: bool = False) -> None:
        """Collect a warning."""
        self.findings.append(Finding(self.path, message, hint, of_key=of_key, warning=True))
