"""The JSON Schemas of the two kinds of document, and other files that are shipped with the code."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from genericdp.errors import GenericdpError

CONFIG = "DevicePluginConfig"
POLICY = "DevicePluginPolicy"
KINDS = {CONFIG: "genericdp.v1alpha1.json", POLICY: "genericdp-policy.v1alpha1.json"}
"""The file, by the kind of document."""

Schema = dict[str, Any]
"""A JSON Schema, or a part of one."""


def shipped(name: str) -> Path:
    """Return the path of a file, such as ``schemas/...``; raise GenericdpError if it is missing."""
    package = Path(__file__).parents[1]
    # In a wheel the file is inside the package, in a checkout next to it.
    for directory in (package, package.parent):
        if (directory / name).is_file():
            return directory / name
    raise GenericdpError(
        f"{Path(name).name} is missing from this installation: install genericdp again"
    )


def schema_text(kind: str = CONFIG) -> str:
    """Return the schema as it is shipped; raise GenericdpError if it is missing."""
    return shipped(f"schemas/{KINDS[kind]}").read_text("utf-8")


@cache
def schema(kind: str = CONFIG) -> Schema:
    """Return the schema."""
    parsed: Schema = json.loads(schema_text(kind))
    return parsed


@cache
def resolved_schema(kind: str = CONFIG) -> Schema:
    """Return the schema with each ``$ref`` replaced: looking them up takes half of the time."""
    definitions = schema(kind)["$defs"]

    def resolved(part: Any) -> Any:  # noqa: ANN401  # any part of a schema
        if isinstance(part, list):
            return list(map(resolved, part))
        if not isinstance(part, dict):
            return part
        own = {
            key: resolved(subschema)
            for key, subschema in part.items()
            if key not in {"$ref", "$defs"}
        }
        named = resolved(definitions[part["$ref"].rpartition("/")[2]]) if "$ref" in part else {}
        both = {
            key: {**named[key], **own[key]} for key in {"properties"} & named.keys() & own.keys()
        }
        return {**named, **own, **both}

    found: Schema = resolved(schema(kind))
    return found


def resource_schema() -> Schema:
    """Return the schema of a resource."""
    part: Schema = resolved_schema()["properties"]["resources"]["items"]
    return part


def keys_of(part: Schema) -> dict[str, Schema]:
    """Return the keys of a mapping, or of the mappings in a list, with their schemas."""
    keys: dict[str, Schema] = part.get("items", part).get("properties", {})
    return keys


def part_of(part: Schema, step: str | int) -> Schema:
    """Return the part of a schema for the value of a key, or for an entry of a list."""
    found: Any
    if isinstance(step, int):
        first = part.get("prefixItems", ())
        found = first[step] if step < len(first) else part.get("items")
    else:
        found = part.get("properties", {}).get(step, part.get("additionalProperties"))
    return found if isinstance(found, dict) else {}
