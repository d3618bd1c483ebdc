"""A DRA driver's sockets, and what it answers to the kubelet, whatever happens to either."""

from __future__ import annotations

import asyncio
import shutil
import socket
import stat
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from genericdp.errors import UsageError
from genericdp.kubelet.api import dra_pb2 as api
from genericdp.kubelet.dra import ClaimRef, DeviceHealth, DraPlugin, PreparedDevice
from genericdp.observed import Observed, until

from tests.dra.kubelet import PATIENCE_SECONDS, DraCallError, DraKubelet
from tests.polling import poll_until

DRIVER = "genericdp.io"
CLAIM = api.Claim(namespace="default", name="video", uid="c0ffee00-0000-4000-8000-000000000001")
OTHER = api.Claim(namespace="other", name="sound", uid="c0ffee00-0000-4000-8000-000000000002")
CAMERA = PreparedDevice(
    request_names=["camera"],
    pool_name="node/example.com/camera",
    device_name="1-1",
    cdi_device_ids=["genericdp.io/claim=x", "vendor.com/gpu=0"],
    share_id=None,
)


class Claims:
    """Prepares every claim with a camera, unless a test wants something else."""

    def __init__(self) -> None:
        self.prepared: dict[str, ClaimRef] = {}
        self.answers: Mapping[str, tuple[PreparedDevice, ...] | str] | None = None
        self.undone: asyncio.Event | None = None
        """If there is one, calls wait until they are canceled, and then for it."""
        self.waiting = asyncio.Event()
        self.devices: Observed[tuple[DeviceHealth, ...]] = Observed(())

    def health(self) -> Sequence[DeviceHealth]:
        return self.devices.value

    async def prepare(
        self, claims: Sequence[ClaimRef]
    ) -> Mapping[str, tuple[PreparedDevice, ...] | str]:
        if self.undone is not None:
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                await self.undone.wait()
        self.prepared |= {claim.uid: claim for claim in claims}
        return dict.fromkeys(self.prepared, (CAMERA,)) if self.answers is None else self.answers

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        for claim in claims:
            self.prepared.pop(claim.uid, None)
        return {claim.uid: "" for claim in claims}


def camera_is(is_healthy: bool | None, reason: str) -> DeviceHealth:
    return DeviceHealth(
        pool_name="pool", device_name="camera", is_healthy=is_healthy, reason=reason
    )


@asynccontextmanager
async def running(plugin: DraPlugin) -> AsyncIterator[DraPlugin]:
    task = asyncio.get_running_loop().create_task(plugin.run())
    try:
        yield plugin
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def reason(plugin: DraPlugin, text: str) -> None:
    """Wait until the reason for which a driver is not registered has a string."""
    await poll_until(lambda: text in plugin.registration.reason)


def driver(root: Path, claims: Claims | None = None) -> DraPlugin:
    handler = claims or Claims()
    return DraPlugin(
        DRIVER,
        kubelet_root=root,
        handler=handler,
        devices=handler.devices,
        look_seconds=0.02,
        retry_seconds=0.02,
    )


@asynccontextmanager
async def registered(root: Path, claims: Claims | None = None) -> AsyncIterator[DraKubelet]:
    async with DraKubelet(root) as kubelet, running(driver(root, claims)):
        await kubelet.wait_for(DRIVER)
        yield kubelet


@pytest.mark.parametrize("service", ["v1", "v1alpha1"])
async def test_health_is_reported_at_once_and_at_each_change(
    short_directory: Path, service: str
) -> None:
    claims = Claims()
    async with registered(short_directory, claims) as kubelet, asyncio.timeout(PATIENCE_SECONDS):
        async with aclosing(kubelet.health(DRIVER, service)) as reports:
            assert await anext(reports) == {}
            for is_healthy, status in ((None, "UNKNOWN"), (True, "HEALTHY"), (False, "UNHEALTHY")):
                claims.devices.value = (camera_is(is_healthy, "x" * 2000),)
                assert await anext(reports) == {("pool", "camera"): (status, "x" * 1024)}
            await kubelet.prepare(DRIVER, CLAIM)
            assert await anext(reports)  # a claim may have brought more devices
            claims.devices.value = (camera_is(False, "a\udcff"),)
            assert await anext(reports) == {("pool", "camera"): ("UNHEALTHY", "a?")}
        claims.devices.value = ()
        async with aclosing(kubelet.health(DRIVER, service)) as reports:
            assert await anext(reports) == {}


async def test_sockets_are_for_root_alone_and_gone_at_the_end(short_directory: Path) -> None:
    own = short_directory / "plugins" / DRIVER
    found = short_directory / "plugins_registry" / f"{DRIVER}-reg.sock"
    async with DraKubelet(short_directory) as kubelet:
        async with running(driver(short_directory)) as plugin:
            await kubelet.wait_for(DRIVER)
            modes = [stat.S_IMODE(path.stat().st_mode) for path in (own, own / "dra.sock", found)]
            assert modes == [0o700, 0o600, 0o600]
        assert not found.exists()
        assert list(own.iterdir()) == []
        assert not plugin.registration.active.value
        await kubelet.wait_for_end(DRIVER)


