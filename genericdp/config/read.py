"""YAML text into documents: PyYAML composes what does not nest too deep or repeat too much."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import yaml

from genericdp.config.document import FAULTY, Document, Mark, YamlNode, problem_at
from genericdp.config.files import SUFFIXES
from genericdp.config.schema import KINDS
from genericdp.scalars import plain, reading, single_quoted

if TYPE_CHECKING:
    from genericdp.config.document import KeyPath, Plain
    from genericdp.errors import Problem

MAX_DEPTH = 32
MAX_REPEATED = 10_000

_IF_EMPTY = "see 'genericdp schema'"
_UNQUOTED = "unquoted scalar"
"""The tag of a scalar whose meaning is not decided yet; no file can have it, for the space."""
_TAGS = {
    yaml.ScalarNode: {_UNQUOTED, "tag:yaml.org,2002:str"},
    yaml.SequenceNode: {"tag:yaml.org,2002:seq"},
    yaml.MappingNode: {"tag:yaml.org,2002:map"},
}
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_NO_SPACE = re.compile(r"\s*(?:- +)*[A-Za-z]+:(?!//)\S")
_SEPARATORS = ("---", "...", "%")
_OURS = {*KINDS, "List", ""}
_NO_CONFIG = "the ConfigMap holds no config: no text of its data has a key in .yaml or .yml"


def read_config(
    file: str, content: bytes, *, if_empty: str = _IF_EMPTY
) -> tuple[list[Document], list[Problem]]:
    """Return the documents of a file and its problems; of a ConfigMap, those of the files in it.

    What else is beside a ConfigMap that holds a config, as other manifests, is left out.
    """
    documents: list[Document] = []
    others: list[Document] = []
    has_config = False
    found, problems = read(file, content, if_empty=if_empty)
    for document in found:
        keys = document.data if isinstance(document.data, dict) else {}
        version, kind = (str(keys.get(key) or "") for key in ("apiVersion", "kind"))
        if (version, kind) == ("v1", "ConfigMap"):
            inner, wrong = _unwrap(document, content.decode("utf-8-sig"))
            documents += inner
            problems += wrong
            has_config |= bool(inner)
        elif version and kind not in _OURS and not version.startswith("genericdp.io/"):
            others.append(document)
        else:
            documents.append(document)
    if has_config:
        return documents, [one for one in problems if one.message != _NO_CONFIG]
    return documents + others, problems


def read(
    file: str, content: bytes, *, if_empty: str = _IF_EMPTY
) -> tuple[list[Document], list[Problem]]:
    """Return the documents of a file, up to the first that is not YAML, and its problems.

    ``if_empty`` is the hint for a file that holds none.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return [], [_not_utf8(file, content, error)]
    problems: list[Problem] = []
    composed = islice(yaml.compose_all(text, Loader=_Loader), _checked(file, text, problems))
    roots = [_Builder(file, text, problems).node(one, ()) for one in composed]
    written = [root for root in roots if root.source != ""]
    if not written and not problems:
        message = "it contains no document" if text.strip() else "it is empty"
        problems.append(problem_at(file, Mark(1, 1), message, if_empty))
    return [Document(file=file, root=root, data=_plain_data(root)) for root in written], problems


def _unwrap(config_map: Document, text: str) -> tuple[list[Document], list[Problem]]:
    """Return the documents in the data of a ConfigMap: those of each file of a mount of it."""
    documents: list[Document] = []
    problems: list[Problem] = []
    data = config_map.node(("data",))
    files = {
        key: value
        for key, (_, value) in ((data and data.items) or {}).items()
        if key.endswith(SUFFIXES) and not key.startswith(".") and isinstance(value.scalar, str)
    }
    if not files:
        problems.append(problem_at(config_map.file, config_map.mark(("data",)), _NO_CONFIG))
    lines = text.splitlines()
    for value in files.values():
        inner = str(value.scalar)
        if lines[value.mark.line - 1][value.mark.column - 1 :].startswith("|"):
            found, wrong = read(config_map.file, _in_place(inner, value.mark, lines).encode())
        else:
            found, wrong = read(config_map.file, inner.encode())
            found = [replace(one, place=value.mark) for one in found]
            wrong = [replace(one, line=value.mark.line, column=value.mark.column) for one in wrong]
        documents += found
        problems += wrong
    return documents, problems


