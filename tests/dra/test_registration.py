"""A DRA driver's sockets, and what it answers to the kubelet, whatever happens to either."""

from __future__ import annotations

import asyncio
import stat
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from genericdp.kubelet.dra import ClaimRef, DraPlugin, DraTiming, PreparedDevice
from genericdp.kubelet.v1 import dra_pb2 as api
from tests.dra.kubelet import DraKubelet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

DRIVER = "genericdp.io"
FAST = DraTiming(look=0.02, retry=0.02)
CLAIM = ClaimRef(namespace="default", name="video", uid="c0ffee00-0000-4000-8000-000000000001")
OTHER = ClaimRef(namespace="other", name="sound", uid="c0ffee00-0000-4000-8000-000000000002")
CAMERA = PreparedDevice(
    requests=("camera",),
    pool="node/example.com/camera",
    device="1-1",
    cdi_names=("genericdp.io/claim=x", "vendor.com/gpu=0"),
)


class Claims:
    """Prepares every claim with a camera, unless a test wants something else."""

    def __init__(self) -> None:
        self.prepared: dict[str, ClaimRef] = {}
        self.answers: Mapping[str, tuple[PreparedDevice, ...] | str] | None = None
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = asyncio.Event()
        self.canceled = asyncio.Event()

    async def prepare(
        self, claims: Sequence[ClaimRef]
    ) -> Mapping[str, tuple[PreparedDevice, ...] | str]:
        await self._pass()
        self.prepared |= {claim.uid: claim for claim in claims}
        return dict.fromkeys(self.prepared, (CAMERA,)) if self.answers is None else self.answers

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        await self._pass()
        for claim in claims:
            self.prepared.pop(claim.uid, None)
        return {claim.uid: "" for claim in claims}

    async def _pass(self) -> None:
        self.waiting.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.canceled.set()
            raise
        if self.error is not None:
            raise self.error


@asynccontextmanager
async def running(plugin: DraPlugin) -> AsyncIterator[DraPlugin]:
    task = asyncio.get_running_loop().create_task(plugin.run())
    try:
        yield plugin
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def driver(root: Path, claims: Claims | None = None) -> DraPlugin:
    return DraPlugin(DRIVER, kubelet_root=root, handler=claims or Claims(), timing=FAST)


async def test_a_driver_is_registered_and_prepares_claims(short_folder: Path) -> None:
    async with DraKubelet(short_folder) as kubelet, running(driver(short_folder)) as plugin:
        await kubelet.wait_for(DRIVER)
        assert plugin.registration.active.value
        assert plugin.registration.reason == ""
        answers = await kubelet.prepare(DRIVER, CLAIM, OTHER)
        assert answers.keys() == {CLAIM.uid, OTHER.uid}
        assert answers[CLAIM.uid] == (
            api.Device(
                request_names=["camera"],
                pool_name="node/example.com/camera",
                device_name="1-1",
                cdi_device_ids=["genericdp.io/claim=x", "vendor.com/gpu=0"],
            ),
        )
        assert await kubelet.unprepare(DRIVER, CLAIM) == {CLAIM.uid: ""}


async def test_sockets_are_for_root_alone_and_gone_at_the_end(short_folder: Path) -> None:
    own = short_folder / "plugins" / DRIVER
    found = short_folder / "plugins_registry" / f"{DRIVER}-reg.sock"
    async with DraKubelet(short_folder) as kubelet:
        async with running(driver(short_folder)) as plugin:
            await kubelet.wait_for(DRIVER)
            modes = [stat.S_IMODE(path.stat().st_mode) for path in (own, own / "dra.sock", found)]
            assert modes == [0o700, 0o600, 0o600]
        assert not found.exists()
        assert list(own.iterdir()) == []
        assert not plugin.registration.active.value
        await kubelet.wait_for_end(DRIVER)
