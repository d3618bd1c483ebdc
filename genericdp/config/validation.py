"""A document against its JSON Schema: each mistake in words that say what to do."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from genericdp.config.document import FAULTY, Field
from genericdp.config.schema import CONFIG, KINDS, POLICY, keys_of, resolved_schema
from genericdp.devices.hardware import HARDWARE
from genericdp.errors import Finding
from genericdp.printing import MAX_QUOTED, closest, quoted, suggestion
from genericdp.regex import compiled
from genericdp.scalars import Unclear, meant_boolean, reading, single_quoted, yaml_flow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jsonschema.protocols import Validator

    from genericdp.config.document import Document, Plain
    from genericdp.config.schema import Schema
    from genericdp.errors import KeyPath

    Violation = Any  # a ValidationError, whose every attribute may lack to mypy

MAX_ERRORS = 10_000
_MAX_GUESSES = 50
"""Guessing takes long: a mapping with more unknown keys is something else."""
_DROPPED = {
    *("type", "enum", "const", "pattern", "minimum", "maximum", "minLength", "minItems"),
    *("maxItems", "maxProperties", "additionalProperties"),
}
"""What these find wrong is not looked at any further."""
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
"""What a limit is of, and what it counts."""
_OTHER_WORDS = {
    "count": "replicas",
    "hostPath": "path",
    "interval": "periodSeconds",
    "intervalSeconds": "periodSeconds",
    "mountPath": "containerPath",
    "nodeSelector": "nodeNames",
    "nodes": "devices",
    "path": "hostPath",
    "paths": "path",
    "shares": "replicas",
    "source": "hostPath",
    "target": "containerPath",
}
"""What other plugins and Kubernetes call a key."""
_OTHER_KINDS = {
    CONFIG: "this is a config: give it with --config, or as the PATH of validate",
    POLICY: "this is a policy: give it with --policy",
    "List": "give each of its items as a document of its own",
}
"""What other documents that are taken for one are, and what to do with them."""
_WHOLE = re.compile(r"-?[0-9]+", re.ASCII)


def validate(document: Document, kind: str) -> tuple[list[Finding], Document]:
    """Return what the schema of a kind finds, and the document with None where that is wrong."""
    errors = list(islice(_validator(kind).iter_errors(document.data), MAX_ERRORS + 1))
    if not errors:
        return [], document
    if hopeless := _hopeless(document.data, errors):
        return [hopeless], replace(document, data=None)
    if telling := _keys_of_another_kind(document.data, kind):
        errors = [one for one in errors if one.validator == "const" and one.path[0] in telling]
    wrong_type = {(*error.absolute_path,) for error in errors if error.validator == "type"}
    findings: list[Finding] = []
    wrong: set[KeyPath] = set()
    for error in errors:
        field = Field(document, (*error.absolute_path,), error.instance, [])
        if _is_known(error, field) or (error.validator != "type" and field.path in wrong_type):
            continue
        if of_key := "propertyNames" in error.absolute_schema_path:
            field = Field(document, (*field.path, str(error.instance)), error.instance, [])
        _BY_KEYWORD.get(str(error.validator), _otherwise)(field, error)
        findings += (replace(one, of_key=True) if of_key else one for one in field.findings)
        if error.validator in _DROPPED and not of_key:
            wrong |= {one.path for one in field.findings}
    data = None if telling else _without(document.data, wrong, ())
    return list(dict.fromkeys(findings)), replace(document, data=data)


@cache
def _validator(kind: str) -> Validator:
    types = Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer)
    keywords = {"pattern": _has_pattern, "items": _has_items}
    strict = extend(Draft202012Validator, keywords, type_checker=types)  # type: ignore[no-untyped-call]
    validator: Validator = strict(resolved_schema(kind))
    return validator


def _is_integer(_: object, value: object) -> bool:
    """Return whether it is written as one: 1.0 is not."""
    return type(value) is int


def _has_pattern(
    _: Validator, pattern: str, value: object, __: object
) -> Iterator[ValidationError]:
    """Search as JavaScript does, where ``$`` is the end of the text and not of its last line."""
    if isinstance(value, str) and compiled(pattern).search(value) is None:
        yield ValidationError(pattern)


def _has_items(
    validator: Validator, part: Schema, value: object, around: Schema
) -> Iterator[ValidationError]:
    """Check the entries of a list, unless it is too long: that is one mistake."""
    if isinstance(value, list) and len(value) <= around.get("maxItems", len(value)):
        yield from Draft202012Validator.VALIDATORS["items"](validator, part, value, around)


def _hopeless(data: Plain, errors: list[ValidationError]) -> Finding | None:
    """Find a config of another device plugin, or more mistakes than anybody reads."""
    is_bare = isinstance(data, dict) and "apiVersion" not in data
    key, peer = ("groups", "squat") if is_bare else ("devicematch", "smarter")
    listed = data.get("devices") if is_bare else data
    if isinstance(listed, list) and any(isinstance(one, dict) and key in one for one in listed):
        hint = f"convert it: genericdp convert --from {peer} FILE"
        return Finding((), "this is a config of another device plugin", hint)
    # What is wrong is not known in full, so no rule can look at the rest.
    message = f"the document has more than {MAX_ERRORS} problems"
    return Finding((), message) if len(errors) > MAX_ERRORS else None


def _keys_of_another_kind(data: Plain, kind: str) -> tuple[str, ...]:
    """Return the keys that tell of some other Kubernetes document, whose rest does not matter."""
    named = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(named, str) or named == kind:
        return ()
    if named in _OTHER_KINDS:
        return ("kind",)
    version = data.get("apiVersion")
    wanted = resolved_schema(kind)["properties"]["apiVersion"]["const"]
    return ("apiVersion", "kind") if isinstance(version, str) and version != wanted else ()


def _is_known(error: ValidationError, field: Field) -> bool:
    """Return whether it is about a value, or a key, that a problem was reported for."""
    node = None
    if "propertyNames" in error.absolute_schema_path:
        node = field.document.node((*field.path, str(error.instance)))
    return error.instance is FAULTY or (node is not None and node.faulty)


def _without(data: Plain, wrong: set[KeyPath], path: KeyPath) -> Plain:
    if path in wrong or data is FAULTY:
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
    node = field.document.node(field.path)
    source = node.source if node is not None else None
    value = field.value
    if value is None:
        empty = "string" in wanted and "number" not in wanted
        hint = "write '' for the empty string" if empty else _sample(error.schema)
        field.refuse(f"expected {listed}, but it is {'null' if source else 'empty'}", hint)
    elif isinstance(value, str):
        hint = _meant_by_text(value, wanted, error.schema)
        field.refuse(f"expected {listed}, not the string {quoted(value)}", hint)
    elif isinstance(value, (dict, list)):
        hint = _sample(error.schema)
        if wanted == ["array"]:
            hint = "begin each entry with '- '"
        what = "a list" if isinstance(value, list) else "a mapping"
        field.refuse(f"expected {listed}, not {what}", hint)
    else:
        _wrong_scalar(field, source or str(value), wanted, listed, error.schema)


def _wrong_scalar(field: Field, source: str, wanted: list[str], listed: str, part: Schema) -> None:
    read_as = reading(source) or "a number"
    meant = meant_boolean(source)
    if "boolean" in wanted and meant is not None and isinstance(field.value, Unclear):
        message = f"{source} is true or false only to some YAML parsers"
        field.refuse(message, f"write {str(meant).lower()}")
    elif "string" in wanted and not {"integer", "number"} & {*wanted}:
        fixed = _fixed(source, part["pattern"]) if "pattern" in part else source
        hint = f"write {single_quoted(fixed)}" if fixed else f"write {part['title']}, in quotes"
        field.refuse(f"{source} is read as {read_as} by some YAML parsers; expected {listed}", hint)
    else:
        is_number = read_as == "a number" and {"integer", "number"} & {*wanted}
        hint = "write it in decimal digits" if is_number else _sample(part)
        field.refuse(f"expected {listed}, not {source}", hint)


def _meant_by_text(text: str, wanted: list[str], part: Schema) -> str:
    if "boolean" in wanted and (meant := meant_boolean(text)) is not None:
        return f"write {str(meant).lower()} without quotes"
    if "integer" in wanted and _WHOLE.fullmatch(text):
        return f"write {text} without quotes"
    key, colon, _ = text.partition(":")
    if colon and key.lstrip("- ") in part.get("properties", ()):
        return "write a space after the ':' of a key"
    is_list_of_texts = wanted == ["array"] and part["items"].get("type") == "string"
    # One with spaces may be several entries, or a line for a shell.
    if is_list_of_texts and " " not in text and len(text) <= MAX_QUOTED:
        return f"write {yaml_flow([text])}"
    return _sample(part)


def _sample(part: Schema) -> str:
    examples = part.get("examples") or [[one] for one in part.get("items", {}).get("examples", ())]
    return f"as in {yaml_flow(examples[0])}" if examples else ""


def _fixed(text: str, pattern: str) -> str | None:
    """Return the text as the pattern has it, if that is plain to see."""
    wanted = compiled(pattern)
    bare = text[2:] if text[:2] in {"0x", "0X"} else ""
    choices = (text, f"0000:{text}", *(bare.zfill(digits) for digits in (2, 4, 6) if bare))
    return next((one for one in choices if wanted.search(one)), None)


def _unexpected(field: Field, error: Violation) -> None:
    """Say what is wanted by the title of the schema: for patterns, and words that are listed."""
    text = error.instance
    if error.validator == "not" and error.validator_value == {}:
        hint = error.schema["description"]
        field.refuse(f"{field.key!r} is {error.schema['title']}", hint, of_key=True)
        return
    hint = "templates are not allowed here" if "$(" in text else ""
    if error.validator == "pattern" and (fixed := _fixed(text, error.validator_value)):
        hint = f"write {single_quoted(fixed)}"
    field.refuse(f"{quoted(text)} is not {error.schema['title']}", hint)


def _not_listed(field: Field, error: Violation) -> None:
    known = [str(value) for value in error.validator_value]
    wanted = error.schema.get("title") or f"one of {', '.join(known)}"
    if isinstance(text := error.instance, str):
        meant = closest(text, known)
        field.refuse(f"{quoted(text)} is not {wanted}", f"did you mean {meant!r}?" if meant else "")


def _not_the_one(field: Field, error: Violation) -> None:
    node = field.document.node(field.path)
    source = node.source if node is not None else None
    text = quoted(field.value) if isinstance(field.value, str) else source or "it"
    hint = _OTHER_KINDS.get(str(field.value), "") if field.path == ("kind",) else ""
    field.refuse(f"{text} is not {error.validator_value!r}", hint)


def _out_of_range(field: Field, error: Violation) -> None:
    less = "less" if error.validator == "minimum" else "more"
    limit = error.validator_value
    field.refuse(f"{field.value} is {less} than the {error.validator} of {limit}")


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
        hint = _hint_for_key(field, key, known) if i < _MAX_GUESSES else ""
        field[key].refuse(f"unknown key {quoted(key)}", hint, of_key=True)


def _unknown_keys(error: Violation) -> list[str]:
    patterns = error.schema.get("patternProperties", ())
    return sorted(
        key
        for key in error.instance
        if key not in error.schema["properties"]
        and not any(re.search(pattern, key) for pattern in patterns)
    )


def _term(key: str, known: dict[str, Schema]) -> str:
    """Return what the key is called here, if others call it so."""
    word = _OTHER_WORDS.get(key, key.lower())
    return word if word in known else key


def _hint_for_key(field: Field, key: str, known: dict[str, Schema]) -> str:
    if place := _right_place(field, key):
        return f"it belongs {place}: check the indentation"
    return suggestion(_term(key, known), known)


def _right_place(field: Field, key: str) -> str:
    """Return where the schema has a key that is unknown here: above, or one level below."""
    above: list[str] = []
    kind = field.document.data.get("kind")
    keys = keys_of(resolved_schema(kind if kind in [*KINDS] else CONFIG))
    for i, step in enumerate(field.path):
        if isinstance(step, int):
            continue
        if key in keys and key not in field.document.keys(field.path[:i]):
            above.append(step)
        keys = keys_of(keys.get(step, {}))
    if above:
        return f"beside {above[-1]!r}"
    if key.isupper() and "properties" in keys and key.lower() not in keys:
        return "below 'properties'"
    deeper = {f"{a}.{b}": part for a in keys for b, part in keys_of(keys[a]).items()}
    for parts in (keys, deeper):
        if below := [repr(name) for name, part in parts.items() if key in keys_of(part)]:
            return f"below {' or '.join(below)}"
    return ""


def _missing(field: Field, error: Violation) -> None:
    known = error.schema["properties"]
    unknown = _unknown_keys(error)[:_MAX_GUESSES]
    meant = {closest(_term(key, known), known) for key in unknown}
    for key in error.validator_value:
        if key not in error.instance and key not in meant:
            field.refuse(f"the key {key!r} is required")


def _alternatives(field: Field, error: Violation) -> None:
    choices = [one["required"][0] for one in error.validator_value]
    listed = ", ".join(choices)
    present = [choice for choice in choices if choice in error.instance]
    for extra in present[1:]:
        message = f"{extra!r} cannot be combined with {present[0]!r}"
        hint = f"one of {listed}"
        if "hardware" in error.schema["properties"] and extra in HARDWARE:
            hint += "; what the device sits on goes below 'hardware'"
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
