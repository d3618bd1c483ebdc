"""The simulated kubelet's pod-resources service (PRS-1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from genericdp.kubelet.api import podresources_pb2 as pb
from genericdp.kubelet.api import podresources_pb2_grpc as rpc
from genericdp.simulator.kubelet import Kubelet
from tests.simulator.bare_plugin import RESOURCE, BarePlugin
from tests.simulator.pods import held_by, pod, show


@pytest.fixture
def socket(short_directory: Path) -> Path:
    return short_directory / "pods" / "kubelet.sock"


@pytest.fixture
async def kubelet(kubelet_with: Callable[..., Kubelet], socket: Path) -> Kubelet:
    kubelet = kubelet_with(pod_resources=socket)
    await kubelet.start()
    return kubelet


@asynccontextmanager
async def asking(socket: Path) -> AsyncIterator[rpc.PodResourcesListerAsyncStub]:
    options = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
        yield rpc.PodResourcesListerStub(channel)


async def held(socket: Path) -> dict[str, set[str]]:
    async with asking(socket) as stub:
        listed = await stub.List(pb.ListPodResourcesRequest())
    return {
        resource.name: ids(entry for c in resource.containers for entry in c.devices)
        for resource in listed.pod_resources
    }


def ids(entries: Iterable[pb.ContainerDevices]) -> set[str]:
    return {device_id for entry in entries for device_id in entry.device_ids}


async def test_it_lists_active_pods_and_frees_what_others_held(
    kubelet: Kubelet, plugin: BarePlugin, socket: Path
) -> None:
    """PRS-1: to be asked is one of the two moments at which the kubelet lets go."""
    await show(kubelet, plugin, "a", "b")
    first, other = pod("one", thing=1), pod("other", thing=1)
    assert (await kubelet.admit(first)).admitted
    assert (await kubelet.admit(other)).admitted
    assert await held(socket) == {
        name: set(held_by(kubelet, p)["main"][RESOURCE])
        for name, p in (("one", first), ("other", other))
    }
    kubelet.admitter.remove(first)
    assert held_by(kubelet, first)["main"], "nothing happens until someone asks"
    assert (await held(socket)).keys() == {"other"}
    assert held_by(kubelet, first)["main"] == {}


async def test_a_kubelet_that_has_just_started_knows_no_pods(
    kubelet: Kubelet, plugin: BarePlugin, socket: Path
) -> None:
    """KST-6: before it has heard of them, no answer means that a device is free."""
    await show(kubelet, plugin, "a")
    assert (await kubelet.admit(pod("one", thing=1))).admitted
    kubelet.admitter.sources_ready = False
    assert await held(socket) == {}
    kubelet.admitter.sources_ready = True
    assert await held(socket) == {"one": {"a"}}


async def test_a_killed_kubelet_leaves_its_socket_and_the_next_one_takes_it(
    kubelet: Kubelet, socket: Path
) -> None:
    await kubelet.crash()
    assert socket.is_socket()
    with pytest.raises(grpc.aio.AioRpcError):
        await held(socket)
    await kubelet.start()
    assert await held(socket) == {}
    await kubelet.stop()
    assert not socket.exists()


async def test_who_asks_too_often_is_refused(kubelet: Kubelet, socket: Path) -> None:
    kubelet.faults.refuse_pod_resources = True
    with pytest.raises(grpc.aio.AioRpcError, match="rejected by rate limit") as caught:
        await held(socket)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
