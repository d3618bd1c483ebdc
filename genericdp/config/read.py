"""Parses YAML into documents, from the events of PyYAML's parser."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import yaml

from genericdp.config.document import INVALID, Document, Mark, YamlNode, problem_at
from genericdp.printing import lookalike_hint
from genericdp.scalars import plain, reading, single_quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.config.document import Plain
    from genericdp.errors import KeyPath, Problem

MAX_DEPTH = 32
MAX_REPEATED = 10_000

IF_EMPTY = "'genericdp init' writes one for this machine"
_PARSER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_TAGS = {
    yaml.ScalarEvent: "tag:yaml.org,2002:str",
    yaml.SequenceStartEvent: "tag:yaml.org,2002:seq",
    yaml.MappingStartEvent: "tag:yaml.org,2002:map",
}
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_NO_SPACE = re.compile(r"\s*(?:- +)*[A-Za-z]+:(?!//)\S")


def read(
    file: str, content: bytes, *, if_empty: str = IF_EMPTY
) -> tuple[list[Document], list[Problem]]:
    """Return the documents of a file, up to the first that is not YAML, and its problems.

    ``if_empty`` is the hint for a file without documents.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return [], [_not_utf8(file, content, error)]
    problems: list[Problem] = []
    written = [root for root in _roots(file, text, problems) if root.source != ""]
    if not written and not problems:
        message = "it contains no document" if text.strip() else "it is empty"
        problems.append(problem_at(file, Mark(1, 1), message, if_empty))
    return [Document(file=file, root=root, data=_plain_data(root)) for root in written], problems


def indentation(line: str) -> int:
    """Return how many spaces a line begins with."""
    return len(line) - len(line.lstrip(" "))


class _RefusedError(Exception):
    """A document is nested too deep or repeats too much; has the place and the message."""


def _roots(file: str, text: str, problems: list[Problem]) -> Iterator[YamlNode]:
    """Yield the root of each document; if the next one cannot be read, add a problem."""
    events = yaml.parse(text, Loader=_PARSER)
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                builder = _Builder(file, text, events)
                root = builder.node(next(events), ())
                next(events)  # its end, without which it is not a document
                problems += builder.problems
                yield root
    except _RefusedError as error:
        problems.append(problem_at(file, *error.args))
    except yaml.reader.ReaderError as error:
        # Wherever it was found, the first of its kind is one.
        place = _mark_in(text, text.find(chr(error.character)))
        what = f"the character U+{error.character:04X} is not allowed in YAML"
        problems.append(problem_at(file, place, f"{what}: is this a YAML file?"))
    except yaml.MarkedYAMLError as error:
        problems.append(_syntax_problem(file, text, error))
    except (ValueError, OverflowError) as error:
        # The parser in Python lets these through for escapes such as "\UFFFFFFFF".
        problems.append(problem_at(file, Mark(1, 1), f"not YAML: {error}"))


