"""Validates a document against its JSON Schema: each message says what to do."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from genericdp.config import hints
from genericdp.config.document import INVALID, Field
from genericdp.config.schema import CONFIG, POLICY, keys_of, resolved_schema
from genericdp.config.strict import errors_in
from genericdp.errors import Finding
from genericdp.printing import closest, quoted
from genericdp.scalars import Unclear, meant_boolean, reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from jsonschema.exceptions import ValidationError

    from genericdp.config.document import Document, Plain
    from genericdp.errors import KeyPath

    Violation = Any  # a ValidationError, whose every attribute may lack to mypy

MAX_ERRORS = 10_000
_MAX_GUESSES = 50
"""Guessing takes long, and a mapping with more unknown keys is probably something else."""
_DROPPED = {
    *("type", "enum", "const", "pattern", "minimum", "maximum", "minLength", "minItems"),
    *("maxItems", "maxProperties", "additionalProperties"),
}
"""A value that these refuse is not checked any further."""
_WORDS = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
}
_MESSAGES = {
    "minLength": "expected a string, but it is empty",
    "minItems": "the list is empty; at least one entry is required",
    "minProperties": "the mapping is empty; at least one key is required",
    "uniqueItems": "the list has duplicate entries",
}
_COUNTED = {
    "maxItems": ("the list", "entries"),
    "maxLength": ("it", "characters"),
    "maxProperties": ("the mapping", "keys"),
}
"""What a limit applies to, and what it counts."""
_OTHER_KINDS = {
    CONFIG: "this is a config: give it with --config, or as the PATH of validate",
    POLICY: "this is a policy: give it with --policy",
    "List": "give each of its items as a document of its own",
    "Configuration": "convert one of akri: genericdp convert --from akri FILE",
}
"""Other documents that users take for a config, and what to do with them."""


def validate(document: Document, kind: str) -> tuple[list[Finding], Document]:
    """Return the problems that the schema of a kind finds, and the document with None for invalid
    values.
    """
    errors = list(islice(errors_in(document.data, kind), MAX_ERRORS + 1))
    if not errors:
        return [], document
    if wrong_document := _wrong_document(document.data, errors):
        return [wrong_document], replace(document, data=None)
    if telling := _keys_of_another_kind(document.data, kind):
        errors = [
            failure
            for failure in errors
            if failure.validator == "const" and failure.path[0] in telling
        ]
    wrong_type = {(*error.absolute_path,) for error in errors if error.validator == "type"}
    findings: list[Finding] = []
    wrong: set[KeyPath] = set()
    for error in errors:
        field = Field(document, (*error.absolute_path,), error.instance, [])
        # INVALID: a problem was reported for it. For a wrong type, other messages are meaningless.
        if field.value is INVALID or (error.validator != "type" and field.path in wrong_type):
            continue
        if of_key := "propertyNames" in error.absolute_schema_path:
            field = Field(document, (*field.path, str(error.instance)), error.instance, [])
        _BY_KEYWORD.get(str(error.validator), _otherwise)(field, error)
        findings += (
            finding._replace(of_key=True) if of_key else finding for finding in field.findings
        )
        if error.validator in _DROPPED and not of_key:
            wrong |= {finding.path for finding in field.findings}
    data = None if telling else _without(document.data, wrong, ())
    return list(dict.fromkeys(findings)), replace(document, data=data)


def _wrong_document(data: Plain, errors: list[ValidationError]) -> Finding | None:
    """Find a config of another device plugin, or more mistakes than are worth listing."""
    is_bare = isinstance(data, dict) and "apiVersion" not in data
    key, peer = ("groups", "squat") if is_bare else ("devicematch", "smarter")
    listed = data.get("devices") if is_bare else data
    words = [data] if isinstance(data, str) else data
    is_argument = isinstance(words, list) and any(
        isinstance(word, str) and word.startswith("--device") for word in words
    )
    if is_argument:
        peer = "squat"
    if is_argument or (
        isinstance(listed, list)
        and any(isinstance(entry, dict) and key in entry for entry in listed)
    ):
        hint = f"convert it: genericdp convert --from {peer} FILE"
        return Finding((), "this is a config of another device plugin", hint)
    # Not all mistakes are known, so no rule can check the rest.
    message = f"the document has more than {MAX_ERRORS} problems"
    return Finding((), message) if len(errors) > MAX_ERRORS else None


def _keys_of_another_kind(data: Plain, kind: str) -> tuple[str, ...]:
    """Return the keys that show another kind of Kubernetes document, whose rest does not matter."""
    named = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(named, str) or named == kind:
        return ()
    if named in _OTHER_KINDS:
        return ("kind",)
    version = data.get("apiVersion")
    wanted = resolved_schema(kind)["properties"]["apiVersion"]["const"]
    return ("apiVersion", "kind") if isinstance(version, str) and version != wanted else ()


def _without(data: Plain, wrong: set[KeyPath], path: KeyPath) -> Plain:
    if path in wrong or data is INVALID:
        return None
    if isinstance(data, dict):
        return {key: _without(value, wrong, (*path, key)) for key, value in data.items()}
    if isinstance(data, list):
        return [_without(value, wrong, (*path, i)) for i, value in enumerate(data)]
    return data


def _wrong_type(field: Field, error: Violation) -> None:
    types = error.validator_value
    wanted = [types] if isinstance(types, str) else types
    listed = " or ".join(_WORDS[name] for name in wanted)
    value, written = field.value, field.source or str(field.value)
    message = f"expected {listed}, not {written}"
    if value is None:
        message = f"expected {listed}, but it is {'null' if field.source else 'empty'}"
    elif isinstance(value, str):
        message = f"expected {listed}, not the string {quoted(value)}"
    elif isinstance(value, list | dict):
        message = f"expected {listed}, not {'a list' if isinstance(value, list) else 'a mapping'}"
    elif "boolean" in wanted and isinstance(value, Unclear) and meant_boolean(written) is not None:
        message = f"{written} is true or false only to some YAML parsers"
    elif "string" in wanted and not {"integer", "number"} & {*wanted}:
        read_as = reading(written) or "a number"
        message = f"{written} is read as {read_as} by some YAML parsers; expected {listed}"
    field.refuse(message, hints.for_type(field, error.schema))


def _unexpected(field: Field, error: Violation) -> None:
    """Name the expected value by the title of the schema: for patterns, and listed words."""
    if error.validator == "not" and error.validator_value == {}:
        hint = error.schema["description"]
        field.refuse(f"{field.key!r} is {error.schema['title']}", hint, of_key=True)
        return
    message = f"{quoted(error.instance)} is not {error.schema['title']}"
    field.refuse(message, hints.for_text(field, error.schema))


def _not_listed(field: Field, error: Violation) -> None:
    known = [str(value) for value in error.validator_value]
    wanted = error.schema.get("title") or f"one of {', '.join(known)}"
    if isinstance(text := error.instance, str):
        in_lower_case = {word.lower(): word for word in known}
        meant = in_lower_case.get(text.lower()) or closest(text, known)
        field.refuse(f"{quoted(text)} is not {wanted}", f"did you mean {meant!r}?" if meant else "")


def _not_the_one(field: Field, error: Violation) -> None:
    text = quoted(field.value) if isinstance(field.value, str) else field.source or "it"
    hint = _OTHER_KINDS.get(str(field.value), "") if field.path == ("kind",) else ""
    field.refuse(f"{text} is not {error.validator_value!r}", hint)


def _out_of_range(field: Field, error: Violation) -> None:
    less = "less" if error.validator == "minimum" else "more"
    limit = error.validator_value
    hint = ""
    if field.path[-3:] == ("hooks", "allocate", "timeoutSeconds"):
        hint = "what takes longer belongs into preStart, which runs before the container starts"
    field.refuse(f"{field.value} is {less} than the {error.validator} of {limit}", hint)


def _too_many(field: Field, error: Violation) -> None:
    subject, what = _COUNTED[error.validator]
    limit = error.validator_value
    message = f"{subject} has {len(error.instance)} {what}: at most {limit}"
    hint = ""
    if what == "entries" and field.key not in {"devices", "health", "type"}:
        hint = "one selector takes a list of globs, and one glob covers many paths, as /dev/ttyUSB*"
    elif known := error.schema.get("properties"):
        hint = f"one of {', '.join(known)}"
    field.refuse(f"{message} {'is' if limit == 1 else 'are'} allowed", hint)


def _unknown(field: Field, error: Violation) -> None:
    known = error.schema["properties"]
    for i, key in enumerate(_unknown_keys(error)):
        hint = hints.for_key(field, key, known) if i < _MAX_GUESSES else ""
        field[key].refuse(f"unknown key {quoted(key)}", hint, of_key=True)


def _unknown_keys(error: Violation) -> list[str]:
    patterns = error.schema.get("patternProperties", ())
    return sorted(
        key
        for key in error.instance
        if key not in error.schema["properties"]
        and not any(re.search(pattern, key) for pattern in patterns)
    )


def _missing(field: Field, error: Violation) -> None:
    known = error.schema["properties"]
    unknown = _unknown_keys(error)[:_MAX_GUESSES]
    meant = {hints.meant_key(key, known) for key in unknown}
    for key in error.validator_value:
        if key not in error.instance and key not in meant:
            constant = known.get(key, {}).get("const")
            hint = f"write {key}: {constant}" if constant else ""
            field.refuse(f"the key {key!r} is required", hint)


def _alternatives(field: Field, error: Violation) -> None:
    choices = [choice["required"][0] for choice in error.validator_value]
    listed = ", ".join(choices)
    present = [choice for choice in choices if choice in error.instance]
    below_hardware = keys_of(error.schema["properties"].get("hardware", {}))
    for extra in present[1:]:
        message = f"{extra!r} cannot be combined with {present[0]!r}"
        hint = f"one of {listed}"
        if extra in below_hardware:
            hint += "; the parents of the device go below 'hardware'"
        field[extra].refuse(message, hint, of_key=True)
    # An unknown key may be a misspelt choice: it is a problem already.
    if not present and not _unknown_keys(error):
        how = "exactly" if error.validator == "oneOf" else "at least"
        field.refuse(f"{how} one of {listed} is required")


def _dependent(field: Field, error: Violation) -> None:
    for key, others in error.validator_value.items():
        lacking = [other for other in others if other not in error.instance]
        if key in error.instance and lacking:
            field[key].refuse(f"{key!r} is only allowed with {lacking[0]!r}", of_key=True)


def _otherwise(field: Field, error: Violation) -> None:
    field.refuse(_MESSAGES.get(error.validator, error.message))


_BY_KEYWORD: dict[str, Callable[[Field, Violation], None]] = {
    "type": _wrong_type,
    "additionalProperties": _unknown,
    "required": _missing,
    "oneOf": _alternatives,
    "anyOf": _alternatives,
    "dependentRequired": _dependent,
    "enum": _not_listed,
    "const": _not_the_one,
    "pattern": _unexpected,
    "not": _unexpected,
    "minimum": _out_of_range,
    "maximum": _out_of_range,
    "maxItems": _too_many,
    "maxLength": _too_many,
    "maxProperties": _too_many,
}
