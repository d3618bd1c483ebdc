"""Documents of other plugins: typed access with locations, and the search for configs in them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from genericdp.config.document import problem_at, shown_path
from genericdp.config.read import read
from genericdp.devices.resourcenames import name_problem
from genericdp.scalars import meant_boolean, yaml_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from genericdp.config.document import YamlNode
    from genericdp.errors import KeyPath, Problem

PLACES: dict[tuple[str, ...], str] = {
    **{(handler, "configuration"): "akri" for handler in ("udev", "onvif", "opcua", "debugEcho")},
    ("custom", "configuration"): "akri",
    ("deviceDomain",): "smarter",
    ("genericDevicePlugin",): "squat",
    ("rdmaSharedDevicePlugin",): "rdma",
    ("sriovDevicePlugin",): "sriov",
}
"""Where values of charts and objects of operators hold what a plugin's own config does not: the
last keys of the path, with the plugin."""
_COUNT = re.compile(r"0|[1-9][0-9]{0,17}")
_EMPTY = "give it the config of the plugin named after --from"
_MAX_EMBEDDING = 3
"""The depth of documents within strings: arguments in a ConfigMap, and one more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One text, and the problems found in it."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    within: KeyPath = ()
    """Where the text is in the document that contains it; empty if it is a file."""
    embedding: int = 0
    parsed: dict[tuple[KeyPath, str], tuple[Part, ...]] = field(default_factory=dict)
    """Strings that it contains, for each plugin whose config it could be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A value of a document."""

    node: YamlNode
    path: KeyPath
    source: Source

    @property
    def shown(self) -> str:
        """The path, without a leading dot."""
        return shown_path(self.path).removeprefix(".")

    @property
    def is_null(self) -> bool:
        """Return whether nothing is written there, or null."""
        node = self.node
        return node.scalar is None and node.items is None and node.entries is None

    def has(self, *names: str) -> bool:
        """Return whether it is a mapping with one of these keys, ignoring case."""
        wanted = {name.lower() for name in names}
        return any(key.lower() in wanted for key in self.node.items or ())

    def is_placed(self, peer: str) -> bool:
        """Return whether it is where a chart or an operator has the config of a plugin."""
        return any(
            owner == peer and self.path[-len(keys) :] == keys for keys, owner in PLACES.items()
        )

    def without(self, *names: str) -> Part:
        """Return the mapping without some keys, in whatever case."""
        unwanted = {name.lower() for name in names}
        items = (self.node.items or {}).items()
        others = {key: value for key, value in items if key.lower() not in unwanted}
        return replace(self, node=replace(self.node, items=others))

    def fail(self, message: str, hint: str = "") -> None:
        """Add a problem at this location."""
        problem = problem_at(self.source.file, self.node.mark, message, hint, self.path)
        self.source.problems.append(problem)

    def children(self) -> tuple[Part, ...]:
        """Return the values of a mapping or list; of a scalar none."""
        nodes: dict[str | int, YamlNode] = dict(enumerate(self.node.entries or ()))
        nodes |= {key: node for key, (_, node) in (self.node.items or {}).items()}
        return tuple(
            Part(node=node, path=(*self.path, step), source=self.source)
            for step, node in nodes.items()
        )

    def keys(self) -> Keys:
        """Return the keys of a mapping; anything else is a problem and has none."""
        if self.node.items is None and not self.is_null:
            self.fail("expected a mapping")
            return Keys(self, {})
        return Keys(self, {str(child.path[-1]): child for child in self.children()})

    def entries(self) -> tuple[Part, ...]:
        """Return the entries of a list; anything else is a problem and has none."""
        if self.node.entries is None and not self.is_null:
            self.fail("expected a list")
            return ()
        return self.children()

    def text(self) -> str:
        """Return a scalar as it is written; anything else is a problem and empty."""
        if self.node.items is not None or self.node.entries is not None:
            self.fail("expected a string")
        if self.node.scalar is None:
            return ""
        return str(self.node.scalar) if self.node.source is None else self.node.source

    def texts(self) -> tuple[str, ...]:
        """Return a list of scalars as they are written; an empty one is a problem."""
        found = []
        for entry in self.entries():
            if text := entry.text():
                found.append(text)
            else:
                entry.fail("expected a string")
        return tuple(found)

    def number(self, default: int) -> int:
        """Return a whole number from 0; anything else is a problem and 0."""
        if self.is_null:
            return default
        text = self.text()
        # Not 010, which many YAML parsers read as 8.
        if _COUNT.fullmatch(text):
            return int(text)
        self.fail(f"expected a whole number from 0, not {text[:40]!r}")
        return 0

    def is_true(self) -> bool:
        """Return a boolean, false if it is missing; anything else is a problem and false."""
        meant = meant_boolean(self.text().lower())
        if not self.is_null and meant is None:
            self.fail("expected true or false")
        return meant is True

    def resource_name(self, name: str) -> str:
        """Return a resource name; one that the kubelet would refuse is a problem of this part."""
        if (problem := name_problem(name)) is not None:
            self.fail(f"{name[:80]!r} cannot be the name of a resource: {problem}")
        return name

    def embedded(self, text: str) -> tuple[Part, ...]:
        """Parse a string that this part contains; return its documents, none if it has problems."""
        if (known := self.source.parsed.get((self.path, text))) is not None:
            return known
        source = Source(
            file=f"{self.source.file} ({self.shown})" if self.path else self.source.file,
            problems=self.source.problems,
            within=self.path,
            embedding=self.source.embedding + 1,
        )
        documents = parse(source, text.encode("utf-8", "replace"))
        return self.source.parsed.setdefault((self.path, text), documents)

    def quotation(self, why: str) -> list[str]:
        """Return the comment for a part that is not converted, which quotes it."""
        key = self.path[-1:]
        lines = _written(self.node)
        if key and isinstance(key[0], str):
            lines = _under(yaml_text(key[0]), self.node)
        return [
            f"Not converted, {self.shown or 'this'}: {why}.",
            *(f"    {line}" for line in lines),
        ]


