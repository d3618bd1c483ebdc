from __future__ import annotations

import os
import tracemalloc

import pytest
from genericdp.process.run import MAX_KEPT, Pipe, decoded
from hypothesis import given
from hypothesis import strategies as st


async def written(*chunks: bytes) -> str:
    with Pipe() as pipe:
        for chunk in chunks:
            os.write(pipe.write_end, chunk)
            pipe.read()
        return pipe.text()


async def test_what_fits_is_kept_whole_however_it_arrives() -> None:
    assert await written(b"one\xc3", b"\xa9two", b"\n" * 60_000) == "oneétwo" + "\n" * 60_000


async def test_of_much_the_first_and_the_last_part_are_kept_and_no_more_memory_is_held() -> None:
    tracemalloc.start()
    try:
        text = await written(b"first\n", *[b"x" * 50_000] * 100, b"\nlast\n")
        _, most_held = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert text.startswith("first\nxxx")
    assert text.endswith("xxx\nlast\n")
    assert f"\n[{5_000_012 - MAX_KEPT} bytes left out]\n" in text
    assert len(text) < MAX_KEPT + 50
    assert most_held < 1_500_000


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
