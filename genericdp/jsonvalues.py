"""JSON: untrusted input, and dataclasses as records in files."""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import repeat
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")

_SEPARATORS = (b"{", b"[", b",")
KEY = "key"
"""Metadata of a field: its key in records, if that is not derived from its name."""
PAIRS = "pairs"
"""Metadata of a field: its sorted pairs of strings are an object in records."""


def count_values(content: bytes | bytearray) -> int:
    """Return an upper bound of the number of values in JSON: parsed, a thousand need up to 100
    kB.
    """
    return sum(map(content.count, _SEPARATORS))


def parse_json(content: bytes, max_values: int) -> Any:  # noqa: ANN401
    """Parse JSON in ASCII; raise ValueError if it is malformed or has too many values.

    With a single character of another plane, Python needs four bytes for each character of a
    string.
    """
    if not content.isascii():
        raise ValueError("it is not in ASCII")
    if count_values(content) > max_values:
        raise ValueError(f"it has more than {max_values:,} values")
    return json.loads(content)


def as_record(value: Any) -> Any:  # noqa: ANN401
    """Return a dataclass and its contents as JSON, without fields that are not compared."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple | list):
        return list(map(as_record, value))
    if isinstance(value, dict):
        return {key: as_record(entry) for key, entry in value.items()}
    return {
        key: dict(field_value) if has_pairs else as_record(field_value)
        for name, key, _, has_pairs in _fields(type(value))  # type: ignore[arg-type]
        for field_value in (getattr(value, name),)
    }


def from_record(kind: type[T], record: Any) -> T:  # noqa: ANN401
    """Return the value of this type from a record of ``as_record``; raise one of DAMAGE.

    Fields that the type does not have are ignored: another version may have written them.
    """
    found: Any = _value(kind, record)
    return found  # type: ignore[no-any-return]


def _value(kind: Any, record: Any) -> Any:  # noqa: ANN401
    if kind is Any or type(record) is kind:
        return record
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        _check(record, dict)
        return kind(
            **{name: _of(type_, record[key], pairs) for name, key, type_, pairs in _fields(kind)}
        )
    if origin is list:
        _check(record, list)
        return [_value(arguments[0], entry) for entry in record]
    if origin is tuple:
        _check(record, list)
        kinds = repeat(arguments[0], len(record)) if arguments[-1] is ... else arguments
        return tuple(_value(type_, entry) for type_, entry in zip(kinds, record, strict=True))
    if origin is dict:
        _check(record, dict)
        return {key: _value(arguments[1], entry) for key, entry in record.items()}
    if origin is UnionType:  # with None
        return None if record is None else _value(arguments[0], record)
    _check(record, int if kind is float else kind)
    return float(record)


def _of(kind: Any, record: Any, has_pairs: bool) -> Any:  # noqa: ANN401, FBT001
    if has_pairs:
        return tuple(sorted(_value(dict[str, str], record).items()))
    return _value(kind, record)


def _check(value: object, kind: type) -> None:
    if type(value) is not kind:
        raise TypeError(f"{type(value).__name__} where {kind.__name__} belongs")


@cache
def _fields(kind: type) -> list[tuple[str, str, Any, bool]]:
    """Return name, key and type of each field of a record, and whether it has pairs."""
    hints = get_type_hints(kind)
    return [
        (
            field.name,
            field.metadata.get(KEY) or _key(field.name),
            hints[field.name],
            PAIRS in field.metadata,
        )
        for field in fields(kind)
        if field.compare
    ]


def _key(name: str) -> str:
    """Return the key of a field: ``is_node`` is ``node``, ``kernel_name`` is ``kernelName``."""
    return re.sub("_([a-z])", lambda match: match[1].upper(), name.removeprefix("is_"))
