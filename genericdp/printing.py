"""Texts of anybody on one line of a log, a table or a page: what cannot be printed is escaped."""

from __future__ import annotations


def printable(text: str) -> str:
    """Escape what would end the line, move a terminal's cursor or hide what stands around it."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def shortened(text: str, most: int = 200) -> str:
    """Return a text that is not longer than that, cut at its end."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
