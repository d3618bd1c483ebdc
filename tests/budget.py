"""With how many examples hypothesis tries a property."""

from __future__ import annotations

import os

_TIMES = 10 if os.environ.get("THOROUGH") else 1


def examples(number: int) -> int:
    """Return the number for every run, or ten times it with THOROUGH=1 in the environment."""
    return number * _TIMES
