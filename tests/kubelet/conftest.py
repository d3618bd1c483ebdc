"""The daemon's world for tests of the life of a plugin."""

from __future__ import annotations

from pathlib import Path

import pytest
from genericdp.simulator.settings import Generation

from tests.world import World


@pytest.fixture
def generation() -> Generation:
    """Tests for which it matters take both."""
    return Generation.B


@pytest.fixture
def world(short_directory: Path, generation: Generation) -> World:
    """Return a world with ttyUSB0, and a kubelet that is not started yet."""
    world = World(short_directory, generation=generation)
    world.host.plug("ttyUSB0")
    return world
