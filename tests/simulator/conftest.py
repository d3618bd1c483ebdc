"""A kubelet and bare plugins that end with their test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.settings import Generation, Timing
from tests.simulator.bare_plugin import BarePlugin
from tests.simulator.node import Node


@pytest.fixture
def generation() -> Generation:
    """Tests for which it matters take another one, or both."""
    return Generation.B


@pytest.fixture
def timing() -> Timing:
    """Cut nothing short: a busy machine may take its time to dial."""
    return Timing()


@pytest.fixture
async def node(
    short_directory: Path, generation: Generation, timing: Timing, no_leaks: None
) -> AsyncIterator[Node]:
    """The kubelet comes first, because its start removes sockets (KST-2)."""
    kubelet = Kubelet(
        short_directory,
        generation=generation,
        timing=timing,
        pod_resources=short_directory / "pods" / "kubelet.sock",
    )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(kubelet.stop)

        def another(**settings: Any) -> BarePlugin:
            plugin = BarePlugin(short_directory, **settings)
            stack.push_async_callback(plugin.stop)
            return plugin

        await kubelet.start()
        plugin = another()
        await plugin.start()
        yield Node(directory=short_directory, kubelet=kubelet, plugin=plugin, another=another)
