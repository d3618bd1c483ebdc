"""Ids: short, clean, stable."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from genericdp.devices.device import MAX_REPLICAS, as_id, device_id_of, share_number
from genericdp.devices.inventory import natural_key
from hypothesis import given
from hypothesis import strategies as st

from tests.devices.making import decide, healthy, node, resource

if TYPE_CHECKING:
    from genericdp.devices.inventory import FoundFile


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ttyUSB0", "ttyUSB0"),
        ("1-1.4:1.0", "1-1.4:1.0"),
        ("0000:03:00.0", "0000:03:00.0"),
        ("serial/by-id/usb-A B", "serial_by-id_usb-A_B"),
        ("a::b", "a__b"),
        (":::", "___"),
        ("0403:", "0403_"),
        ("::::", "____"),
        ("*[?]", "____"),
        ("é\n\0\udcff", "____"),
        ("x" * 57, "x" * 57),
    ],
)
def test_foreign_characters_become_underscores(text: str, expected: str) -> None:
    assert as_id(text) == expected


def test_what_is_too_long_is_cut_and_told_apart_by_a_hash() -> None:
    first, other = as_id("x" * 58), as_id("x" * 57 + "y")
    assert len(first) == len(other) == 57
    assert first != other
    assert first == as_id("x" * 58)
    assert re.fullmatch("x{44}-[0-9a-f]{12}", first)


@given(st.text(st.characters(exclude_categories=())), st.integers(1, MAX_REPLICAS - 1))
def test_any_text_gives_a_valid_id_with_room_for_each_share(text: str, share: int) -> None:
    """Lone surrogates, too: names of files may be any bytes."""
    name = f"{as_id(text)}::{share}"
    assert len(name) <= 63
    assert re.fullmatch("[A-Za-z0-9._:-]*", name)
    assert device_id_of(name) == as_id(text)
    assert share_number(name) == share


@given(st.text("ab:/_", max_size=80))
def test_an_id_never_looks_like_a_share(text: str) -> None:
    assert "::" not in as_id(text)
    assert as_id(as_id(text)) == as_id(text)


@given(st.lists(st.text("aZ09.-", min_size=1, max_size=6), unique=True))
def test_natural_order_is_total_and_the_same_in_any_order(texts: list[str]) -> None:
    backwards = list(reversed(texts))
    assert sorted(texts, key=natural_key) == sorted(backwards, key=natural_key)
    assert len({natural_key(text) for text in texts}) == len(texts)


def test_numbers_are_ordered_as_numbers() -> None:
    names = ["ttyUSB10", "ttyUSB9", "ttyUSB1", "ttyUSB", "tty1USB", "ttyUSB01"]
    ordered = ["tty1USB", "ttyUSB", "ttyUSB01", "ttyUSB1", "ttyUSB9", "ttyUSB10"]
    assert sorted(names, key=natural_key) == ordered


@given(st.permutations([node(f"/dev/d{i}", (1, i), inode=i) for i in range(6)]))
def test_ids_are_the_same_in_any_order_of_discovery(files: list[FoundFile]) -> None:
    spec = resource("x", "/dev/*", id="$(device.minor)-x")
    assert healthy(decide([spec], files), "x") == [f"{i}-x" for i in range(6)]
