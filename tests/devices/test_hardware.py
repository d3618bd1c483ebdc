"""Former names of hardware that pods hold, and links of networks."""

from __future__ import annotations

import pytest
from genericdp.devices.hardware import rank_name, text_of

from tests.devices.known import ROOT, Known

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
    """Devices elsewhere, also on a child function, do not count."""
    device = known.devices[path if path.startswith("/") else f"{ROOT}/{path}"]
    assert rank_name(device, known) == name


@pytest.mark.parametrize(
    ("number", "name"),
    [("1", "ether"), ("32", "infiniband"), ("280", "can"), ("772", "loopback"), ("9999", "9999")],
)
def test_link_types_have_names(known: Known, number: str, name: str) -> None:
    net = known.add("0000:3b:00.0/net/eth0", "net", attributes={"type": number})
    assert text_of("net", net, "linkType", known) == name
