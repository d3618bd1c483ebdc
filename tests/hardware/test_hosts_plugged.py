"""Hosts of the examples under umockdev: what peers' users were surprised by."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbeds.plugging import blocks_of, made_up, why_none

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples/configs"
CORAL, ZIGBEE = (f"../hosts/{name}/machine" for name in ("coral-tpu", "zigbee"))
STICK = "/devices/pci0000:00/0000:00:14.0/usb2/2-1"
COLD, LOADED = "example.com/coral-usb-cold", "example.com/coral-usb"
CONBEE = (
    "/devices/platform/scb/fd500000.pcie/pci0000:00/0000:00:00.0/0000:01:00.0/usb1/1-1/1-1.3",
    "1-1.3:1.0-tty",
    "/dev/serial/by-id/usb-dresden_elektronik_ingenieurtechnik_GmbH_ConBee_II_DE2230427-if00",
)


@pytest.fixture(autouse=True)
def _possible() -> None:
    if reason := why_none():
        pytest.skip(reason)


def test_a_stick_goes_from_one_resource_to_the_other_as_its_firmware_is_loaded(
    tmp_path: Path,
) -> None:
    """D5: 1a6e:089a leaves the bus, 18d1:9302 comes to the same port with another node."""
    with made_up(CORAL, EXAMPLES / "coral-tpu.yaml", tmp_path) as machine:
        machine.until(lambda: machine.healthy().get(COLD) == {"cold-2-1"})
        machine.until(lambda: machine.healthy().get(LOADED) == {"2-2"})
        machine.unplug(STICK)
        # Gone, not Unhealthy: nobody waits for it to come back as it was.
        machine.until(lambda: not machine.devices[COLD])
        loaded = blocks_of(f"{CORAL}-loaded")
        machine.plug({path: block for path, block in loaded.items() if path.startswith(STICK)})
        machine.until(lambda: machine.healthy()[LOADED] == {"2-1", "2-2"})
        assert machine.ask(LOADED, "2-1") == {"given": ["/dev/bus/usb/002/011"]}
        assert not machine.devices[COLD]


def test_a_zigbee_stick_that_comes_back_under_another_name_is_the_same(tmp_path: Path) -> None:
    """D1, D5: ttyACM0 is ttyACM1 the next morning. A container's path and the link stay."""
    where, device_id, link = CONBEE
    with made_up(ZIGBEE, EXAMPLES / "zigbee.yaml", tmp_path) as machine:
        machine.until(lambda: device_id in machine.healthy().get("example.com/zigbee", ()))
        assert machine.ask("example.com/zigbee", device_id) == {"given": [link]}
        stick = machine.unplug(where)
        machine.until(lambda: device_id not in machine.healthy()["example.com/zigbee"])
        assert device_id in machine.devices["example.com/zigbee"]
        changes = {"ttyACM0": "ttyACM1", "MINOR=0\n": "MINOR=1\n", "dev=166:0": "dev=166:1"}
        for old, new in changes.items():
            stick = {path.replace(old, new): text.replace(old, new) for path, text in stick.items()}
        machine.plug(stick)
        machine.until(lambda: device_id in machine.healthy()["example.com/zigbee"])
        machine.until_given("example.com/zigbee", device_id, [link])
