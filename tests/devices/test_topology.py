"""The distance between two devices, and where a device of several pieces of hardware is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from genericdp.devices.topology import (
    Distance,
    Spot,
    distance,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.cases.running import DIRECTORY

if TYPE_CHECKING:
    pass

D = Distance
VFIO = DIRECTORY / "vfio/whole-groups"
ROOT = "/sys/devices/pci0000:00"
SWITCH = f"{ROOT}/0000:00:01.0/0000:01:00.0"
SECOND = f"{SWITCH}/0000:02:08.0/0000:06:00.0"
USB = f"{ROOT}/0000:00:14.0/usb1"
VMD = f"{ROOT}/0000:00:05.5/pci10000:00"
I2C = "/sys/devices/platform/soc/i2c-1"
SMBUS = f"{ROOT}/0000:00:1f.4"
SOC = "/sys/devices/platform/soc/fd500000.usb"


PORT, GPU = f"{ROOT}/0000:00:01.0", f"{SWITCH}/0000:02:00.0/0000:03:00"
STICK, OTHER_BUS = f"{USB}/1-1", f"{ROOT}/0000:00:14.0/usb2"
VIRTUAL = "/sys/devices/virtual/block"
DISTANCES = {
    "ports of one controller": (f"{ROOT}/0000:00:17.0/ata1", f"{ROOT}/0000:00:17.0/ata2", D.DEVICE),
    "functions of one slot": (f"{GPU}.0", f"{GPU}.1", D.DEVICE),
    "functions of one slot on the root": (f"{ROOT}/0000:00:1f.3", f"{ROOT}/0000:00:1f.6", D.DEVICE),
    "interfaces": (f"{STICK}/1-1:1.0/tty", f"{STICK}/1-1:1.1/tty", D.DEVICE),
    "itself": ("/sys/devices/platform/x", "/sys/devices/platform/x", D.DEVICE),
    "one PCI switch": (f"{GPU}.0", f"{SWITCH}/0000:02:04.0/0000:04:00.0", D.SWITCH),
    "virtual functions behind a port": (f"{PORT}/0000:03:02.0", f"{PORT}/0000:03:03.1", D.SWITCH),
    "one hub": (f"{STICK}/1-1.1", f"{STICK}/1-1.2", D.SWITCH),
    "one root hub": (STICK, f"{USB}/1-2", D.SWITCH),
    "a hub and what is on it": (STICK, f"{STICK}/1-1.2", D.SWITCH),
    "a switch behind a switch": (f"{GPU}.0", f"{SECOND}/0000:07:00.0/0000:08:00.0", D.SWITCHES),
    "two hubs": (f"{STICK}/1-1.1", f"{STICK}/1-1.4/1-1.4.1", D.SWITCHES),
    "hubs side by side": (f"{STICK}/1-1.1", f"{USB}/1-2/1-2.1", D.SWITCHES),
    "buses of a controller": (STICK, f"{OTHER_BUS}/2-1", D.SWITCHES),
    "root ports of a slot": (SWITCH, f"{ROOT}/0000:00:01.1/0000:02:00.0", D.ROOT),
    "two controllers": (STICK, f"{ROOT}/0000:00:1a.0/usb3/3-1", D.ROOT),
    "behind VMD": (f"{VMD}/10000:00:02.0/10000:01:00.0", STICK, D.OTHER),
    "two roots": (PORT, "/sys/devices/pci0000:80/0000:80:01.0", D.OTHER),
    "USB without PCI": (f"{SOC}/usb2/2-1", f"{SOC}/usb2/2-2", D.SWITCH),
    "chips of a USB device": (f"{STICK}/1-1:1.0/i2c-1/1-0050", f"{STICK}/1-1:1.0/tty", D.DEVICE),
    "chips of another bus": (f"{I2C}/1-0050", f"{I2C}/1-0051", D.OTHER),
    "no port but a chip": (f"{SMBUS}/i2c-0/0-50/0000:01:00.0", f"{SMBUS}/0000:02:00.0", D.SWITCH),
    "no hardware": (f"{VIRTUAL}/loop0", f"{VIRTUAL}/loop1", D.OTHER),
}


FAR = ("/sys/devices/pci0000:00/0000:00:01.0", "/sys/devices/pci0000:80/0000:80:01.0")
NEAR, AWAY = FAR[:1], FAR[1:]
BESIDE = tuple(f"{ROOT}/0000:00:{number:02x}.0" for number in range(2, 30))


def spot(paths: tuple[str, ...] = (), numa: tuple[int, ...] = (), link: str | None = None) -> Spot:
    return Spot(syspaths=paths, numa_nodes=numa, closeness=link)


SPOTS = {
    "nothing known": (spot(), spot(), D.OTHER),
    "NUMA alone": (spot(numa=(0,)), spot(numa=(0,)), D.NUMA_NODE),
    "one NUMA node of several": (spot(NEAR, (0, 1)), spot(AWAY, (1,)), D.NUMA_NODE),
    "the tree before NUMA": (spot((STICK,), (0,)), spot((f"{USB}/1-2",), (1,)), D.SWITCH),
    "the tree, with one NUMA node": (spot((STICK,), (0,)), spot((f"{USB}/1-2",), (0,)), D.SWITCH),
    "members that come closest": (spot(FAR), spot(AWAY), D.DEVICE),
    "the one member that is close": (spot((*BESIDE, f"{GPU}.0")), spot((f"{GPU}.1",)), D.DEVICE),
    "linked": (spot(NEAR, link="0xd1e"), spot(AWAY, link="0xd1e"), D.DEVICE),
    "linked to others": (spot(NEAR, link="a"), spot(AWAY, link="b"), D.OTHER),
    "an empty string is not a link": (spot(NEAR, link=""), spot(AWAY, link=""), D.OTHER),
}


SPOTS |= {
    name: (spot((first,)), spot((second,)), expected)
    for name, (first, second, expected) in DISTANCES.items()
}


@pytest.mark.parametrize(("first", "second", "expected"), SPOTS.values(), ids=SPOTS)
def test_the_nearest_common_hardware_gives_the_distance(
    first: Spot, second: Spot, expected: Distance
) -> None:
    assert (distance(first, second), distance(second, first)) == (expected, expected)


@given(st.text(), st.text())
def test_any_text_has_a_distance(first: str, second: str) -> None:
    assert distance(Spot(syspaths=(first,)), Spot(syspaths=(second,))) in Distance
