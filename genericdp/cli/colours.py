"""Colour for terminals, and only for them."""

from __future__ import annotations

import os
import sys
from enum import Enum


class Colour(Enum):
    """What a text says beside its words; never instead of them."""

    PLAIN = ""
    GOOD = "32"
    BAD = "1;31"
    ODD = "33"
    TITLE = "1"
    FAINT = "2"


def are_wanted() -> bool:
    """Say whether stdout is a terminal that may be coloured (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout is not None and sys.stdout.isatty()


def coloured(line: str, colour: Colour) -> str:
    """Give the line in a colour."""
    return f"\033[{colour.value}m{line}\033[0m" if line and colour.value else line
