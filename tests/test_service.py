from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import pytest

from genericdp.devices.offers import NOTHING
from genericdp.discovery import discover
from genericdp.host.devicefiles import Looker
from genericdp.kubelet import messages
from genericdp.kubelet.server import listening
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api
from genericdp.kubelet.v1beta1 import deviceplugin_pb2_grpc as rpc
from genericdp.model import DeviceNodes, Inject
from genericdp.service import CHECK_SECONDS, Service, why_unusable
from genericdp.simulator.kubelet import Kubelet
from genericdp.template import parse
from tests.supervising import Host, World, resource, serial

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from genericdp.devices.device import Device
    from genericdp.devices.offers import Offer
    from genericdp.host.root import Root

NAME = "example.com/serial"


@pytest.fixture
async def world(short_folder: Path) -> AsyncIterator[World]:
    folder = short_folder / "k"
    folder.mkdir()
    async with Kubelet(folder) as kubelet:
        yield World(short_folder, kubelet)


@pytest.fixture
def host(short_folder: Path) -> Host:
    host = Host(short_folder / "host")
    host.plug("ttyUSB0")
    return host


def offer_of(host: Host) -> Offer:
    """What a pass finds now."""
    found = discover([serial()], Looker(host.root).look, node_name="n", previous={}, now=0.0)
    return found.offers[NAME]


@asynccontextmanager
async def calling(
    host: Host,
    *,
    look_again: Callable[[], None] = lambda: None,
    check: Callable[[Root, Sequence[Device]], str] = why_unusable,
    check_seconds: float = CHECK_SECONDS,
) -> AsyncIterator[tuple[Service, rpc.DevicePluginAsyncStub]]:
    """A service that has the host's offer of now, and a client of its socket."""
    service = Service(
        NAME, root=host.root, look_again=look_again, check=check, check_seconds=check_seconds
    )
    service.set_offer(offer_of(host))
    socket = host.folder.parent / "own.sock"
    async with (
        listening(socket, service),
        grpc.aio.insecure_channel(f"unix:{socket}") as channel,
    ):
        yield service, rpc.DevicePluginStub(channel)


def asking(*ids: str) -> api.AllocateRequest:
    return api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=ids)])


async def refusal(
    client: rpc.DevicePluginAsyncStub, *ids: str
) -> tuple[grpc.StatusCode, str | None]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await client.Allocate(asking(*ids))
    return caught.value.code(), caught.value.details()


async def test_a_node_that_vanished_just_now_is_not_handed_out(host: Host) -> None:
    """D4: nobody has looked since; Allocate does, refuses, and asks for a look."""
    asked: list[int] = []
    async with calling(host, look_again=lambda: asked.append(1)) as (_, client):
        await client.Allocate(asking("ttyUSB0"))
        host.unplug("ttyUSB0")
        assert await refusal(client, "ttyUSB0") == (
            grpc.StatusCode.FAILED_PRECONDITION,
            "example.com/serial: device ttyUSB0: /dev/ttyUSB0 does not exist",
        )
    assert asked == [1]


async def test_another_device_on_the_same_path_is_refused(host: Host) -> None:
    """D5: the same path and number, but not the device that was on offer."""
    async with calling(host) as (service, client):
        node = host.folder / "dev" / "ttyUSB0"
        node.rename(node.with_name("kept"))  # so that its inode number is not used again
        host.plug("ttyUSB0")
        assert await refusal(client, "ttyUSB0") == (
            grpc.StatusCode.FAILED_PRECONDITION,
            "example.com/serial: device ttyUSB0: /dev/ttyUSB0 is another device than the one"
            " on offer",
        )
        service.set_offer(offer_of(host))
        await client.Allocate(asking("ttyUSB0"))


async def test_a_device_that_vanishes_is_unhealthy_at_once_and_comes_back(world: World) -> None:
    """D3: seen at once, both ways; K1 has it after restarts."""
    world.host.plug("ttyUSB0")
    async with world.serving(serial()):
        await world.listed(NAME, "ttyUSB0")
        world.host.unplug("ttyUSB0")
        await world.listed(NAME)
        assert world.kubelet.devices(NAME) == {"ttyUSB0": "Unhealthy"}
        message = await world.refusal(serial=1)
        assert "no healthy devices present" in message
        world.host.plug("ttyUSB0")
        await world.listed(NAME, "ttyUSB0")


async def test_an_unhealthy_device_is_refused_with_its_reason(host: Host) -> None:
    async with calling(host) as (service, client):
        before = {NAME: offer_of(host)}
        host.unplug("ttyUSB0")
        found = discover(
            [serial()], Looker(host.root).look, node_name="n", previous=before, now=0.0
        )
        service.set_offer(found.offers[NAME])
        assert await refusal(client, "ttyUSB0") == (
            grpc.StatusCode.FAILED_PRECONDITION,
            "example.com/serial: device ttyUSB0 is Unhealthy: /dev/ttyUSB0 does not exist",
        )


async def test_devices_that_would_collide_are_refused_with_the_remedy(world: World) -> None:
    """D9: two devices, one fixed container path: an error instead of a silent loss."""
    fixed = DeviceNodes(path=parse("$(device.path)"), container_path=parse("/dev/serial"))
    world.host.plug("ttyUSB0")
    world.host.plug("ttyUSB1")
    async with world.serving(resource(NAME, "/dev/ttyUSB*", inject=Inject(devices=(fixed,)))):
        await world.listed(NAME, "ttyUSB0", "ttyUSB1")
        message = await world.refusal(serial=2)
        assert "/dev/ttyUSB0 and /dev/ttyUSB1 would both be '/dev/serial'" in message
        assert "$(allocation.index)" in message
        assert (await world.container("other", serial=1)).devices.keys() == {"/dev/serial"}


