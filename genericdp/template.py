"""Templates: ``$(scope.name)``, ``$(scope.name:-default)`` or ``$(scope.name:-$(other.name))``.

``$$(`` is a literal ``$(``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Protocol

from genericdp.printing import shortened
from genericdp.reasons import Code, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

MAX_TEXT = 64 * 1024
"""The maximum length of a template's result or of a value, in bytes of UTF-8."""
MAX_TEXTS = 1024 * 1024
"""The limit of all strings of a device for a container, its probes and hooks, in bytes."""
TOO_LONG = f"more than {MAX_TEXT >> 10} KiB of text"
MAX_VALUES = 32
"""How deep values may be nested, each with a reference to the next."""

_NAME = re.compile(r"[A-Za-z0-9_.:/@+,-]+")
_PARENTHESIS = re.compile(r"\$?\$\(|\)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ABSOLUTE = {("device", "path"), ("device", "syspath")}
_MAYBE_ABSOLUTE = {"property", "attribute"}
_NO_NAMES = {"": "an empty name", ".": "'.'", "..": "'..'"}


class TemplateSyntaxError(ValueError):
    """A malformed template; ``offset`` counts characters from 0.

    ``inner`` is what stands in the parentheses, if that is what is wrong.
    """

    def __init__(self, message: str, offset: int, inner: str = "") -> None:
        super().__init__(message)
        self.offset, self.inner = offset, inner


class UnusableValueError(Exception):
    """A value that this device lacks, or that is not possible in that place."""

    code = Code.BAD_VALUE

    def __init__(self, text: str, code: Code | None = None) -> None:
        super().__init__(text)
        self.code = code or self.code

    @property
    def reason(self) -> Reason:
        """Return why the device does not exist."""
        return Reason(self.code, str(self))


class LackingValueError(UnusableValueError):
    """A value that this device lacks: a default replaces it."""

    code = Code.LACKS_VALUE


class AmbiguousValueError(LackingValueError):
    """An ambiguous value: a default replaces it, but not in an exclude."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """One ``$(scope.name)``; ``offset`` is where it starts in the text."""

    scope: str
    name: str
    default: str | None = None
    fallback: Reference | None = None
    """A reference that replaces this one if the device lacks it, instead of a default."""
    offset: int = 0

    @property
    def has_default(self) -> bool:
        """Return whether something else is inserted if the device lacks it."""
        return self.default is not None or self.fallback is not None

    def __str__(self) -> str:
        default = "" if self.default is None else f":-{literal(self.default)}"
        default = default if self.fallback is None else f":-{self.fallback}"
        return f"$({self.scope}.{self.name}{default})"


@dataclass(frozen=True, slots=True)
class Template:
    """A string with references in it, parsed."""

    parts: tuple[str | Reference, ...]

    @property
    def references(self) -> tuple[Reference, ...]:
        """The references and their fallbacks, in the order of the text."""
        found = (part for part in self.parts if isinstance(part, Reference))
        return tuple(
            reference for part in found for reference in (part, part.fallback) if reference
        )

    def __str__(self) -> str:
        return "".join(literal(part) if isinstance(part, str) else str(part) for part in self.parts)


def templates_of(value: object) -> Iterator[Template]:
    """Yield every template in a value, at any depth."""
    if isinstance(value, Template):
        yield value
    elif isinstance(value, tuple):
        for entry in value:
            yield from templates_of(entry)
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from templates_of(entry)
    elif is_dataclass(value):
        for part in fields(value):
            yield from templates_of(getattr(value, part.name))


class Lookup(Protocol):
    """Returns the text of a reference for one device, or None if the device lacks it."""

    def __call__(self, scope: str, name: str, /) -> str | None:
        """Return the text, or None; the scope ``constant`` has only values without references."""


def literal(text: str) -> str:
    """Return a template whose result is exactly this text."""
    return text.replace("$(", "$$(")


def parse(text: str) -> Template:
    """Parse a string; raise TemplateSyntaxError."""
    parts: list[str | Reference] = []
    literal: list[str] = []
    at = 0
    while (start := text.find("$(", at)) != -1:
        if start > at and text[start - 1] == "$":
            literal += (text[at : start - 1], "$(")
            at = start + 2
            continue
        literal.append(text[at:start])
        end = _end_of_reference(text, start + 2)
        if end == -1:
            raise TemplateSyntaxError("'$(' is not closed", start)
        parts += ("".join(literal), _reference(text[start + 2 : end], start))
        literal, at = [], end + 1
    literal.append(text[at:])
    return Template(tuple(part for part in (*parts, "".join(literal)) if part != ""))


def _end_of_reference(text: str, at: int) -> int:
    """Return where a reference is closed; each ``$(`` in its default has its own parenthesis."""
    depth = 1
    for found in _PARENTHESIS.finditer(text, at):
        depth += -1 if found[0] == ")" else 1
        if depth == 0:
            return found.start()
    return -1


def _reference(inner: str, offset: int) -> Reference:
    name, colon, default = inner.partition(":-")
    fallback = None
    if "$(" in default.replace("$$(", ""):
        fallback, default, colon = _fallback(default, offset), "", ""
    default = default.replace("$$(", "$(")
    scope, dot, rest = name.partition(".")
    if not dot or not scope or not _NAME.fullmatch(rest):
        raise TemplateSyntaxError(
            f"'$({inner})' is not of the form $(scope.name), as in $(device.path)", offset, inner
        )
    return Reference(
        scope=scope,
        name=rest,
        default=default if colon else None,
        fallback=fallback,
        offset=offset,
    )


def _fallback(default: str, offset: int) -> Reference:
    """Return the one reference that a default consists of; raise TemplateSyntaxError."""
    parts = parse(default).parts
    if len(parts) != 1 or not isinstance(found := parts[0], Reference):
        message = "a default is a string or one template, as in $(value.a:-$(value.b))"
        raise TemplateSyntaxError(message, offset)
    if found.fallback is not None:
        message = (
            "a default in a default cannot hold another template: give the inner ones a name, as in"
            " values: {port: {text: $(usb.port:-$(device.name))}}"
        )
        raise TemplateSyntaxError(message, offset)
    return found


def bind(
    template: Template,
    lookup: Lookup,
    *,
    path: bool = False,
    quote: Callable[[str], str] = str,
    later: Collection[str] = (),
) -> Template:
    """Insert the results of the lookup; references to the scopes or names ``later`` stay as they
    are.

    In a ``path``, an inserted text must not add directories, unless it is a whole path or a value
    that is part of the device's directory in sysfs; nor may it make a name empty, ``.`` or ``..``.
    ``quote`` makes inserted text literal where the result is a pattern. Raises UnusableValueError
    with a reason, also as soon as there is more text than ``MAX_TEXT``.
    """
    literal = ""
    parts: list[str | Reference] = []
    size = 0
    for written in template.parts:
        at_start = written is template.parts[0]
        part = written if isinstance(written, str) else _available(written, lookup, later)
        if isinstance(part, Reference) and _is_later(part, later):
            parts += [literal, part] if literal else [part]
            literal = ""
            continue
        if isinstance(part, str):
            text = part
        else:
            text = quote(_inserted(part, lookup, path=path, at_start=at_start))
            if path and literal.endswith("/"):  # an absolute path, in a directory
                text = text.removeprefix("/")
        if path and at_start and not text:
            raise UnusableValueError(f"'{part}' is empty, which is not an absolute path")
        size += byte_length(text)
        if size > MAX_TEXT:
            raise UnusableValueError(f"'{shortened(str(template))}' gives {TOO_LONG}")
        literal += text
    bound = Template((*parts, literal) if literal else tuple(parts))
    if path:
        _check_path(template, str(bound))
    return bound


def _check_path(template: Template, text: str) -> None:
    """Raise UnusableValueError if the result of a template is not an absolute path."""
    names = text.split("/")[1:] if template.references else []
    if names and not names[-1] and isinstance(template.parts[-1], str):  # it is written so
        names.pop()
    held = [_NO_NAMES[name] for name in names if name in _NO_NAMES]
    if held or not text.startswith("/"):
        why = f"holds {held[0]}" if held else "is not an absolute path"
        raise UnusableValueError(f"'{template}' gives {shortened(text)!r}, which {why}")


def expand(
    template: Template,
    lookup: Lookup,
    *,
    path: bool = False,
    quote: Callable[[str], str] = str,
) -> str:
    """Insert all values and return the text; raises as ``bind`` does."""
    return "".join(map(str, bind(template, lookup, path=path, quote=quote).parts))


def byte_length(text: str) -> int:
    """Return how many bytes of UTF-8 a string has."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _is_later(reference: Reference, later: Collection[str]) -> bool:
    return reference.scope in later or f"{reference.scope}.{reference.name}" in later


def _available(reference: Reference, lookup: Lookup, later: Collection[str]) -> Reference:
    """Return the reference, or its fallback if the lookup lacks it."""
    if reference.fallback is None or _is_later(reference, later):
        return reference
    try:
        found = lookup(reference.scope, reference.name)
    except LackingValueError:
        found = None
    return reference.fallback if found is None else reference


def _inserted(reference: Reference, lookup: Lookup, *, path: bool, at_start: bool) -> str:
    try:
        text = lookup(reference.scope, reference.name)
    except LackingValueError:
        if reference.default is None:
            raise
        text = None
    if text is None:
        text = reference.default
    if text is None:
        raise LackingValueError(f"it has no '{reference}'")
    if "\n" in text or "\0" in text:
        raise UnusableValueError(
            f"'{reference}' is {shortened(text)!r}, which holds a newline or NUL"
        )
    if not is_utf8(text):
        raise UnusableValueError(f"'{reference}' is {shortened(text)!r}, which is not valid UTF-8")
    if path and "/" in text and not _may_hold_slashes(reference, text, lookup, at_start=at_start):
        raise UnusableValueError(
            f"'{reference}' is {shortened(text)!r}, which cannot be part of a path"
        )
    return text


def is_share(reference: Reference) -> bool:
    """Return whether a reference is to the number of a device's share."""
    return (reference.scope, reference.name) == ("device", "share")


def is_utf8(text: str) -> bool:
    """Return whether a string is valid UTF-8: names of files and interfaces may be any bytes."""
    return text.isascii() or _SURROGATE.search(text) is None


def may_be_absolute(reference: Reference) -> bool:
    """Return whether the result of a reference can be a whole path."""
    if reference.fallback is not None and not may_be_absolute(reference.fallback):
        return False
    whole = (reference.scope, reference.name) in _ABSOLUTE
    return whole or reference.scope in {*_MAYBE_ABSOLUTE, "value"}


def _may_hold_slashes(reference: Reference, text: str, lookup: Lookup, *, at_start: bool) -> bool:
    if (reference.scope, reference.name) in _ABSOLUTE or (at_start and text == reference.default):
        return True
    if reference.scope != "value":
        return text.startswith("/") and reference.scope in _MAYBE_ABSOLUTE
    syspath = lookup("device", "syspath") or ""
    if not at_start:
        return f"/{text}/" in f"{syspath}/"
    is_above = text.startswith("/sys/devices/") and f"{syspath}/".startswith(f"{text}/")
    return is_above or text == lookup("constant", reference.name)
