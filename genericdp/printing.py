"""Texts of anybody on one line of a log, a table, a page or YAML: unprintable ones are escaped.

Commands print through this module alone.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from typing import TYPE_CHECKING, TextIO

from genericdp.errors import GenericdpError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_QUIET_SECONDS = 2.0
"""Only what takes longer tells how far it is."""
_PLAIN_YAML = re.compile(r"[A-Za-z/$][A-Za-z0-9_/.$()*-]*")
_NO_YAML_TEXT = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

_MAX_GUESSED = 40


class StdoutError(GenericdpError):
    """Stdout cannot be written; exit code 0 if it is a pipe whose reader has gone (``| head``)."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"stdout cannot be written: {(error.strerror or '').lower()}")
        self.exit_code = 0 if isinstance(error, BrokenPipeError) else 1


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


def closest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known word that was probably meant, if one is close."""
    from difflib import get_close_matches  # rarely needed, and costly

    # Comparing is quadratic in the length: nobody mistypes by more than this.
    if len(word) > _MAX_GUESSED:
        return None
    return next(iter(get_close_matches(word, sorted(known), n=1, cutoff=cutoff)), None)


def did_you_mean(word: str, known: Iterable[str], *, prefix: str = "") -> str:
    """Return a hint that names the known word closest to this one; empty if none is close.

    A prefix that all have is not compared.
    """
    others = [one.removeprefix(prefix) for one in known]
    meant = closest(word.removeprefix(prefix), others, cutoff=0.7)
    return f" (did you mean {prefix}{meant}?)" if meant else ""


def printable_lines(text: str) -> str:
    """Escape each line of a text as ``printable`` does."""
    return "\n".join(map(printable, text.split("\n")))


def _print(text: str, file: TextIO | None = None, *, end: str = "\n") -> None:
    try:
        print(text, file=file, end=end, flush=True)
    except OSError as error:
        if file in {None, sys.stdout}:
            raise StdoutError(error) from error
        raise


def flush_stdout() -> None:
    """Write what somebody else has printed; raises StdoutError."""
    _print("", end="")


def print_lines(lines: Iterable[str], *, file: TextIO | None = None) -> None:
    """Print lines for people, escaped as ``printable`` does; to stdout unless ``file`` is given."""
    _print("\n".join(map(printable, lines)), file)


def print_warning(sentence: str) -> None:
    """Print a warning to stderr."""
    print_lines([f"warning: {sentence}"], file=sys.stderr)


def print_json(value: object, *, indent: int | None = 2, file: TextIO | None = None) -> None:
    """Print a value as JSON, which has its own escapes."""
    _print(json.dumps(value, indent=indent), file)


def shell_words(words: Iterable[str]) -> str:
    """Return words as a shell takes them, those with something unprintable as ``$'...'``.

    bash, zsh, ksh and busybox know that form; dash does not, and sees a ``$`` before the word.
    """
    return " ".join(shlex.quote(one) if one.isprintable() else _dollar_quoted(one) for one in words)


def _dollar_quoted(word: str) -> str:
    plain = set(range(0x20, 0x7F)) - {*b"\\'"}
    return "".join(
        (
            "$'",
            *(
                chr(one) if one in plain else f"\\{one:03o}"
                for one in word.encode(errors="surrogateescape")
            ),
            "'",
        )
    )


def print_document(text: str) -> None:
    """Print a text as it is, which must hold nothing that is unsafe: YAML, a schema, colors."""
    _print(text, end="" if text.endswith("\n") else "\n")


def print_bytes(content: bytes) -> None:
    """Print what is not text."""
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except OSError as error:
        raise StdoutError(error) from error


class Progress:
    """Tells on stderr how far a slow operation is: after 2 s, and each time twice as long after."""

    def __init__(self) -> None:
        self._pause = _QUIET_SECONDS
        self._next = time.monotonic() + self._pause

    @property
    def seconds_left(self) -> float:
        """How long until there is something to tell."""
        return max(0.0, self._next - time.monotonic())

    def tell(self, sentence: Callable[[], str]) -> None:
        """Print a sentence if it is time; may be called as often as you like."""
        if not self.seconds_left:
            print_lines([sentence()], file=sys.stderr)
            self._pause *= 2
            self._next = time.monotonic() + self._pause


def table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows as lines with aligned columns, escaped; empty cells are shown as ``-``."""
    texts = [tuple(printable(cell) or "-" for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    ]


def plural(number: int, word: str) -> str:
    """Return a number with its noun, as ``1 file`` or ``1,200 files``."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def first_few(names: Sequence[str], most: int) -> str:
    """Return the first names, separated by commas, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def yaml_text(text: str) -> str:
    """Return a scalar that every version of YAML reads as this text."""
    if _PLAIN_YAML.fullmatch(text) and text.lower() not in _NO_YAML_TEXT:
        return text
    if not text.isprintable():
        return '"' + "".join(map(yaml_escaped, text)) + '"'
    if '"' in text or "\\" in text:
        return "'" + text.replace("'", "''") + "'"
    return f'"{text}"'


def yaml_escaped(character: str) -> str:
    """Return a character as it is written between double quotes."""
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\U{code:08x}"


def yaml_flow(value: object) -> str:
    """Return nested mappings and lists of texts, numbers and booleans as YAML on one line."""
    if isinstance(value, dict):
        return f"{{{yaml_mapping(value)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(yaml_flow, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return yaml_text(str(value))


def yaml_mapping(keys: Mapping[str, object]) -> str:
    """Return a mapping as ``yaml_flow`` does, without the outer braces."""
    return ", ".join(f"{yaml_text(key)}: {yaml_flow(value)}" for key, value in keys.items())
