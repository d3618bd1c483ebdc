"""Names of hardware: numbers of the kernel, IDs, and IDs of earlier versions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from genericdp.devices.device import MAX_REPLICAS, as_id, device_id_of, share_number
from genericdp.devices.inventory import SysDevice, natural_key
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    pass


HUGE = "9" * 5000


@pytest.mark.parametrize(
    ("properties", "number", "seconds"),
    [
        ({"MAJOR": "188", "MINOR": "0"}, (188, 0), None),
        ({"MAJOR": "9" * 9, "MINOR": "1"}, (10**9 - 1, 1), None),
        ({"MAJOR": "9" * 10, "MINOR": "1"}, None, None),
        *(({"MAJOR": text, "MINOR": "0"}, None, None) for text in ("", "-1", "0x1")),
        ({"MAJOR": "188"}, None, None),
        ({"MAJOR": HUGE, "MINOR": "0", "USEC_INITIALIZED": HUGE}, None, None),
        ({"USEC_INITIALIZED": "1234567"}, None, 1.234567),
    ],
)
def test_what_a_device_says_in_numbers(
    properties: dict[str, str], number: tuple[int, int] | None, seconds: float | None
) -> None:
    """Found by fuzzing: of more than 4300 digits Python raises, and a record ended the pass."""
    device = SysDevice(syspath="/sys/devices/a", properties={"DEVNAME": "/dev/a", **properties})
    assert (device.number, device.known_since) == (number, seconds)
    assert SysDevice(syspath="/sys/devices/a", properties=properties).number is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0000:03:00.0", "0000:03:00.0"),
        ("serial/by-id/usb-A B", "serial_by-id_usb-A_B"),
        ("a::b", "a__b"),
        ("0403:", "0403_"),
        ("::::", "____"),
        ("*[?]", "____"),
        ("é\n\0\udcff", "____"),
        ("x" * 57, "x" * 57),
    ],
)
def test_foreign_characters_become_underscores(text: str, expected: str) -> None:
    assert as_id(text) == expected


@given(st.text(st.characters(exclude_categories=())), st.integers(1, MAX_REPLICAS - 1))
def test_any_text_gives_a_valid_id_with_room_for_each_share(text: str, share: int) -> None:
    """Lone surrogates too: names of files may be any bytes."""
    name = f"{as_id(text)}::{share}"
    assert as_id(as_id(text)) == as_id(text), "an ID never looks like a share"
    assert len(name) <= 63
    assert re.fullmatch("[A-Za-z0-9._:-]*", name)
    assert device_id_of(name) == as_id(text)
    assert share_number(name) == share


def test_numbers_are_ordered_as_numbers() -> None:
    names = ["ttyUSB10", "ttyUSB9", "ttyUSB1", "ttyUSB", "tty1USB", "ttyUSB01"]
    ordered = ["tty1USB", "ttyUSB", "ttyUSB01", "ttyUSB1", "ttyUSB9", "ttyUSB10"]
    assert sorted(names, key=natural_key) == ordered
