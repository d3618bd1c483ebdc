"""Errors, and strings that end no line, move no cursor and hide nothing next to them."""

from __future__ import annotations

import asyncio

import pytest
from genericdp.errors import KubeletError, UsageError, ungrouped
from genericdp.printing import printable
from hypothesis import given
from hypothesis import strategies as st


async def fail(error: Exception) -> None:
    raise error


async def test_an_error_of_ours_comes_alone_out_of_nested_groups() -> None:
    with pytest.raises(UsageError, match="do this"):
        async with ungrouped(), asyncio.TaskGroup() as outer:

            async def nested() -> None:
                async with ungrouped(), asyncio.TaskGroup() as inner:
                    inner.create_task(fail(UsageError("do this")))

            outer.create_task(nested())


async def test_a_mistake_of_ours_keeps_its_traceback_and_its_group() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with ungrouped(), asyncio.TaskGroup() as tasks:
            tasks.create_task(fail(ValueError("bug")))
            tasks.create_task(fail(KubeletError("gone")))
    assert caught.group_contains(ValueError)


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
