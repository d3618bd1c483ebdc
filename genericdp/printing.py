"""Format untrusted strings for messages: escape, truncate, list, suggest."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Sequence

MAX_QUOTED = 80
"""Maximum length of a quoted string in a message."""
_MAX_GUESSED = 40
_MAX_LISTED = 8
_LOOKALIKE = re.compile(
    "[\u00a0\u00ad\u200b-\u200d\u2010-\u201f\u202f\u2060\u2212\u3000\ufeff\uff07\uff02\uff1a]"
)
"""Spaces, dashes, quotes and colons that look like those of ASCII, and what is not seen."""


def printable(text: str) -> str:
    """Escape characters that would end the line, move a terminal's cursor or hide other text.

    A byte that is not UTF-8 is shown as in strings that are read from files: ``\\xff``.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:x}"
    return char.encode("unicode_escape").decode()


def shortened(text: str, max_length: int = 200) -> str:
    """Return a string, cut at its end if it is too long."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def closest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known word that was probably meant, if one is close."""
    from difflib import get_close_matches  # rarely needed, and costly

    # Comparing is quadratic in the length, so longer names are not compared.
    if len(word) > _MAX_GUESSED:
        return None
    return next(iter(get_close_matches(word, sorted(known), n=1, cutoff=cutoff)), None)


def did_you_mean(word: str, known: Iterable[str], *, prefix: str = "") -> str:
    """Return a hint that names the known word closest to this one; empty if none is close.

    A prefix that all words have is not compared.
    """
    others = [name.removeprefix(prefix) for name in known]
    meant = closest(word.removeprefix(prefix), others, cutoff=0.7)
    return f" (did you mean {prefix}{meant}?)" if meant else ""


def plural(number: int, word: str) -> str:
    """Return a number with its noun, as ``1 file`` or ``1,200 files``."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def meant_or_listed(name: str, known: Collection[str], intro: str) -> str:
    """Return the name that was probably meant, else the first known names."""
    # A common domain does not make names similar.
    domain = name[: name.find("/") + 1]
    shared = domain if any(name.startswith(domain) for name in known) else ""
    listed = f" ({intro}: {first_few([*known], _MAX_LISTED) or 'none'})"
    return did_you_mean(name, known, prefix=shared) or listed


def first_few(names: Sequence[str], max_names: int) -> str:
    """Return the first names, separated by commas, and how many more there are."""
    more = f" and {len(names) - max_names} more" if len(names) > max_names else ""
    return f"{', '.join(names[:max_names])}{more}"


def quoted(text: str) -> str:
    """Return a string in quotes, on one line, cut if it is long."""
    quote = '"' if "'" in text and '"' not in text else "'"
    return f"{quote}{printable(shortened(text, MAX_QUOTED))}{quote}"


def suggestion(word: str, known: Iterable[str], taken: Container[str] = ()) -> str:
    """Return a hint for an unknown word; some known words may be excluded as hints."""
    ordered = sorted(known)
    if (meant := closest(word, [name for name in ordered if name not in taken])) is not None:
        return f"did you mean {meant!r}?"
    return f"known: {first_few(ordered, _MAX_LISTED)}"


def lookalike_hint(text: str) -> str:
    """Return which character of a string was probably meant to be one of ASCII, as a hint."""
    if (found := _LOOKALIKE.search(text)) is None:
        return ""
    kind = unicodedata.category(found[0])
    named = f"it has U+{ord(found[0]):04X} {unicodedata.name(found[0]).lower()}"
    if kind == "Cf":
        return f"{named}, which is not seen: remove it"
    meant = {"Zs": "a plain space", "Pd": "-", "Po": ":"}.get(kind, "' or \", the quotes of YAML")
    return f"{named}: write {meant}"
