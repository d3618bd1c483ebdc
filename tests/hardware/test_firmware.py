"""A USB device that is another one once its firmware has been loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbeds.plugging import blocks_of, made_up, why_none

HOST = "../hosts/coral-tpu/machine"
EXAMPLE = Path(__file__).parents[2] / "examples/configs/coral-tpu.yaml"
STICK = "/devices/pci0000:00/0000:00:14.0/usb2/2-1"
COLD, LOADED = "example.com/coral-usb-cold", "example.com/coral-usb"


def test_a_stick_goes_from_one_resource_to_the_other_as_its_firmware_is_loaded(
    tmp_path: Path,
) -> None:
    """D5: 1a6e:089a leaves the bus, 18d1:9302 comes to the same port with another node."""
    if reason := why_none():
        pytest.skip(reason)
    with made_up(HOST, EXAMPLE, tmp_path) as machine:
        machine.until(lambda: machine.healthy().get(COLD) == {"cold-2-1"})
        machine.until(lambda: machine.healthy().get(LOADED) == {"2-2"})
        machine.unplug(STICK)
        # Gone, not Unhealthy: nobody waits for it to come back as it was.
        machine.until(lambda: not machine.devices[COLD])
        loaded = blocks_of(f"{HOST}-loaded")
        machine.plug({path: block for path, block in loaded.items() if path.startswith(STICK)})
        machine.until(lambda: machine.healthy()[LOADED] == {"2-1", "2-2"})
        assert machine.ask(LOADED, "2-1") == {"given": ["/dev/bus/usb/002/011"]}
        assert not machine.devices[COLD]
