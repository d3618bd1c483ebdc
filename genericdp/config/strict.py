"""Validate against a JSON Schema, more strictly than JSON Schema would.

A whole number is one that is written so, patterns are those of RE2, and of a list that is too long
the entries are not checked, since that is one mistake.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from genericdp.config.schema import CONFIG, resolved_schema
from genericdp.regex import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema.protocols import Validator

    from genericdp.config.schema import Schema


def errors_in(data: Any, kind: str) -> Iterator[ValidationError]:  # noqa: ANN401  # any value
    """Yield what the schema of a kind of document finds wrong with one."""
    yield from _validator(kind).iter_errors(data)


def conforms(value: Any, part: Schema) -> bool:  # noqa: ANN401  # any value
    """Return whether a part of a schema allows a value."""
    return bool(_validator(CONFIG).evolve(schema=part).is_valid(value))


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
    """Check the entries of a list, unless it is too long."""
    if isinstance(value, list) and len(value) <= around.get("maxItems", len(value)):
        yield from Draft202012Validator.VALIDATORS["items"](validator, part, value, around)
