"""genericdp.printing: no text of anybody ends a line, moves a cursor or hides what is beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.printing import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("/dev/ttyUSB0 ü 漢", "/dev/ttyUSB0 ü 漢"),
        ("a\0/b\x1b[2J\nc\r\x85", r"a\x00/b\x1b[2J\nc\r\x85"),
        ("\u2028\u202e\u200b\udcff\ud800\U000e0001", r"\u2028\u202e\u200b\xff\ud800\U000e0001"),
        (r"C:\new", r"C:\new"),
    ],
)
def test_what_cannot_be_printed_is_escaped_and_nothing_else(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_becomes_one_printable_line(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert printable(shown) == shown
