"""Kubelets and bare plugins that end with their test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.settings import Generation, Timing
from tests.simulator.bare_plugin import BarePlugin


@pytest.fixture
def generation() -> Generation:
    """Tests for which it matters take another one, or both."""
    return Generation.B


@pytest.fixture
def timing() -> Timing:
    """Cut nothing short: a busy machine may take its time to dial."""
    return Timing()


@pytest.fixture
async def kubelet_with(
    short_directory: Path, generation: Generation, timing: Timing, no_leaks: None
) -> AsyncIterator[Callable[..., Kubelet]]:
    """Make a kubelet, not started, whose end is taken care of."""
    async with AsyncExitStack() as stack:

        def make(**settings: Any) -> Kubelet:
            wanted = {"generation": generation, "timing": timing, **settings}
            kubelet = Kubelet(short_directory, **wanted)
            stack.push_async_callback(kubelet.stop)
            return kubelet

        yield make


@pytest.fixture
async def kubelet(kubelet_with: Callable[..., Kubelet]) -> Kubelet:
    kubelet = kubelet_with()
    await kubelet.start()
    return kubelet


@pytest.fixture
async def plugin_with(
    short_directory: Path, no_leaks: None
) -> AsyncIterator[Callable[..., BarePlugin]]:
    """Make a plugin, not started, whose end is taken care of."""
    async with AsyncExitStack() as stack:

        def make(**settings: Any) -> BarePlugin:
            plugin = BarePlugin(short_directory, **settings)
            stack.push_async_callback(plugin.stop)
            return plugin

        yield make


@pytest.fixture
async def plugin(kubelet: Kubelet, plugin_with: Callable[..., BarePlugin]) -> BarePlugin:
    """One that serves; the kubelet comes first, because its start removes sockets (KST-2)."""
    plugin = plugin_with()
    await plugin.start()
    return plugin