def _in_place(inner: str, mark: Mark, lines: list[str]) -> str:
    """Return the text of a block scalar so that all in it has the place that it has in the file."""
    rows = inner.split("\n")
    first = next((i for i, row in enumerate(rows) if row.strip()), 0)
    outer = lines[mark.line + first] if mark.line + first < len(lines) else ""
    indent = " " * (_indentation(outer) - _indentation(rows[first]))
    moved = (row if row.startswith(_SEPARATORS) else f"{indent}{row}" for row in rows)
    return "\n" * mark.line + "\n".join(moved)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


class _Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
    """Leaves open what an unquoted scalar means."""


_Loader.add_implicit_resolver(_UNQUOTED, re.compile(""), None)


def _checked(file: str, text: str, problems: list[Problem]) -> int:
    """Return how many documents can be composed; why not the next one is a problem.

    PyYAML's composer crashes on deep nesting and follows cycles.
    """
    checked = 0
    extent = _Extent()
    try:
        for event in yaml.parse(text, Loader=_Loader):
            if isinstance(event, yaml.DocumentEndEvent):
                checked += 1
                extent = _Extent()
            elif isinstance(event, _IN_DOCUMENT) and (message := extent.add(event)):
                problems.append(problem_at(file, _mark(event.start_mark), message))
                break
    except yaml.reader.ReaderError as error:
        # Wherever it was found, the first of its kind is one.
        place = _mark_in(text, text.find(chr(error.character)))
        what = f"the character U+{error.character:04X} is not allowed in YAML"
        problems.append(problem_at(file, place, f"{what}: is this a text file?"))
    except yaml.MarkedYAMLError as error:
        problems.append(_syntax_problem(file, text, error))
    except (ValueError, OverflowError) as error:
        # The loader in Python lets these through for escapes such as "\UFFFFFFFF".
        problems.append(problem_at(file, Mark(1, 1), f"not YAML: {error}"))
    return checked


_IN_DOCUMENT = (yaml.NodeEvent, yaml.CollectionEndEvent)


class _Extent:
    """How deep a document nests, and how much its aliases repeat."""

    def __init__(self) -> None:
        self._open: list[tuple[str | None, int]] = []
        """Of each collection that is open, its anchor and the size of all before it."""
        self._sizes: dict[str | None, int | None] = {}
        """Of what has an anchor; None: it has not ended yet."""
        self._size = self._repeated = 0
        """In values; each 100 characters of a text count as one more."""

    def add(self, event: Any) -> str:  # noqa: ANN401  # the types of PyYAML lack most attributes
        """Count an event of the parser; return why the document is refused, if it is."""
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self._open.pop()
            if anchor is not None:
                self._sizes[anchor] = self._size - before
            return ""
        if len(self._open) >= MAX_DEPTH:
            return f"nested deeper than {MAX_DEPTH} levels"
        if isinstance(event, yaml.AliasEvent):
            return self._repeat(event.anchor)
        if event.anchor in self._sizes:
            return f"duplicate anchor '&{event.anchor}'"
        is_scalar = isinstance(event, yaml.ScalarEvent)
        size = 1 + len(event.value) // 100 if is_scalar else 1
        if event.anchor is not None:
            self._sizes[event.anchor] = size if is_scalar else None
        if not is_scalar:
            self._open.append((event.anchor, self._size))
        self._size += size
        return ""

    def _repeat(self, anchor: str | None) -> str:
        if anchor not in self._sizes:
            return f"the alias '*{anchor}' has no anchor '&{anchor}' before it"
        size = self._sizes[anchor]
        if size is None:
            return f"the alias '*{anchor}' is inside its own anchor"
        self._size += size
        self._repeated += size
        if self._repeated > MAX_REPEATED:
            return f"aliases repeat more than {MAX_REPEATED} values, or long texts"
        return ""