async def test_what_is_no_utf_8_concerns_its_claim_alone(short_directory: Path) -> None:
    """The API server may send half of a surrogate pair."""
    odd = PreparedDevice(**{**CAMERA, "request_names": ["\ud800"]})
    claims = Claims()
    async with registered(short_directory, claims) as kubelet:
        claims.answers = {CLAIM.uid: (odd,), OTHER.uid: "the device is missing: \udcff"}
        assert await kubelet.prepare(DRIVER, CLAIM, OTHER) == {
            CLAIM.uid: "the name of a request is not valid UTF-8",
            OTHER.uid: "the device is missing: ?",
        }
        claims.answers = {CLAIM.uid: (odd,), OTHER.uid: (CAMERA,)}
        answers = await kubelet.prepare(DRIVER, CLAIM, OTHER)
        assert answers[OTHER.uid] == (api.Device(**CAMERA),)
        assert await kubelet.prepare(DRIVER) == {}


async def test_what_is_no_uid_is_never_handled(short_directory: Path) -> None:
    """It was never prepared, so it is released."""
    claims = Claims()
    async with registered(short_directory, claims) as kubelet:
        for uid in ("", "..", "a/b", "x" * 64, "a\n"):
            malformed = api.Claim(namespace="default", name="x", uid=uid)
            answers = await kubelet.prepare(DRIVER, CLAIM, malformed)
            assert answers[uid] == "this is not a UID"
            assert claims.prepared.keys() == {CLAIM.uid}
            assert await kubelet.unprepare(DRIVER, malformed) == {uid: ""}


async def test_a_driver_has_only_stopped_when_its_calls_have_ended(short_directory: Path) -> None:
    """Another process may take over then."""
    claims = Claims()
    claims.undone = asyncio.Event()
    plugin = driver(short_directory, claims)
    async with DraKubelet(short_directory) as kubelet:
        serving = asyncio.get_running_loop().create_task(plugin.run())
        await kubelet.wait_for(DRIVER)
        call = asyncio.get_running_loop().create_task(kubelet.prepare(DRIVER, CLAIM))
        await claims.waiting.wait()
        serving.cancel()
        await reason(plugin, "it has been stopped")
        assert not serving.done()
        claims.undone.set()
        with pytest.raises(asyncio.CancelledError):
            await serving
        with pytest.raises(DraCallError):
            await call


async def test_a_kubelet_that_comes_later_is_waited_for(short_directory: Path) -> None:
    root = short_directory / "kubelet"
    async with running(driver(root)) as plugin:
        await reason(plugin, f"there is no directory {root}: is the kubelet running?")
        root.mkdir()
        await reason(
            plugin, f"there is no directory {root}/plugins_registry: is the kubelet running?"
        )
        assert list(root.iterdir()) == []
        async with DraKubelet(root) as kubelet:
            await kubelet.wait_for(DRIVER)


@pytest.mark.parametrize(
    "removed",
    [
        f"plugins_registry/{DRIVER}-reg.sock",
        f"plugins/{DRIVER}/dra.sock",
        "plugins",
        "plugins_registry",
    ],
)
async def test_what_is_removed_is_made_again(short_directory: Path, removed: str) -> None:
    async with registered(short_directory) as kubelet:
        path = short_directory / removed
        if path.is_dir():
            path.rename(short_directory / "moved")
            shutil.rmtree(short_directory / "moved")
        else:
            path.unlink()
        if removed == "plugins_registry":
            path.mkdir()
        await until(
            lambda: kubelet.registrations.value == 2, kubelet.registrations, timeout_seconds=30
        )
        await kubelet.wait_for(DRIVER)
        assert not isinstance((await kubelet.prepare(DRIVER, CLAIM))[CLAIM.uid], str)


async def test_a_socket_that_is_left_is_replaced_and_what_else_is_in_the_way_is_named(
    short_directory: Path,
) -> None:
    own = short_directory / "plugins" / DRIVER / "dra.sock"
    own.mkdir(parents=True)
    async with DraKubelet(short_directory) as kubelet, running(driver(short_directory)) as plugin:
        await reason(plugin, f"{own} is in the way: it is not a socket; remove it")
        own.rmdir()
        with socket.socket(socket.AF_UNIX) as another:
            another.bind(str(own))
            another.listen()
            await reason(plugin, f"another process serves {own}: let only one have this")
        assert own.is_socket()
        await kubelet.wait_for(DRIVER)


def test_a_path_that_is_too_long_for_a_socket_is_refused(short_directory: Path) -> None:
    with pytest.raises(UsageError, match=r"dra\.sock has \d+ bytes, but the path of a unix socket"):
        driver(short_directory / ("x" * 80))