async def test_shares_of_one_device_are_one_device(world: World) -> None:
    world.host.plug("ttyUSB0")
    async with world.serving(serial(replicas=3)):
        await world.listed(NAME, "ttyUSB0", "ttyUSB0::1", "ttyUSB0::2")
        given = await world.container(serial=2)
    assert given.devices == {"/dev/serial0": ("/dev/ttyUSB0", "rw")}
    assert given.env == {"SERIAL": "ttyUSB0"}


async def test_an_unknown_device_is_an_invalid_argument(host: Host) -> None:
    async with calling(host) as (_, client):
        assert await refusal(client, "ttyUSB0", "nope") == (
            grpc.StatusCode.INVALID_ARGUMENT,
            "example.com/serial: there is no device 'nope'",
        )


async def test_a_request_that_is_none_is_an_invalid_argument(host: Host) -> None:
    async with (
        calling(host),
        grpc.aio.insecure_channel(f"unix:{host.folder.parent / 'own.sock'}") as channel,
    ):
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/v1beta1.DevicePlugin/Allocate"
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"\xff\xff")
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_look_that_hangs_is_given_up(host: Host) -> None:
    """ALL-4: the kubelet has no deadline, so Allocate has its own."""
    released = threading.Event()

    def hang(root: Root, devices: Sequence[Device]) -> str:
        released.wait(10)
        return ""

    async with calling(host, check=hang, check_seconds=0.1) as (_, client):
        assert await refusal(client, "ttyUSB0") == (
            grpc.StatusCode.DEADLINE_EXCEEDED,
            "example.com/serial: looking at the nodes of ttyUSB0 does not end",
        )
    released.set()


async def test_the_same_ids_give_the_same_answer(host: Host) -> None:
    """ALL-1, ALL-3: ids come in any order, more than once, and nothing is ever given back."""
    host.plug("ttyUSB1")
    async with calling(host) as (_, client):
        one = await client.Allocate(asking("ttyUSB1", "ttyUSB0"))
        other = await client.Allocate(asking("ttyUSB0", "ttyUSB1", "ttyUSB0"))
    assert one == other


async def test_each_container_of_a_request_gets_its_own_devices(host: Host) -> None:
    """D15: all container responses hold the last device."""
    names = [f"ttyUSB{i}" for i in range(3)]
    for name in names:
        host.plug(name)
    requests = [api.ContainerAllocateRequest(devices_ids=[name]) for name in names]
    async with calling(host) as (_, client):
        answer = await client.Allocate(api.AllocateRequest(container_requests=requests))
    assert [one.envs["SERIAL"] for one in answer.container_responses] == names
    assert [[node.host_path for node in one.devices] for one in answer.container_responses] == [
        [f"/dev/{name}"] for name in names
    ]


async def test_the_other_calls_have_an_answer_though_nobody_needs_to_ask(host: Host) -> None:
    """PRF-4: an error of GetPreferredAllocation would reject the pod."""
    async with calling(host) as (_, client):
        options = await client.GetDevicePluginOptions(api.Empty())
        assert options == api.DevicePluginOptions()
        preferred = await client.GetPreferredAllocation(api.PreferredAllocationRequest())
        assert preferred == api.PreferredAllocationResponse()
        started = await client.PreStartContainer(api.PreStartContainerRequest())
        assert started == api.PreStartContainerResponse()


async def test_the_socket_is_private(host: Host) -> None:
    """TRN-5: whoever can call it can ask for devices."""
    async with calling(host):
        assert (host.folder.parent / "own.sock").stat().st_mode & 0o777 == 0o600


async def test_a_slow_peer_gets_only_the_latest_list(host: Host) -> None:
    """LAW-1, LAW-7: the whole list at once, then what is true when the peer is ready for it."""
    service = Service(NAME, root=host.root, look_again=lambda: None)
    one = offer_of(host)
    service.set_offer(one)
    lists = service.lists()
    first = messages.listed_device("ttyUSB0", healthy=True)
    assert await anext(lists) == first
    service.set_offer(NOTHING)
    host.plug("ttyUSB1")
    service.set_offer(offer_of(host))
    assert await anext(lists) == first + messages.listed_device("ttyUSB1", healthy=True)
    await lists.aclose()  # type: ignore[attr-defined]


async def test_a_stream_that_lives_on_takes_no_change_from_another(host: Host) -> None:
    """K1: an old stream swallows the change, and the current one never hears of it."""
    service = Service(NAME, root=host.root, look_again=lambda: None)
    service.set_offer(offer_of(host))
    old, new = service.lists(), service.lists()
    assert await anext(old) == await anext(new) == messages.listed_device("ttyUSB0", healthy=True)

    async def change() -> None:
        host.plug("ttyUSB1")
        service.set_offer(offer_of(host))

    async with asyncio.timeout(5):
        # Both wait by the time of the change, the old one first.
        told = await asyncio.gather(anext(old), anext(new), change())
    assert told[0] == told[1]
    assert b"ttyUSB1" in told[0]
    for lists in (old, new):
        await lists.aclose()  # type: ignore[attr-defined]
