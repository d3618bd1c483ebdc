"""Names of hardware: numbers of the kernel, IDs, and IDs of earlier versions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from genericdp.devices.device import MAX_REPLICAS, as_id, device_id_of, share_number
from genericdp.devices.hardware import rank_name, text_of
from genericdp.devices.inventory import SysDevice, natural_key
from hypothesis import given
from hypothesis import strategies as st

from tests.devices.known import ROOT, Known
from tests.devices.making import decide, healthy, node, resource

if TYPE_CHECKING:
    from genericdp.devices.inventory import FoundFile


HUGE = "9" * 5000


@pytest.mark.parametrize(
    ("properties", "number", "seconds"),
    [
        ({"MAJOR": "188", "MINOR": "0"}, (188, 0), None),
        ({"MAJOR": "9" * 9, "MINOR": "1"}, (10**9 - 1, 1), None),
        ({"MAJOR": "9" * 10, "MINOR": "1"}, None, None),
        *(({"MAJOR": text, "MINOR": "0"}, None, None) for text in ("", "-1", "0x1", "1.0")),
        ({"MAJOR": "188"}, None, None),
        ({"MINOR": "0"}, None, None),
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
    long, similar = as_id("x" * 58), as_id("x" * 57 + "y")
    assert len(long) == len(similar) == 57
    assert long != similar
    assert long == as_id("x" * 58)
    assert re.fullmatch("x{44}-[0-9a-f]{12}", long)


@given(st.text(st.characters(exclude_categories=())), st.integers(1, MAX_REPLICAS - 1))
def test_any_text_gives_a_valid_id_with_room_for_each_share(text: str, share: int) -> None:
    """Lone surrogates too: names of files may be any bytes."""
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
    wanted = resource("x", "/dev/*", id="$(device.minor)-x")
    assert healthy(decide([wanted], files), "x") == [f"{i}-x" for i in range(6)]


USB, HUB, GPU = "0000:00:14.0/usb1", "0000:00:14.0/usb1/1-1", "0000:01:00.0"
SERIAL = "/sys/devices/platform/fe201000.serial"


@pytest.fixture
def known() -> Known:
    """Two equal dongles and one with two interfaces on a hub, a GPU, and what is like it."""
    known = Known()
    for path in ("0000:00:14.0", GPU, f"{GPU}0", f"{GPU}/0000:02:00.0"):
        known.add(path, "pci")
    for path in (USB, HUB):
        known.usb(path)
    for port, interface in (("1-1.1", 0), ("1-1.2", 0), ("1-1.4", 0), ("1-1.4", 1)):
        known.usb(f"{HUB}/{port}")
        at = f"{HUB}/{port}/{port}:1.{interface}"
        known.interface(at)
        known.add(f"{at}/tty/ttyUSB{port[-1]}{interface}", "tty", number=(188, interface))
    for name, minor in (("card1", 1), ("renderD128", 128), ("renderD1000", 100)):
        known.add(f"{GPU}/drm/{name}", "drm", "drm_minor", number=(226, minor))
    for name in ("card1-DP-1", "card1-DP-2"):
        known.add(f"{GPU}/drm/card1/{name}", "drm", "drm_connector")
    known.add(f"{GPU}0/drm/card2", "drm", number=(226, 2))
    known.add(f"{GPU}/0000:02:00.0/drm/card0", "drm", number=(226, 0))
    known.add(SERIAL, "platform")
    known.add(f"{SERIAL}/tty/ttyAMA0", "tty", number=(204, 64))
    known.add("/sys/devices/virtual/misc/fuse", "misc", number=(10, 229))
    return known


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("0000:00:14.0", "0000:00:14.0"),
        (f"{HUB}/1-1.4", "1-1.4"),
        (f"{HUB}/1-1.4/1-1.4:1.0", "1-1.4-usb"),
        (f"{HUB}/1-1.1/1-1.1:1.0/tty/ttyUSB10", "1-1.1:1.0-tty"),
        (f"{HUB}/1-1.2/1-1.2:1.0/tty/ttyUSB20", "1-1.2:1.0-tty"),
        (f"{HUB}/1-1.4/1-1.4:1.0/tty/ttyUSB40", "1-1.4:1.0-tty"),
        (f"{HUB}/1-1.4/1-1.4:1.1/tty/ttyUSB41", "1-1.4:1.1-tty"),
        (f"{GPU}/drm/card1", f"{GPU}-drm"),
        (f"{GPU}/drm/renderD128", f"{GPU}-drm.1"),
        (f"{GPU}/drm/renderD1000", f"{GPU}-drm.2"),
        (f"{GPU}/drm/card1/card1-DP-1", f"{GPU}-drm"),
        (f"{GPU}/drm/card1/card1-DP-2", f"{GPU}-drm.1"),
        (f"{SERIAL}/tty/ttyAMA0", "fe201000.serial-tty"),
        ("/sys/devices/virtual/misc/fuse", None),
    ],
)
def test_a_former_id_is_a_place_and_a_rank_among_those_that_have_a_node_like_it(
    known: Known, path: str, name: str | None
) -> None:
    """A device elsewhere, also on a function below, does not count."""
    device = known.devices[path if path.startswith("/") else f"{ROOT}/{path}"]
    assert rank_name(device, known) == name


@pytest.mark.parametrize(
    ("number", "name"),
    [("1", "ether"), ("32", "infiniband"), ("280", "can"), ("772", "loopback"), ("9999", "9999")],
)
def test_link_types_have_names(known: Known, number: str, name: str) -> None:
    net = known.add("0000:3b:00.0/net/eth0", "net", attributes={"type": number})
    assert text_of("net", net, "linkType", known) == name
