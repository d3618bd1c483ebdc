"""Natural order: ttyUSB2 before ttyUSB10."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"([0-9]+)")


def natural_key(text: str) -> tuple[tuple[str | int, ...], str]:
    """Give a sort key that compares runs of digits as numbers.

    The text itself breaks ties (``a01`` and ``a1``), so that the order is total.
    """
    parts: list[str | int] = list(_DIGITS.split(text))
    parts[1::2] = map(int, parts[1::2])
    return tuple(parts), text
