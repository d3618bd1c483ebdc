"""The resources that commands print with ``-o json``."""

from __future__ import annotations

import json
from typing import Any


def resources_in(printed: str) -> dict[str, Any]:
    """Return them by name."""
    return {resource["name"]: resource for resource in json.loads(printed)["resources"]}


def shares_of(device: dict[str, Any]) -> list[str]:
    """Return the IDs that the kubelet sees of a device."""
    device_id, count = device["id"], device["shares"]
    return [device_id, *(f"{device_id}::{number}" for number in range(1, count))]
