"""JSON that others may have written: a few bytes of it can become much memory."""

from __future__ import annotations

import json
from typing import Any

_SEPARATORS = (b"{", b"[", b",")


def count_values(content: bytes | bytearray) -> int:
    """Return how many values JSON has, or more: parsed, a thousand of them need up to 100 kB."""
    return sum(map(content.count, _SEPARATORS))


def parse_json(content: bytes, max_values: int) -> Any:  # noqa: ANN401
    """Return what JSON in ASCII says; raise ValueError if it is none, or has more values.

    With a single character of another plane, Python needs four bytes for each of a text.
    """
    if not content.isascii():
        raise ValueError("it is not in ASCII")
    if count_values(content) > max_values:
        raise ValueError(f"it has more than {max_values:,} values")
    return json.loads(content)
