"""Any text as a glob and as a regular expression, against any text."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.regex import PatternError, compiled, extract

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS = 5.0
WORDS = tuple(
    word.encode()
    for word in (
        *("*", "**", "?", "[", "]", "[!", "[]", "[!]]", "[a-z]", "[z-a]", "-", "\\", "/", "\x01"),
        *("(", ")", "(?P<a>", "(?:", "|", "+", "{1,3}", "{1000}", "^", "$", ".", r"\d", r"\C"),
        *("(?i)", r"\pN", r"\x{10FFFF}", "[[:alpha:]]", "İ", "ß", "\u017f", "\n", "\0", "..", "--"),
        *("[^", "&&", "~~", "||", "[[", "--", "(?s", ")", "\\Z", "(?>", ".*?"),
    )
)


def seeds() -> Iterator[bytes]:
    yield b"/dev/tty[A-Z]*\x01/dev/ttyUSB0"
    yield b"[!0-9]?x[]]\x01abx]"
    yield rb"Device Minor:\s+(\d+)" + b"\x01Device Minor: 	 3"
    yield rb"(?P<a>[0-9a-f:.]+): (?:x|y)*?" + b"\x013b:00.0: x"
    yield b"*a*a*a*a*a*a*b\x01aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"


@contextmanager
def opened() -> Iterator[Callable[[bytes], None]]:
    yield _run


def _run(data: bytes) -> None:
    first, _, second = data.partition(b"\x01")
    pattern, name = first.decode("utf-8", "replace"), second.decode("utf-8", "surrogateescape")
    sound = glob.pattern_problem(pattern) is None
    glob.path_problem(pattern)
    matched = glob.matches(pattern, name)
    glob.matches(pattern, name, ignore_case=True)
    if sound and not glob.has_wildcard(pattern):
        assert matched == (name == glob.unescape(pattern)), "a glob for one text"
    assert glob.matches(glob.escape(name), name)
    assert glob.unescape(glob.escape(name)) == name
    try:
        regex = compiled(pattern)
    except PatternError:
        return
    text = second.decode("utf-8", "replace")  # what is no UTF-8 is refused before
    hit = extract(pattern, text)
    assert hit is None or hit in text
    assert set(regex.groupindex.values()) <= set(range(1, regex.groups + 1))
