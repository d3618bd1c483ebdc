"""Texts of anybody on one line of a log, a table or a page: what cannot be printed is escaped."""

from __future__ import annotations


def printable(text: str) -> str:
    """Escape what would end the line, move a terminal's cursor or hide what stands around it."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )
