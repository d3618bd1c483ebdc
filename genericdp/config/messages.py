"""What the JSON Schema finds, in words that say what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from genericdp.config.finding import Finding, guess, shown
from genericdp.config.scalars import Unclear, meant_boolean, quoted, reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jsonschema.exceptions import ValidationError

    from genericdp.config.tree import Document, Path

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
_WHOLE = re.compile(r"-?[0-9]+", re.ASCII)


def findings_of(error: ValidationError, document: Document) -> Iterator[Finding]:
    """Give what one error of the schema means."""
    path: Path = tuple(error.absolute_path)
    word = _BY_KEYWORD.get(str(error.validator), _otherwise)
    yield from word(error, path, document)


def _wrong_type(error: ValidationError, path: Path, document: Document) -> Iterator[Finding]:
    wanted = (
        [error.validator_value] if isinstance(error.validator_value, str) else error.validator_value
    )
    node = document.node(path)
    source = node.source if node is not None else None
    listed = " or ".join(_WORDS[name] for name in wanted)
    value: Any = error.instance
    if value is None:
        message = f"it is {'null' if source else 'empty'}, and {listed} is wanted"
        yield Finding(path=path, message=message)
    elif isinstance(value, (bool, int, float, Unclear)) and source is not None:
        yield _wrong_scalar(path, source, wanted, listed)
    else:
        kind = next(word for types, word in _KINDS if isinstance(value, types))
        hint = _unquoted(value, wanted) if isinstance(value, str) else ""
        hint = "begin each entry with '- '" if wanted == ["array"] else hint
        what = f"the text {shown(value)}" if isinstance(value, str) else kind
        yield Finding(path=path, message=f"{listed} is wanted, not {what}", hint=hint)


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


def _unknown(error: ValidationError, path: Path, document: Document) -> Iterator[Finding]:
    del document
    known = set(error.schema.get("properties", ()))
    for key in error.instance:
        if key not in known and not (
            error.schema.get("patternProperties") and key.startswith("x-")
        ):
            yield Finding(
                path=(*path, key),
                message=f"unknown key {shown(key)}",
                hint=guess(key, known),
                of_key=True,
            )


def _missing(error: ValidationError, path: Path, document: Document) -> Iterator[Finding]:
    # jsonschema gives one error for each; its text is the only place that names the key.
    key = error.message.split("'")[1]
    known = set(error.schema["properties"])
    unknown = [other for other in error.instance if other not in known]
    misspelt = any(guess(other, known) == f"did you mean {key!r}?" for other in unknown)
    if not misspelt and key not in document.keys(path):
        yield Finding(path=path, message=f"the key {key!r} is required")


def _not_listed(error: ValidationError, path: Path, document: Document) -> Iterator[Finding]:
    del document
    known = [str(value) for value in error.validator_value]
    if isinstance(error.instance, str):
        message = f"{shown(error.instance)} is not one of {', '.join(known)}"
        hint = guess(error.instance, known)
        yield Finding(path=path, message=message, hint="" if hint.startswith("known") else hint)


def _not_the_one(error: ValidationError, path: Path, document: Document) -> Iterator[Finding]:
    node = document.node(path)
    value = error.instance
    text = shown(value) if isinstance(value, str) else (node.source if node else None) or "it"
    yield Finding(path=path, message=f"{text} is not {error.validator_value!r}")


def _out_of_range(error: ValidationError, path: Path, document: Document) -> Iterator[Finding]:
    del document
    less = error.validator == "minimum"
    limit = f"{'less' if less else 'more'} than the {error.validator} of {error.validator_value}"
    yield Finding(path=path, message=f"{error.instance} is {limit}")


def _too_little(error: ValidationError, path: Path, document: Document) -> Iterator[Finding]:
    del document
    what = {
        "minLength": "it is empty, and a text is wanted",
        "minItems": "the list is empty: at least one entry is required",
        "minProperties": "it says nothing: at least one key is required",
    }[str(error.validator)]
    yield Finding(path=path, message=what)


def _repeated(error: ValidationError, path: Path, document: Document) -> Iterator[Finding]:
    del error, document
    yield Finding(path=path, message="an entry of the list is repeated")


def _otherwise(error: ValidationError, path: Path, document: Document) -> Iterator[Finding]:
    del document
    yield Finding(path=path, message=error.message)


_BY_KEYWORD: dict[str, Callable[[ValidationError, Path, Document], Iterator[Finding]]] = {
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
    "uniqueItems": _repeated,
}
