"""The daemon's world for tests of the life of a plugin."""

from __future__ import annotations

from pathlib import Path

import pytest
from genericdp.simulator.settings import Generation

from tests.world import World


@pytest.fixture(params=list(Generation), ids=lambda generation: f"generation-{generation}")
def world(request: pytest.FixtureRequest, short_directory: Path) -> World:
    """Return a world with ttyUSB0, and a kubelet of each generation that is not started yet."""
    world = World(short_directory, generation=request.param)
    world.host.plug("ttyUSB0")
    return world
