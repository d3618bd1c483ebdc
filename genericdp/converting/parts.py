"""The document of a peer: each part knows its place, and what is wrong with it is collected."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.config.read import read
from genericdp.config.scalars import Unclear, meant_boolean
from genericdp.config.tree import shown_path
from genericdp.converting.writing import value_lines
from genericdp.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.config.tree import Path, YamlNode

_COUNT = re.compile(r"0|[1-9][0-9]{0,17}")
_NO_CONFIG = "give it the config of the plugin that is named after --from"


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One text of a peer and the problems that were found in it."""

    file: str
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A value of a peer's document."""

    node: YamlNode
    path: Path
    source: Source

    @property
    def shown(self) -> str:
        """Its path without the leading dot."""
        return shown_path(self.path).removeprefix(".")

    @property
    def is_null(self) -> bool:
        """Whether nothing is written there, or null."""
        node = self.node
        return node.scalar is None and node.items is None and node.entries is None

    def fail(self, message: str, hint: str = "") -> None:
        """Collect a problem at this place."""
        mark, path = self.node.mark, shown_path(self.path)
        self.source.problems.append(
            Problem(
                file=self.source.file,
                line=mark.line,
                column=mark.column,
                path=path,
                message=message,
                hint=hint,
            )
        )

    def keys(self) -> Keys:
        """Give what a mapping holds; anything else is a problem and holds nothing."""
        if self.node.items is None and not self.is_null:
            self.fail("a mapping is expected here")
        items = self.node.items or {}
        found = {key: self._child(key, node) for key, (_, node) in items.items()}
        return Keys(self, found)

    def entries(self) -> tuple[Part, ...]:
        """Give what a list holds; anything else is a problem and holds nothing."""
        if self.node.entries is None and not self.is_null:
            self.fail("a list is expected here")
        return tuple(self._child(i, node) for i, node in enumerate(self.node.entries or ()))

    def text(self) -> str:
        """Give a scalar as it is written; anything else is a problem and an empty text."""
        if self.node.items is not None or self.node.entries is not None:
            self.fail("a text is expected here")
            return ""
        if self.node.source is not None:
            return "" if self.node.scalar is None else self.node.source
        return str(self.node.scalar)

    def texts(self) -> tuple[str, ...]:
        """Give a list of scalars as they are written."""
        found = []
        for entry in self.entries():
            if text := entry.text():
                found.append(text)
            else:
                entry.fail("a text is expected here")
        return tuple(found)

    def number(self) -> int:
        """Give a whole number that is not negative; anything else is a problem and 0."""
        text = self.text()
        # Not 010, which is 8 to the parser of many a peer.
        if _COUNT.fullmatch(text):
            return int(text)
        self.fail(f"a whole number from 0 is expected here, not {text[:40]!r}")
        return 0

    def is_true(self) -> bool:
        """Give a boolean; anything else is a problem and false."""
        found = meant_boolean(self.text())
        if found is None:
            self.fail("true or false is expected here")
        return found is True

    def lines(self) -> list[str]:
        """Give it as lines of YAML, with its key."""
        name = self.path[-1] if self.path and isinstance(self.path[-1], str) else ""
        return value_lines(name, _plain(self.node))

    def _child(self, step: str | int, node: YamlNode) -> Part:
        return Part(node=node, path=(*self.path, step), source=self.source)


@dataclass(slots=True)
class Keys:
    """The keys of a mapping that nothing was made of yet."""

    of: Part
    left: dict[str, Part]

    def take(self, name: str) -> Part | None:
        """Give the value of a key, in whatever case it is written, unless it is null."""
        for key, part in self.left.items():
            if key.lower() == name.lower():
                del self.left[key]
                return None if part.is_null else part
        return None

    def has(self, *names: str) -> bool:
        """Say whether one of the keys is there."""
        return any(key.lower() in {name.lower() for name in names} for key in self.left)

    def text(self, name: str, default: str = "") -> str:
        """Take a text."""
        part = self.take(name)
        return default if part is None else part.text()

    def texts(self, name: str) -> tuple[str, ...]:
        """Take a list of texts."""
        part = self.take(name)
        return () if part is None else part.texts()

    def number(self, name: str, default: int) -> int:
        """Take a whole number."""
        part = self.take(name)
        return default if part is None else part.number()

    def is_true(self, name: str) -> bool:
        """Take a boolean, false by default."""
        part = self.take(name)
        return part is not None and part.is_true()

    def kept(self, why: dict[str, str], unknown: str) -> Iterator[str]:
        """Take what is left, as comments: the keys that ``why`` names, then those it does not."""
        reasons = {name.lower(): reason for name, reason in why.items()}
        for key in tuple(self.left):
            part = self.left.pop(key)
            yield from kept(part, reasons.get(key.lower(), unknown))


def kept(part: Part, why: str) -> Iterator[str]:
    """Give the comment that keeps a part which nothing is made of."""
    yield f"Not converted, {part.shown or 'this'}: {why}"
    yield from (f"    {line}" for line in part.lines())


def parts(source: Source, content: bytes) -> tuple[Part, ...]:
    """Take a peer's YAML or JSON apart; gives nothing where there are problems."""
    # JSON may be indented with tabs, which YAML refuses; no text of JSON holds one.
    if content.lstrip()[:1] in (b"{", b"["):
        content = content.replace(b"\t", b" ")
    documents, problems = read(source.file, content, if_empty=_NO_CONFIG)
    source.problems.extend(problems)
    if problems:
        return ()
    return tuple(Part(node=one.root, path=(), source=source) for one in documents)


def _plain(node: YamlNode) -> object:
    if node.items is not None:
        return {key: _plain(value) for key, (_, value) in node.items.items()}
    if node.entries is not None:
        return [_plain(entry) for entry in node.entries]
    if isinstance(node.scalar, Unclear):
        return node.scalar.source
    return node.scalar
