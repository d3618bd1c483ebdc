"""With how many examples hypothesis tries a property."""

from __future__ import annotations

import os

THOROUGH = bool(os.environ.get("THOROUGH"))


def examples(number: int) -> int:
    """Return the number for every run, or ten times it with THOROUGH=1 in the environment."""
    return number * 10 if THOROUGH else number
