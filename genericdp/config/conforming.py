"""Whether a document conforms to a schema; what is wrong with one that does not, jsonschema says.

Most configs are right, and to import jsonschema takes longer than to read them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from genericdp.config.tree import Plain

    Schema = Mapping[str, Any]
    Check = Callable[["_Place", Plain, Any], bool]

TYPES: Mapping[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    # True is no number, and 1.0 no integer.
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) in {int, float},
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_SAYS_NOTHING = {"$schema", "$id", "$defs", "title", "description", "default"}
_REF = "#/$defs/"


def conforms(value: Plain, schema: Schema) -> bool:
    """Say whether a value surely conforms.

    False also where that is not known: of a keyword or a value that the schemas here do not have.
    """
    return _Place(schema, schema).holds(value)


class _Place:
    """A schema within another one, which its references are about."""

    def __init__(self, schema: Schema | bool, root: Schema) -> None:  # noqa: FBT001  # true, false
        self.schema = schema
        self._root = root

    def holds(self, value: Plain) -> bool:
        if isinstance(self.schema, bool):
            return self.schema
        return all(
            keyword in _SAYS_NOTHING
            or (keyword in _CHECKS and _CHECKS[keyword](self, value, given))
            for keyword, given in self.schema.items()
        )

    def within(self, schema: Schema | bool, value: Plain) -> bool:  # noqa: FBT001
        return _Place(schema, self._root).holds(value)

    def named(self, reference: str, value: Plain) -> bool:
        found = self._root.get("$defs", {}).get(reference.removeprefix(_REF))
        return found is not None and reference.startswith(_REF) and self.within(found, value)

    def others(self, value: Mapping[str, Plain]) -> list[str]:
        """Give the keys of a mapping that the schema does not name."""
        assert not isinstance(self.schema, bool)  # noqa: S101
        named = self.schema.get("properties", {})
        patterns = self.schema.get("patternProperties", {})
        return [
            key
            for key in value
            if key not in named and not any(re.search(one, key) for one in patterns)
        ]


def _has_type(_: _Place, value: Plain, given: str | list[str]) -> bool:
    kinds = [given] if isinstance(given, str) else given
    return any(one in TYPES and TYPES[one](value) for one in kinds)


def _has_properties(place: _Place, value: Plain, given: Mapping[str, Schema]) -> bool:
    return not isinstance(value, dict) or all(
        place.within(given[key], one) for key, one in value.items() if key in given
    )


def _has_patterns(place: _Place, value: Plain, given: Mapping[str, Schema]) -> bool:
    return not isinstance(value, dict) or all(
        place.within(schema, one)
        for pattern, schema in given.items()
        for key, one in value.items()
        if re.search(pattern, key)
    )


def _has_others(place: _Place, value: Plain, given: Schema) -> bool:
    return not isinstance(value, dict) or all(
        place.within(given, value[key]) for key in place.others(value)
    )


def _has_items(place: _Place, value: Plain, given: Schema) -> bool:
    return not isinstance(value, list) or all(place.within(given, one) for one in value)


def _is_one_of(_: _Place, value: Plain, given: list[Plain]) -> bool:
    return isinstance(value, str) and value in given


def _is_unique(_: _Place, value: Plain, given: bool) -> bool:  # noqa: FBT001
    if not given or not isinstance(value, list):
        return True
    texts = [one for one in value if isinstance(one, str)]
    return len(set(texts)) == len(value)


def _is_number(value: Plain) -> bool:
    return TYPES["number"](value)


_CHECKS: dict[str, Check] = {
    "$ref": lambda place, value, given: place.named(given, value),
    "type": _has_type,
    "properties": _has_properties,
    "patternProperties": _has_patterns,
    "additionalProperties": _has_others,
    "items": _has_items,
    "enum": _is_one_of,
    "const": lambda place, value, given: _is_one_of(place, value, [given]),
    "uniqueItems": _is_unique,
    "required": lambda _, value, given: not isinstance(value, dict) or value.keys() >= {*given},
    "minProperties": lambda _, value, given: not isinstance(value, dict) or len(value) >= given,
    "minItems": lambda _, value, given: not isinstance(value, list) or len(value) >= given,
    "maxItems": lambda _, value, given: not isinstance(value, list) or len(value) <= given,
    "minLength": lambda _, value, given: not isinstance(value, str) or len(value) >= given,
    "minimum": lambda _, value, given: not _is_number(value) or value >= given,
    "maximum": lambda _, value, given: not _is_number(value) or value <= given,
}
