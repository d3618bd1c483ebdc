"""What the JSON Schema finds, in words that say what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.config.finding import Finding, guess, shown
from genericdp.config.scalars import Unclear, meant_boolean, quoted, reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jsonschema.exceptions import ValidationError

    from genericdp.config.tree import Document, Path, Plain

_WORDS = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
}
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (str, "a text"),
    (bool, "true or false"),
    ((int, float), "a number"),
    (list, "a list"),
    (dict, "a mapping"),
)
_MAX_GUESSES = 50
"""Guessing takes long: a file with more unknown keys in one mapping is something else."""
_WHOLE = re.compile(r"-?[0-9]+", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """One error of jsonschema, with types."""

    keyword: str
    path: Path
    value: Plain
    limit: Plain
    known: frozenset[str]
    """The keys of the mapping, where it is one."""
    text: str
    document: Document


def findings_of(error: ValidationError, document: Document) -> Iterator[Finding]:
    """Give what one error of the schema means."""
    violation = Violation(
        keyword=str(error.validator),
        path=tuple(error.absolute_path),
        value=error.instance,
        limit=error.validator_value,
        known=_known_keys(error.schema),
        text=error.message,
        document=document,
    )
    yield from _BY_KEYWORD.get(violation.keyword, _otherwise)(violation)


def _known_keys(schema: object) -> frozenset[str]:
    return frozenset(schema.get("properties", ()) if isinstance(schema, dict) else ())


def _wrong_type(error: Violation) -> Iterator[Finding]:
    wanted = [error.limit] if isinstance(error.limit, str) else error.limit
    node = error.document.node(error.path)
    source = node.source if node is not None else None
    listed = " or ".join(_WORDS[name] for name in wanted)
    value = error.value
    if value is None:
        message = f"it is {'null' if source else 'empty'}, and {listed} is wanted"
        hint = "write '' for the empty text" if "string" in wanted else ""
        yield Finding(path=error.path, message=message, hint=hint)
    elif isinstance(value, (bool, int, float, Unclear)) and source is not None:
        yield _wrong_scalar(error.path, source, wanted, listed)
    else:
        kind = next(word for types, word in _KINDS if isinstance(value, types))
        hint = _unquoted(value, wanted) if isinstance(value, str) else ""
        hint = "begin each entry with '- '" if wanted == ["array"] else hint
        what = f"the text {shown(value)}" if isinstance(value, str) else kind
        yield Finding(path=error.path, message=f"{listed} is wanted, not {what}", hint=hint)


def _wrong_scalar(path: Path, source: str, wanted: list[str], listed: str) -> Finding:
    read_as = reading(source) or "a number"
    meant = meant_boolean(source)
    if "boolean" in wanted and meant is not None:
        message = f"{source} is true or false only to some YAML"
        return Finding(path=path, message=message, hint=f"write {str(meant).lower()}")
    if "string" in wanted and "integer" not in wanted:
        message = f"{source} is read as {read_as} by some YAML, and {listed} is wanted"
        return Finding(path=path, message=message, hint=f"write {quoted(source)}")
    hint = "" if read_as != "a number" or "array" in wanted else "write it in decimal digits"
    return Finding(path=path, message=f"{listed} is wanted, not {source}", hint=hint)


def _unquoted(text: str, wanted: list[str]) -> str:
    if "boolean" in wanted and meant_boolean(text) is not None:
        return f"write {str(meant_boolean(text)).lower()} without quotes"
    if "integer" in wanted and _WHOLE.fullmatch(text):
        return f"write {text} without quotes"
    return ""


def _unknown(error: Violation) -> Iterator[Finding]:
    for i, key in enumerate(sorted(error.value.keys() - error.known)):
        yield Finding(
            path=(*error.path, key),
            message=f"unknown key {shown(key)}",
            hint=guess(key, error.known) if i < _MAX_GUESSES else "",
            of_key=True,
        )


def _missing(error: Violation) -> Iterator[Finding]:
    # jsonschema gives one error for each; its text is the only place that names the key.
    key = error.text.split("'")[1]
    unknown = sorted(error.value.keys() - error.known)[:_MAX_GUESSES]
    misspelt = any(guess(other, error.known) == f"did you mean {key!r}?" for other in unknown)
    if not misspelt and key not in error.document.keys(error.path):
        yield Finding(path=error.path, message=f"the key {key!r} is required")


def _not_listed(error: Violation) -> Iterator[Finding]:
    known = [str(value) for value in error.limit]
    if isinstance(error.value, str):
        message = f"{shown(error.value)} is not one of {', '.join(known)}"
        hint = guess(error.value, known)
        yield Finding(
            path=error.path, message=message, hint="" if hint.startswith("known") else hint
        )


def _not_the_one(error: Violation) -> Iterator[Finding]:
    node = error.document.node(error.path)
    value = error.value
    text = shown(value) if isinstance(value, str) else (node.source if node else None) or "it"
    yield Finding(path=error.path, message=f"{text} is not {error.limit!r}")


def _out_of_range(error: Violation) -> Iterator[Finding]:
    less = error.keyword == "minimum"
    limit = f"{'less' if less else 'more'} than the {error.keyword} of {error.limit}"
    yield Finding(path=error.path, message=f"{error.value} is {limit}")


def _too_little(error: Violation) -> Iterator[Finding]:
    what = {
        "minLength": "it is empty, and a text is wanted",
        "minItems": "the list is empty: at least one entry is required",
        "minProperties": "it says nothing: at least one key is required",
    }[error.keyword]
    yield Finding(path=error.path, message=what)


def _too_many(error: Violation) -> Iterator[Finding]:
    assert isinstance(error.value, list)  # noqa: S101
    message = f"the list has {len(error.value)} entries: at most {error.limit} are allowed"
    hint = "one selector takes a list of globs, and one glob covers many paths, as /dev/ttyUSB*"
    is_of_globs = error.path[-1] not in {"devices", "health"}
    yield Finding(path=error.path, message=message, hint=hint if is_of_globs else "")


def _repeated(error: Violation) -> Iterator[Finding]:
    yield Finding(path=error.path, message="an entry of the list is repeated")


def _otherwise(error: Violation) -> Iterator[Finding]:
    yield Finding(path=error.path, message=error.text)


_BY_KEYWORD: dict[str, Callable[[Violation], Iterator[Finding]]] = {
    "type": _wrong_type,
    "additionalProperties": _unknown,
    "required": _missing,
    "enum": _not_listed,
    "const": _not_the_one,
    "minimum": _out_of_range,
    "maximum": _out_of_range,
    "minLength": _too_little,
    "minItems": _too_little,
    "minProperties": _too_little,
    "maxItems": _too_many,
    "uniqueItems": _repeated,
}