@dataclass(slots=True)
class Keys:
    """The keys of a mapping that have not been taken yet."""

    part: Part
    left: dict[str, Part]

    def take(self, name: str) -> Part:
        """Return the value of a key, ignoring case; or null."""
        for key in self.left:
            if key.lower() == name.lower():
                return self.left.pop(key)
        nothing = replace(self.part.node, scalar=None, source=None, items=None, entries=None)
        return replace(self.part, node=nothing, path=(*self.part.path, name))

    def rest(self, plugin: str, why: dict[str, str] | None = None) -> Iterator[str]:
        """Take all that is left, as comments; ``why`` has reasons by key, in lower case."""
        for key in tuple(self.left):
            reason = (why or {}).get(key.lower(), f"{plugin} has no such key and ignores it")
            yield from self.left.pop(key).quotation(reason)


def parse(source: Source, content: bytes) -> tuple[Part, ...]:
    """Parse YAML or JSON; return its documents, none if it has problems."""
    # JSON may be indented with tabs, which YAML refuses; strings of JSON cannot contain one.
    if content.lstrip()[:1] in (b"{", b"["):
        content = content.replace(b"\t", b" ")
    documents, problems = read(source.file, content, if_empty=_EMPTY)
    source.problems.extend(problems)
    if problems:
        return ()
    return tuple(Part(node=document.root, path=(), source=source) for document in documents)


def is_object(document: Part) -> bool:
    """Return whether a document is a Kubernetes object."""
    return document.has("kind") and document.has("apiVersion")


def called(document: Part) -> str:
    """Return the kind and name of a Kubernetes object, or where the document is."""
    if not is_object(document):
        return f"the document in line {document.node.mark.line}"
    keys = document.keys()
    return f"{keys.take('kind').text()} {keys.take('metadata').keys().take('name').text()}".strip()


def objects(document: Part) -> tuple[Part, ...]:
    """Return a document, or the items of a Kubernetes List."""
    if is_object(document) and document.has("items"):
        return document.keys().take("items").entries()
    return (document,)


def find(part: Part, is_config: Callable[[Part], bool], markers: tuple[str, ...]) -> Iterator[Part]:
    """Yield the configs in a document, which may itself be one.

    Strings, as those of a ConfigMap, are searched if they contain one of the keys ``markers``.
    """
    if is_config(part):
        yield part
        return
    for child in part.children():
        yield from find(child, is_config, markers)
    if markers and isinstance(part.node.scalar, str) and part.source.embedding < _MAX_EMBEDDING:
        text = part.text()
        if re.search(rf"\b({'|'.join(markers)})[\"']?\s*:", text, re.IGNORECASE):
            for document in part.embedded(text):
                if document.children():
                    yield from find(document, is_config, markers)


def _written(node: YamlNode) -> list[str]:
    """Return a value as lines of YAML, unquoted scalars as they were written."""
    if node.items:
        return [
            line for key, (_, value) in node.items.items() for line in _under(yaml_text(key), value)
        ]
    if node.entries:
        lines = []
        for value in node.entries:
            first, *rest = _written(value)
            lines += [f"- {first}", *(f"  {line}" for line in rest)]
        return lines
    if node.items is not None or node.entries is not None:
        return ["{}" if node.entries is None else "[]"]
    return [yaml_text(str(node.scalar)) if node.source is None else node.source or "null"]


def _under(key: str, node: YamlNode) -> list[str]:
    lines = _written(node)
    if node.items or node.entries:
        return [f"{key}:", *(f"  {line}" for line in lines)]
    return [f"{key}: {lines[0]}"]
