"""A DRA driver and real kubelets: without an API server they register it, and call no further."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from genericdp.kubelet.dra import DraPlugin
from genericdp.observed import Observed, until

from tests.dra.test_registration import Claims, running
from tests.e2e.cluster.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from tests.e2e.cluster.node import Node

pytestmark = [pytest.mark.e2e, pytest.mark.kubelets("1.37.0", "1.36.3", "1.34.4")]
DRIVER = "e2e.genericdp.io"


async def test_a_kubelet_registers_a_driver_whatever_is_restarted_or_removed(node: Node) -> None:
    root = node.directory / "kubelet"
    plugin = DraPlugin(
        DRIVER, kubelet_root=root, handler=Claims(), devices=Observed(0), look_seconds=0.1
    )
    active, times = plugin.registration.active, Observed(0)

    def count() -> None:
        times.value += active.value

    async def registered(wanted: int) -> None:
        assert await until(lambda: times.value >= wanted, times, timeout_seconds=PATIENCE_SECONDS)

    with active.calling(count):
        async with running(plugin):
            await registered(1)
            await asyncio.to_thread(node.kill_kubelet)
            await asyncio.to_thread(node.start_kubelet)
            await registered(2)
            for number, removed in enumerate(("plugins_registry", f"plugins/{DRIVER}"), start=3):
                for socket in (root / removed).glob("*.sock"):
                    socket.unlink()
                await registered(number)
        # Never more often than something has happened: the kubelet keeps its connection.
        assert times.value == 4
    assert not list((root / "plugins_registry").iterdir())
