"""A YAML document with the place of every key and value."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.config.scalars import Scalar

Plain = Any
"""A value as Python has it: a dict, a list, a scalar, or None where a wrong one was left out."""

Path = tuple[str | int, ...]
"""The way to a value: keys of mappings and indices of lists."""

_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a file, counted from 1, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True, kw_only=True, slots=True)
class YamlNode:
    """A scalar, a list or a mapping: one of the three is not None, or the scalar is null."""

    mark: Mark
    scalar: Scalar = None
    source: str | None = None
    """How an unquoted scalar is written."""
    entries: tuple[YamlNode, ...] | None = None
    items: dict[str, tuple[Mark, YamlNode]] | None = None
    faulty: bool = False
    """A problem was already reported here: what it holds says nothing."""
    size: int = 1
    """How many nodes it consists of, and how many characters: what an alias to it costs."""
    characters: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One document of a file; several may share a file."""

    file: str
    root: YamlNode
    data: Plain = field(compare=False)
    """The plain values, without what is ignored or faulty."""

    def node(self, path: Path) -> YamlNode | None:
        """Give the node at a path, if there is one."""
        node: YamlNode | None = self.root
        for step in path:
            node = _child(node, step) if node is not None else None
        return node

    def mark(self, path: Path, *, of_key: bool = False) -> Mark:
        """Give the place of a value or of its key; where there is none, of what it belongs to."""
        if of_key and path:
            parent = self.node(path[:-1])
            if parent is not None and parent.items and path[-1] in parent.items:
                return parent.items[str(path[-1])][0]
        node = self.node(path)
        if node is None and path:
            return self.mark(path[:-1])
        return node.mark if node is not None else self.root.mark

    def keys(self, path: Path) -> frozenset[str]:
        """Give the keys that a mapping has as it is written, the wrong ones too."""
        node = self.node(path)
        return frozenset(node.items or ()) if node is not None else frozenset()


def _child(node: YamlNode, step: str | int) -> YamlNode | None:
    if isinstance(step, int):
        entries = node.entries or ()
        return entries[step] if step < len(entries) else None
    found = (node.items or {}).get(step)
    return found[1] if found else None


def shown_path(path: Sequence[str | int]) -> str:
    """Write a path as ``.resources[1].env["a b"]``."""
    return "".join(
        f"[{step}]"
        if isinstance(step, int)
        else f".{step}"
        if _SIMPLE_KEY.fullmatch(step)
        else f"[{json.dumps(step, ensure_ascii=False)}]"
        for step in path
    )


def plain_data(node: YamlNode) -> Plain:
    """Give the values of a node as Python has them; aliased parts are shared."""
    if node.items is not None:
        return {key: plain_data(value) for key, (_, value) in node.items.items()}
    if node.entries is not None:
        return [plain_data(entry) for entry in node.entries]
    return node.scalar
