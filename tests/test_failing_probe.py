"""An exception in one probe concerns that one alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genericdp.health.health import Health
from genericdp.simulator.kubelet import Kubelet
from tests.world import World, serial

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.devices.device import BoundProbe, Device
    from genericdp.health.probes import RunProbe
    from genericdp.host.root import Root
    from genericdp.process.outcome import Outcome

NAME = "example.com/serial"


class BrokenError(Exception):
    """What no code of ours expects."""


async def test_an_exception_in_one_probe_ends_no_other_one(short_folder: Path) -> None:
    """K6: one resource's trouble ends those of all others."""
    broken = {"ttyUSB0"}

    def health(root: Root, *, run_probe: RunProbe, **settings: Any) -> Health:
        async def run(bound: BoundProbe, device: Device, **keys: Any) -> Outcome:
            if device.id in broken:
                raise BrokenError("no code expects this")
            return await run_probe(bound, device, **keys)

        return Health(root, run_probe=run, **settings)

    true = {"exec": {"command": ["/bin/true"]}, "periodSeconds": 1, "failureThreshold": 1}
    async with Kubelet(short_folder / "kubelet") as kubelet:
        world = World(short_folder, kubelet)
        world.host.plug("ttyUSB0")
        world.host.plug("ttyUSB1")
        async with world.serving(serial(health=[true]), health=health) as daemon:
            await world.listed(NAME, "ttyUSB1")
            why = "exec /bin/true: unexpected failure: no code expects this"
            await daemon.offers(NAME, ttyUSB0=why, ttyUSB1="")
            broken.clear()
            await world.listed(NAME, "ttyUSB0", "ttyUSB1")
