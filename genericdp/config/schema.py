"""The JSON Schemas of the two kinds of document: keys, types, limits and their documentation."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import genericdp
from genericdp.errors import GenericdpError

CONFIG = "DevicePluginConfig"
POLICY = "DevicePluginPolicy"
KINDS = {CONFIG: "genericdp.v1alpha1.json", POLICY: "genericdp-policy.v1alpha1.json"}
"""By the kind of document, the file."""


def schema_text(kind: str = CONFIG) -> str:
    """Return the schema as it is shipped; raise GenericdpError if it is missing."""
    package = Path(genericdp.__file__).parent
    name = KINDS[kind]
    # In a wheel it lies inside of the package, in a checkout beside it.
    for folder in (package / "schemas", package.parent / "schemas"):
        path = folder / name
        if path.is_file():
            return path.read_text("utf-8")
    raise GenericdpError(f"{name} is missing from this installation: install genericdp again")


@cache
def schema(kind: str = CONFIG) -> dict[str, Any]:
    """Return the schema."""
    parsed: dict[str, Any] = json.loads(schema_text(kind))
    return parsed
