"""Tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Give the rows as lines with aligned columns; the first row is the heading."""
    texts = [tuple(printable(cell) or "-" for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    ]
