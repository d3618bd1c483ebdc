from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.process.output import MOST_KEPT, Kept, decoded, last_line


def kept(*chunks: bytes) -> str:
    all_of_it = Kept()
    for chunk in chunks:
        all_of_it.add(chunk)
    return all_of_it.text()


@given(st.lists(st.binary(max_size=100)))
def test_what_fits_is_kept_whole_however_it_arrives(chunks: list[bytes]) -> None:
    assert kept(*chunks) == decoded(b"".join(chunks))


def test_of_much_the_first_and_the_last_part_are_kept() -> None:
    text = kept(b"first\n", *[b"x" * 50_000] * 100, b"\nlast\n")
    assert text.startswith("first\nxxx")
    assert text.endswith("xxx\nlast\n")
    assert f"\n[{5_000_012 - MOST_KEPT} bytes left out]\n" in text
    assert len(text) < MOST_KEPT + 50


def test_no_more_memory_is_held_than_for_what_is_kept() -> None:
    much, chunk = Kept(), b"x" * 1_000_000
    tracemalloc.start()
    try:
        for _ in range(100):
            much.add(chunk)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 3 * MOST_KEPT


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain\n\ttabs stay\n", "plain\n\ttabs stay\n"),
        ("Gerät 機器".encode(), "Gerät 機器"),
        (b"\x1b[2Jcleared", r"\x1b[2Jcleared"),
        (b"\x00\x07\r\x7f", r"\x00\x07\r\x7f"),
        (b"\xff\xfe", r"\xff\xfe"),
        ("\u202eright to left\u2028".encode(), r"\u202eright to left\u2028"),
        ("\U000e0001".encode(), r"\U000e0001"),
    ],
)
def test_what_no_terminal_should_see_is_escaped(data: bytes, text: str) -> None:
    assert decoded(data) == text


@given(st.binary())
def test_everything_can_be_printed(data: bytes) -> None:
    text = decoded(data)
    assert text.replace("\n", "").replace("\t", "").isprintable()
    text.encode()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("\n \n\t\n", ""),
        ("one", "one"),
        ("one\n  two  \n\n", "two"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 199 + "…"),
    ],
)
def test_the_last_line_is_the_last_that_says_something(text: str, line: str) -> None:
    assert last_line(text) == line
