"""Validate against a JSON Schema, more strictly than JSON Schema would.

A whole number must be written as one, patterns are those of RE2, and the entries of a list that is
too long are not checked, since that is a single mistake.
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
    """Yield the errors of a document according to the schema of its kind."""
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
    """Return whether it is written as an integer: 1.0 is not."""
    return type(value) is int


def _has_pattern(
    _: Validator, pattern: str, value: object, __: object
) -> Iterator[ValidationError]:
    """Search as JavaScript does: ``$`` matches only the end of the text, not a newline before
    it.
    """
    if isinstance(value, str) and compiled(pattern).search(value) is None:
        yield ValidationError(pattern)


def _has_items(
    validator: Validator, part: Schema, value: object, around: Schema
) -> Iterator[ValidationError]:
    """Check the entries of a list, unless it is too long."""
    if isinstance(value, list) and len(value) <= around.get("maxItems", len(value)):
        yield from Draft202012Validator.VALIDATORS["items"](validator, part, value, around)
