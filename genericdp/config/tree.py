"""A YAML document with the place of every key and value."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.config.scalars import Scalar

Plain = Any
"""A value as Python has it: a dict, a list, a scalar, or FAULTY."""

Path = tuple[str | int, ...]
"""The way to a value: keys of mappings and indices of lists."""

_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Mark(NamedTuple):
    """A place in a file, counted from 1, columns in characters."""

    line: int
    column: int


class Faulty:
    """Stands for a value that a problem was reported for: what it holds says nothing."""


FAULTY = Faulty()


@dataclass(frozen=True, kw_only=True, slots=True)
class YamlNode:
    """A scalar, a list or a mapping: one of the three is not None, or the scalar is null."""

    mark: Mark
    scalar: Scalar = None
    source: str | None = None
    """How an unquoted scalar is written."""
    entries: tuple[YamlNode, ...] | None = None
    items: dict[str, tuple[Mark, YamlNode]] | None = None
    """By key, the place of the key and the value."""
    faulty: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One document of a file; several may share a file."""

    file: str
    root: YamlNode
    data: Plain = field(compare=False)
    """The plain values, FAULTY where a problem was reported."""
    place: Mark | None = None
    """Where all of it stands, if it is a quoted text within a document."""

    def node(self, path: Path) -> YamlNode | None:
        """Return the node at a path, or None."""
        node: YamlNode | None = self.root
        for step in path:
            node = _child(node, step) if node is not None else None
        return node

    def mark(self, path: Path, *, of_key: bool = False) -> Mark:
        """Return the place of a value or of its key; where there is none, of what it belongs to."""
        if self.place is not None:
            return self.place
        if of_key and path:
            parent = self.node(path[:-1])
            if parent is not None and parent.items and path[-1] in parent.items:
                return parent.items[str(path[-1])][0]
        node = self.node(path)
        if node is None and path:
            return self.mark(path[:-1])
        return node.mark if node is not None else self.root.mark

    def keys(self, path: Path) -> frozenset[str]:
        """Return the keys that a mapping has as it is written, the wrong ones too."""
        node = self.node(path)
        return frozenset(node.items or ()) if node is not None else frozenset()


def _child(node: YamlNode, step: str | int) -> YamlNode | None:
    if isinstance(step, int):
        entries = node.entries or ()
        return entries[step] if step < len(entries) else None
    found = (node.items or {}).get(step)
    return found[1] if found else None


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
