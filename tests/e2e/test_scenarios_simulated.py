"""The scenarios with the simulated kubelet of either generation, without root."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.holding import OfHeldHardware
from tests.e2e.scenarios import OfKubelets
from tests.e2e.simulated import SimulatedNode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.fixture(params=["A", "B"])
async def scene(
    request: pytest.FixtureRequest, short_directory: Path
) -> AsyncIterator[SimulatedNode]:
    async with SimulatedNode(short_directory, request.param).running() as node:
        yield node


class TestSimulatedKubelet(OfKubelets):
    """All of them."""


class TestSimulatedKubeletWithHolders(OfHeldHardware):
    """All of them."""
