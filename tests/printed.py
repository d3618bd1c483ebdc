"""The output of commands with ``-o json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

_SCHEMA = Path(__file__).parents[1] / "schemas/genericdp-output.v1alpha1.json"


def resources_in(printed: str) -> dict[str, Any]:
    """Return them by name."""
    return {resource["name"]: resource for resource in json.loads(printed)["resources"]}


def shares_of(device: dict[str, Any]) -> list[str]:
    """Return the IDs that the kubelet sees of a device."""
    device_id, count = device["id"], device["shares"]
    return [device_id, *(f"{device_id}::{number}" for number in range(1, count))]


def output_schema() -> dict[str, Any]:
    """Return the schema, in which objects have no other fields than those that it names."""
    schema: dict[str, Any] = json.loads(_SCHEMA.read_text())
    parts: list[Any] = [schema]
    for part in parts:
        parts += [value for value in part.values() if isinstance(value, dict)]
        if isinstance(part.get("properties"), dict):
            part["additionalProperties"] = False
    return schema


def violations(command: str, document: object) -> list[str]:
    """Return what the schema of a command's output does not allow in a document."""
    schema = {"$ref": f"#/$defs/{command}", "$defs": output_schema()["$defs"]}
    errors = Draft202012Validator(schema).iter_errors(json.loads(json.dumps(document)))
    return [f"{error.json_path}: {error.message}" for error in errors]
