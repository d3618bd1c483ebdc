"""Parser events into nodes, with limits on depth and on what aliases multiply."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from genericdp.config.scalars import plain, quoted, reading
from genericdp.config.tree import Mark, Path, YamlNode, shown_path
from genericdp.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    Event = Any  # the types of PyYAML lack most attributes
    Events = Iterator[Event]

MAX_DEPTH = 32
MAX_ALIASED_NODES = 10_000
MAX_ALIASED_CHARACTERS = 1024 * 1024
_OWN_TAGS = {
    yaml.ScalarEvent: {"!", "tag:yaml.org,2002:str"},
    yaml.SequenceStartEvent: {"tag:yaml.org,2002:seq"},
    yaml.MappingStartEvent: {"tag:yaml.org,2002:map"},
}
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


class StoppedError(Exception):
    """The rest of the file is not looked at: its problem is among the others."""


class Composer:
    """Builds the documents of one file and collects what is wrong with them."""

    def __init__(self, file: str, text: str) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._text = text
        self._anchors: dict[str, YamlNode | None] = {}
        self._aliased_nodes = 0
        self._aliased_characters = 0

    def documents(self, events: Events) -> Iterator[YamlNode]:
        """Give the root of each document; raises StoppedError at a limit."""
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                yield self._node(next(events), events, ())

    def _node(self, event: Event, events: Events, path: Path) -> YamlNode:
        mark = Mark(event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(str(event.anchor), mark, path)
        if len(path) >= MAX_DEPTH:
            self._stop(mark, path[:3], f"nested deeper than {MAX_DEPTH} levels")
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        faulty = self._has_foreign_tag(event, mark, path)
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event, mark, path, faulty=faulty)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._list(events, mark, path, faulty=faulty)
        else:
            node = self._mapping(events, mark, path, faulty=faulty)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _aliased(self, anchor: str, mark: Mark, path: Path) -> YamlNode:
        if anchor not in self._anchors:
            self._report(mark, path, f"the alias '*{anchor}' has no anchor '&{anchor}' before it")
            return YamlNode(mark=mark, faulty=True)
        node = self._anchors[anchor]
        if node is None:
            self._stop(mark, path, f"the alias '*{anchor}' stands inside of its own anchor")
            raise AssertionError
        self._aliased_nodes += node.size
        self._aliased_characters += node.characters
        if self._aliased_nodes > MAX_ALIASED_NODES:
            self._stop(mark, path, f"aliases repeat more than {MAX_ALIASED_NODES} values")
        if self._aliased_characters > MAX_ALIASED_CHARACTERS:
            self._stop(mark, path, "aliases repeat more than 1 MiB of text")
        return node

    def _scalar(self, event: Event, mark: Mark, path: Path, *, faulty: bool) -> YamlNode:
        text: str = event.value
        if _NO_TEXT.search(text):
            self._report(mark, path, "a text cannot hold a NUL or half of a surrogate pair")
            faulty = True
        is_plain = not event.style and event.tag is None
        before = event.start_mark.index - 1
        if is_plain and not text and self._text[before : before + 1] == "-":
            mark = Mark(mark.line, mark.column - 1)
        return YamlNode(
            mark=mark,
            scalar=plain(text) if is_plain else text,
            source=text if is_plain else None,
            characters=len(text),
            faulty=faulty,
        )

    def _list(self, events: Events, mark: Mark, path: Path, *, faulty: bool) -> YamlNode:
        entries: list[YamlNode] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            entries.append(self._node(event, events, (*path, len(entries))))
        return YamlNode(
            mark=mark,
            entries=tuple(entries),
            faulty=faulty,
            size=1 + sum(entry.size for entry in entries),
            characters=sum(entry.characters for entry in entries),
        )

    def _mapping(self, events: Events, mark: Mark, path: Path, *, faulty: bool) -> YamlNode:
        items: dict[str, tuple[Mark, YamlNode]] = {}
        size, characters = 1, 0
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key = self._key(event, events, path)
            step = key[0] if key else "?"
            value = self._node(next(events), events, (*path, step))
            size += 1 + value.size
            characters += value.characters + len(step)
            if key is None:
                continue
            if key[0] in items:
                first = items[key[0]][0].line
                self._report(
                    key[1],
                    (*path, key[0]),
                    f"the key {key[0]!r} is given twice, first in line {first}",
                )
                continue
            if value.source == "":
                # Nothing is written there that a message could point to.
                value = YamlNode(mark=key[1], source="", faulty=value.faulty)
            items[key[0]] = (key[1], value)
        return YamlNode(mark=mark, items=items, faulty=faulty, size=size, characters=characters)

    def _key(self, event: Event, events: Events, path: Path) -> tuple[str, Mark] | None:
        node = self._node(event, events, (*path, "?"))
        if node.faulty:
            return None
        if node.items is not None or node.entries is not None:
            self._report(node.mark, path, "a key must be a text, not a list or a mapping")
            return None
        if isinstance(node.scalar, str):
            return node.scalar, node.mark
        source = node.source or ""
        if source == "<<":
            message = "merge keys ('<<') are not part of the language"
            hint = "alias whole values, as in 'key: *name', or write the keys out"
        elif not source:
            message, hint = "a key is missing before ':'", ""
        else:
            message = f"the key {source} is read as {reading(source)} by some YAML"
            hint = f"write {quoted(source)}"
        self._report(node.mark, path, message, hint)
        return None

    def _has_foreign_tag(self, event: Event, mark: Mark, path: Path) -> bool:
        if event.tag is None or event.tag in _OWN_TAGS[type(event)]:
            return False
        self._report(mark, path, f"the tag {event.tag!r} is not taken", "write a plain value")
        return True

    def _report(self, mark: Mark, path: Path, message: str, hint: str = "") -> None:
        self.problems.append(
            Problem(
                file=self._file,
                line=mark.line,
                column=mark.column,
                path=shown_path(path),
                message=message,
                hint=hint,
            )
        )

    def _stop(self, mark: Mark, path: Path, message: str) -> None:
        self._report(mark, path, message)
        raise StoppedError