class _Builder:
    """Makes nodes of what PyYAML has composed, and collects what is wrong with them."""

    def __init__(self, file: str, text: str, problems: list[Problem]) -> None:
        self._file = file
        self._text = text
        self._problems = problems
        self._built: dict[yaml.Node, YamlNode] = {}

    def node(self, composed: yaml.Node, path: KeyPath) -> YamlNode:
        """Return the node; what is aliased is the same one each time."""
        if composed not in self._built:
            self._built[composed] = self._build(composed, _mark(composed.start_mark), path)
        return self._built[composed]

    def _build(self, composed: yaml.Node, mark: Mark, path: KeyPath) -> YamlNode:
        if faulty := composed.tag not in _TAGS[type(composed)]:
            message = f"the tag {composed.tag!r} is not allowed"
            self._report(mark, path, message, "write a plain value")
        if isinstance(composed, yaml.MappingNode):
            return YamlNode(mark=mark, items=self._items(composed, path), faulty=faulty)
        if isinstance(composed, yaml.SequenceNode):
            entries = (self.node(one, (*path, i)) for i, one in enumerate(composed.value))
            return YamlNode(mark=mark, entries=tuple(entries), faulty=faulty)
        text: str = composed.value
        if _NO_TEXT.search(text):
            self._report(mark, path, "a string cannot contain NUL or half of a surrogate pair")
            faulty = True
        if composed.tag != _UNQUOTED:
            return YamlNode(mark=mark, scalar=text, faulty=faulty)
        before = composed.start_mark.index - 1
        if not text and self._text[before : before + 1] == "-":
            mark = Mark(mark.line, mark.column - 1)
        return YamlNode(mark=mark, scalar=plain(text), source=text, faulty=faulty)

    def _items(self, composed: yaml.MappingNode, path: KeyPath) -> dict[str, tuple[Mark, YamlNode]]:
        items: dict[str, tuple[Mark, YamlNode]] = {}
        for key_node, value_node in composed.value:
            key = self.node(key_node, (*path, "?"))
            name = self._key(key, path)
            value = self.node(value_node, (*path, "?" if name is None else name))
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
        """Return the text of a key, also of one that is to be quoted, or None."""
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
        self._problems.append(problem_at(self._file, mark, message, hint, path))


def _plain_data(node: YamlNode) -> Plain:
    if node.faulty:
        return FAULTY
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
    # At the end of the file there is nothing to point to; where it began there is.
    known = [one for one in (mark, begin) if one is not None and one.line < len(lines)]
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
    """Return what may have been meant, by what is written at the place and where it began."""
    line, column = lines[place.line - 1], place.column - 1
    if line.startswith("%YAML"):
        return "omit this line: YAML 1.1 and 1.2 are read"
    if "${" in line or "{{" in line:
        return "templates are written $(device.path)"
    for begin in begun:
        first = lines[begin.line][begin.column : begin.column + 1]
        if first and first in "*&!%@`":
            return f"quote a text that begins with {first!r}"
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
        return "quote a text that holds ': '"
    above = next((one for one in reversed(lines[: place.line - 1]) if one.strip()), "")
    if _indentation(above) == _indentation(line):
        return f"line {place.line - 1} lacks a ': '"
    return "begin the key in the same column as the one above"


def _mark(mark: Any) -> Mark:  # noqa: ANN401  # each loader of PyYAML has marks of its own
    return Mark(mark.line + 1, mark.column + 1)


def _mark_in(text: str, at: int) -> Mark:
    before = text[:at].replace("\r\n", "\n").replace("\r", "\n")
    return Mark(before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