class _Builder:
    """Makes the nodes of a document, and collects their problems.

    PyYAML's own composer crashes on deep nesting and follows cycles.
    """

    def __init__(self, file: str, text: str, events: Iterator[Any]) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._text = text
        self._events = events
        self._anchored: dict[str | None, tuple[YamlNode, int] | None] = {}
        """The node and its size, by anchor; None if the node has not ended yet."""
        self._size = self._repeated = 0
        """In values; each 100 characters of a string count as one more."""

    def node(self, event: Any, path: KeyPath) -> YamlNode:  # noqa: ANN401  # PyYAML lacks the types
        """Return the node that an event begins; aliases yield the same node each time."""
        mark = _mark(event.start_mark)
        if len(path) >= MAX_DEPTH:
            raise _RefusedError(mark, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(event.anchor, mark)
        if event.anchor is None:
            return self._build(event, mark, path)
        if event.anchor in self._anchored:
            raise _RefusedError(mark, f"duplicate anchor '&{event.anchor}'")
        self._anchored[event.anchor] = None
        before = self._size
        node = self._build(event, mark, path)
        self._anchored[event.anchor] = node, self._size - before
        return node

    def _aliased(self, anchor: str | None, mark: Mark) -> YamlNode:
        if anchor not in self._anchored:
            raise _RefusedError(mark, f"the alias '*{anchor}' has no anchor '&{anchor}' before it")
        if (anchored := self._anchored[anchor]) is None:
            raise _RefusedError(mark, f"the alias '*{anchor}' is inside its own anchor")
        node, size = anchored
        self._size += size
        self._repeated += size
        if self._repeated > MAX_REPEATED:
            message = f"aliases repeat more than {MAX_REPEATED} values, or long strings"
            raise _RefusedError(mark, message)
        return node

    def _build(self, event: Any, mark: Mark, path: KeyPath) -> YamlNode:  # noqa: ANN401
        self._size += 1
        if faulty := event.tag not in {None, "!", _TAGS[type(event)]}:
            message = f"the tag {event.tag!r} is not allowed"
            self._report(mark, path, message, "write a plain value")
        if isinstance(event, yaml.MappingStartEvent):
            return YamlNode(mark=mark, items=self._items(path), faulty=faulty)
        if isinstance(event, yaml.SequenceStartEvent):
            entries = (self.node(child, (*path, i)) for i, child in enumerate(self._children()))
            return YamlNode(mark=mark, entries=tuple(entries), faulty=faulty)
        text: str = event.value
        self._size += len(text) // 100
        if _NO_TEXT.search(text):
            self._report(mark, path, "a string cannot contain NUL or half of a surrogate pair")
            faulty = True
        is_unquoted, _ = event.implicit
        if not is_unquoted:
            return YamlNode(mark=mark, scalar=text, faulty=faulty)
        before = event.start_mark.index - 1
        if not text and self._text[before : before + 1] == "-":
            mark = Mark(mark.line, mark.column - 1)
        return YamlNode(mark=mark, scalar=plain(text), source=text, faulty=faulty)

    def _children(self) -> Iterator[Any]:
        """Yield the first event of each entry of a collection, up to the event of its end."""
        return takewhile(lambda event: not isinstance(event, yaml.CollectionEndEvent), self._events)

    def _items(self, path: KeyPath) -> dict[str, tuple[Mark, YamlNode]]:
        items: dict[str, tuple[Mark, YamlNode]] = {}
        for event in self._children():
            key = self.node(event, (*path, "?"))
            name = self._key(key, path)
            value = self.node(next(self._events), (*path, "?" if name is None else name))
            if name is None:
                continue
            if name in items:
                message = f"duplicate key {name!r}, first on line {items[name][0].line}"
                self._report(key.mark, (*path, name), message)
                continue
            if value.source == "":
                # Nothing is written there that a message could point to.
                value = replace(value, mark=key.mark)
            items[name] = (key.mark, value if key.scalar == name else replace(value, faulty=True))
        return items

    def _key(self, key: YamlNode, path: KeyPath) -> str | None:
        """Return the text of a key, even of one that should be quoted, or None."""
        if isinstance(key.scalar, str) or key.faulty:
            return key.scalar if isinstance(key.scalar, str) and not key.faulty else None
        if key.items is not None or key.entries is not None:
            message = "a key must be a string, not a list or a mapping"
            nested = self._text.splitlines()[key.mark.line - 1][: key.mark.column].endswith("{{")
            hint = "a template is $(device.path), in quotes where it begins with '{'"
            self._report(key.mark, path, message, hint if nested else "")
            return None
        if key.source == "<<":
            message = "merge keys ('<<') are not supported"
            hint = "alias whole values, as in 'key: *name', or write the keys out"
        elif not key.source:
            message, hint = "a key is missing before ':'", ""
        else:
            message = f"the key {key.source} is read as {reading(key.source)} by some YAML parsers"
            hint = f"write {single_quoted(key.source)}"
        self._report(key.mark, path, message, hint)
        return key.source if key.source not in {None, "", "<<"} else None

    def _report(self, mark: Mark, path: KeyPath, message: str, hint: str = "") -> None:
        self.problems.append(problem_at(self._file, mark, message, hint, path))


def _plain_data(node: YamlNode) -> Plain:
    if node.faulty:
        return INVALID
    if node.items is not None:
        return {key: _plain_data(value) for key, (_, value) in node.items.items()}
    if node.entries is not None:
        return [_plain_data(entry) for entry in node.entries]
    return node.scalar


def _not_utf8(file: str, content: bytes, error: UnicodeDecodeError) -> Problem:
    before = content[: error.start].decode("utf-8-sig", "replace")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        message = "it is UTF-16 text, not UTF-8"
    else:
        message = f"it is not UTF-8 text: byte 0x{content[error.start]:02x}"
    mark = _mark_in(before, len(before))
    return problem_at(file, mark, message, "save the file as UTF-8")


def _syntax_problem(file: str, text: str, error: yaml.MarkedYAMLError) -> Problem:
    lines = text.splitlines() or [""]
    mark, begin = error.problem_mark, error.context_mark
    message = f"not YAML: {error.problem or error}"
    if error.context:
        message += f" {error.context}"
        if begin is not None and (mark is None or begin.line != mark.line):
            message += f" that begins on line {begin.line + 1}"
    # At the end of the file there is nothing to point to, so point to its beginning.
    known = [
        position
        for position in (mark, begin)
        if position is not None and position.line < len(lines)
    ]
    if known:
        place = _mark(known[0])
    else:
        last = len(text.rstrip().splitlines() or [""])
        place = Mark(last, max(1, len(lines[last - 1].rstrip())))
    line, column = lines[place.line - 1], place.column - 1
    if line[column : column + 1] == "\t" and not line[:column].strip(" \t-"):
        return problem_at(file, place, "not YAML: a tab cannot indent", "use spaces")
    return problem_at(file, place, message, _syntax_hint(lines, place, known[1:]))


def _syntax_hint(lines: list[str], place: Mark, begun: list[yaml.Mark]) -> str:
    """Return a hint about the probable intention, from the text at the place and at the
    beginning.
    """
    line, column = lines[place.line - 1], place.column - 1
    if line.startswith("%YAML"):
        return "omit this line: YAML 1.1 and 1.2 are read"
    if "${" in line or "{{" in line:
        return "templates are written $(device.path)"
    if hint := lookalike_hint(line.partition(" #")[0]):
        return hint
    for begin in begun:
        first = lines[begin.line][begin.column : begin.column + 1]
        if first and first in "*&!%@`":
            return f"quote a string that begins with {first!r}"
        if line[:column].strip(" -") == "" and begin.line < place.line - 1:
            if ":" not in lines[begin.line]:
                return f"line {begin.line + 1} lacks a ': '"
            return f"what belongs together begins in one column, here {begin.column + 1}"
    return "" if begun or line[column : column + 1] != ":" else _colon_hint(lines, place)


def _colon_hint(lines: list[str], place: Mark) -> str:
    line = lines[place.line - 1]
    if any(map(_NO_SPACE.match, lines[max(0, place.line - 2) : place.line])):
        return "write a space after the ':' of a key"
    if ": " in line[: place.column - 1]:
        return "quote a string that holds ': '"
    above = next((text for text in reversed(lines[: place.line - 1]) if text.strip()), "")
    if indentation(above) == indentation(line):
        return f"line {place.line - 1} lacks a ': '"
    return "begin the key in the same column as the one above"


def _mark(mark: Any) -> Mark:  # noqa: ANN401  # each loader of PyYAML has marks of its own
    return Mark(mark.line + 1, mark.column + 1)


def _mark_in(text: str, at: int) -> Mark:
    before = text[:at].replace("\r\n", "\n").replace("\r", "\n")
    return Mark(before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
