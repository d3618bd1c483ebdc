from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from genericdp.explain.hwdata import names, parse

if TYPE_CHECKING:
    from pathlib import Path

LIST = """\
# List of USB ID's
0403  Future Technology Devices International, Ltd
\t6001  FT232 Serial (UART) IC
\t\t0001  an interface
\t6015  Bridge(I2C/SPI/UART/FIFO)
1a86  QinHeng Electronics
C 03  Human Interface Device
\t6001  no device
HID 22  Physical Descriptor
"""


def test_vendors_and_devices_have_names() -> None:
    pairs = {("0403", "6001"), ("0403", "ffff"), ("1a86", "7523"), ("dead", "beef")}
    future = "Future Technology Devices International, Ltd"
    assert parse(LIST, pairs) == {
        ("0403", "6001"): (future, "FT232 Serial (UART) IC"),
        ("0403", "ffff"): (future, ""),
        ("1a86", "7523"): ("QinHeng Electronics", ""),
    }


def test_the_first_list_that_there_is_counts(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b/usb.ids").write_bytes(b"1a86  QinHeng \xff\n")
    folders = (tmp_path / "a", tmp_path / "b")
    assert names("usb", {("1a86", "7523")}, folders)["1a86", "7523"][0].startswith("QinHeng")
    assert names("pci", {("1a86", "7523")}, folders) == {}
    assert names("usb", set(), folders) == {}


@given(text=st.text("0123456789abcdef \t\n#C", max_size=200))
def test_any_text_is_taken(text: str) -> None:
    assert parse(text, {("0123", "4567")}).keys() <= {("0123", "4567")}
