"""The JSON Schema of the config language: keys, types, limits and their documentation."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import genericdp
from genericdp.errors import GenericdpError

_NAME = "genericdp.v1alpha1.json"


def schema_text() -> str:
    """Give the schema as it is shipped."""
    package = Path(genericdp.__file__).parent
    # In a wheel it lies inside of the package, in a checkout beside it.
    for folder in (package / "schemas", package.parent / "schemas"):
        path = folder / _NAME
        if path.is_file():
            return path.read_text("utf-8")
    raise GenericdpError(f"{_NAME} is missing from this installation: install genericdp again")


@cache
def schema() -> dict[str, Any]:
    """Give the schema."""
    parsed: dict[str, Any] = json.loads(schema_text())
    return parsed
