"""The health of claimed devices: taints in slices, and reports to the kubelet."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from tests.dra.kubelet import PATIENCE_SECONDS
from tests.dra.node import DRIVER, NAME, POOL, USB0, USB1, DraNode, by_dra

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

DEVICE = (POOL, USB0)


def probed(state: Path, **keys: Any) -> dict[str, object]:
    """Return a resource whose first device is as healthy as a file says."""
    command = ["/bin/sh", "-c", f'test "$GENERICDP_DEVICE_ID" != ttyUSB0 || cat {state}']
    probe = {"exec": {"command": command}, "periodSeconds": 1, "failureThreshold": 1}
    return by_dra(health=[probe], **keys)


def taint(node: DraNode, device: str = USB0) -> dict[str, Any]:
    """Return the taint of a device in its slice without its time; empty if it has none."""
    for slice_ in node.server.objects("resourceslices"):
        for found in slice_["spec"].get("devices", ()):
            if found["name"] == device and found.get("taints"):
                (own,) = found["taints"]
                return {key: value for key, value in own.items() if key != "timeAdded"}
    return {}


async def test_a_probe_that_fails_is_a_taint_and_is_reported_for_the_claimed_device(
    node: DraNode, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.touch()
    node.host.plug("ttyUSB1")
    async with node.serving(probed(state, unhealthyTaint="NoExecute")):
        claim = await node.claim()
        assert await node.kubelet.reports(DRIVER, DEVICE, "HEALTHY") == ""
        state.unlink()
        assert "exited with 1" in await node.kubelet.reports(DRIVER, DEVICE, "UNHEALTHY")
        unhealthy = {"key": f"{DRIVER}/unhealthy", "value": "probe_failed", "effect": "NoExecute"}
        await node.until(lambda: taint(node) == unhealthy)
        assert taint(node, USB1) == {}
        other = node.allocate(USB0, name="tolerates")
        assert f"prepared for claim default/{claim.name}" in await node.refusal(other)
        await node.unprepare(claim)
        assert "ttyUSB0 is Unhealthy" in await node.refusal(other)
        state.touch()
        await node.until(lambda: taint(node) == {})
        await node.prepare(other)
        assert await node.kubelet.reports(DRIVER, DEVICE, "HEALTHY") == ""


async def test_only_claimed_devices_are_reported(node: DraNode) -> None:
    node.host.plug("ttyUSB1")
    async with node.serving(by_dra()):
        await node.offers(POOL, USB0, USB1)
        async with aclosing(node.kubelet.health(DRIVER)) as reports:

            async def reported(*healthy: str) -> None:
                wanted = {(POOL, name): ("HEALTHY", "") for name in healthy}
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while await anext(reports) != wanted:
                        pass

            await reported()
            claim = await node.claim(USB1)
            await reported(USB1)
        await node.unprepare(claim)
        async with aclosing(node.kubelet.health(DRIVER)) as reports:
            assert await anext(reports) == {}


async def test_a_device_that_is_gone_is_reported_and_comes_back(node: DraNode) -> None:
    async with node.serving(by_dra(unhealthyTaint="NoExecute")) as daemon:
        await node.claim()
        node.host.unplug("ttyUSB0")
        assert "does not exist" in await node.kubelet.reports(DRIVER, DEVICE, "UNHEALTHY")
        # Not NoExecute yet: it may be a reset.
        missing = {"key": f"{DRIVER}/missing", "value": "gone", "effect": "NoSchedule"}
        await node.until(lambda: taint(node) == missing)
        node.host.plug("ttyUSB0")
        await node.kubelet.reports(DRIVER, DEVICE, "HEALTHY")
        await node.until(lambda: taint(node) == {})
        await daemon.offers(NAME, ttyUSB0="")
