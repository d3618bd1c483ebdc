"""However a config is changed on disk, the daemon takes it without being told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.simulator.kubelet import Kubelet
from tests.reloading.configs import WAYS, rename, write
from tests.world import World, config, resource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAME = "example.com/serial"


@pytest.mark.parametrize("change", WAYS, ids=lambda way: way.__name__)
async def test_every_way_to_change_a_config_is_noticed_and_what_follows_too(
    change: Callable[[Path, str], None], short_folder: Path
) -> None:
    """C7: a changed config is never read, or only once."""
    async with Kubelet(short_folder / "kubelet") as kubelet:
        world = World(short_folder, kubelet)
        for number in range(4):
            world.host.plug(f"ttyUSB{number}")
        async with world.serving(resource(NAME, "/dev/ttyUSB0")) as daemon:
            await world.listed(NAME, "ttyUSB0")
            for number, way in enumerate((change, rename, write), start=1):
                way(daemon.config, config(resource(NAME, f"/dev/ttyUSB{number}")))
                await daemon.log.says("config in force: ", times=number + 1)
                await world.listed(NAME, f"ttyUSB{number}")
