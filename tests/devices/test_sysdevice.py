from __future__ import annotations

import pytest
from genericdp.devices.inventory import SysDevice, decimal

HUGE = "9" * 5000


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("188", 188), ("9" * 19, 10**19 - 1), ("9" * 20, None), (HUGE, None), ("", None),
     ("-1", None), ("0x1", None), ("1.0", None)],
)  # fmt: skip
def test_a_number_of_the_kernel_is_read_or_is_none(text: str, number: int | None) -> None:
    """Found by fuzzing: of more than 4300 digits Python raises, and a record ended the pass."""
    assert decimal(text) == number


@pytest.mark.parametrize(
    ("properties", "number", "seconds"),
    [
        ({"MAJOR": "188", "MINOR": "0"}, (188, 0), None),
        ({"MAJOR": "9" * 9, "MINOR": "1"}, (10**9 - 1, 1), None),
        ({"MAJOR": "9" * 10, "MINOR": "1"}, None, None),
        ({"MAJOR": "188"}, None, None),
        ({"MINOR": "0"}, None, None),
        ({"MAJOR": HUGE, "MINOR": "0", "USEC_INITIALIZED": HUGE}, None, None),
        ({"USEC_INITIALIZED": "1234567"}, None, 1.234567),
    ],
)
def test_what_a_device_says_in_numbers(
    properties: dict[str, str], number: tuple[int, int] | None, seconds: float | None
) -> None:
    device = SysDevice(syspath="/sys/devices/a", properties={"DEVNAME": "/dev/a", **properties})
    assert (device.number, device.known_since) == (number, seconds)
    assert SysDevice(syspath="/sys/devices/a", properties=properties).number is None
