"""What Allocate and the other calls of a kubelet give, and when they refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import pytest

from genericdp.kubelet.api import deviceplugin_pb2 as api
from tests.world import World, resource, serial

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "example.com/serial"
TIMES = 20


@pytest.fixture
async def world(world: World) -> World:
    world.host.plug("ttyUSB0")
    return world


async def refusal(world: World, *ids: str) -> tuple[grpc.StatusCode, str | None]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await world.allocated(NAME, ids)
    return caught.value.code(), caught.value.details()


async def refused_before_anybody_has_looked(world: World, change: Callable[[], None]) -> str | None:
    """Return why Allocate refuses a device that has changed since the daemon has looked.

    After a change of the list the daemon rests a moment before it looks again.
    """
    names = ["ttyUSB0"]
    for number in range(1, TIMES):
        names.append(f"ttyUSB{number}")
        world.host.plug(names[-1])
        await world.listed(NAME, *names)
        change()
        try:
            await world.allocated(NAME, ["ttyUSB0"])
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
            if "Unhealthy" not in (error.details() or ""):
                return error.details()
        (world.host.folder / "dev/ttyUSB0").touch()
        await world.listed(NAME, *names)
    raise AssertionError("the daemon has always looked before")


async def test_a_node_that_vanished_just_now_is_not_handed_out(world: World) -> None:
    """D4: nobody has looked since; Allocate does, and refuses."""
    async with world.serving(serial()):
        await world.listed(NAME, "ttyUSB0")
        await world.allocated(NAME, ["ttyUSB0"])
        why = await refused_before_anybody_has_looked(world, lambda: world.host.unplug("ttyUSB0"))
        assert why == f"{NAME}: device ttyUSB0: /dev/ttyUSB0 does not exist"
        await world.kubelet.wait_for(lambda: world.kubelet.devices(NAME)["ttyUSB0"] == "Unhealthy")


async def test_another_device_on_the_same_path_is_refused(world: World) -> None:
    """D5: the same path and number, but not the device that was on offer."""
    node = world.host.folder / "dev/ttyUSB0"

    def swap() -> None:
        new = node.with_name("new")
        new.touch()  # while the old one is there: its inode number is not used again
        new.rename(node)

    async with world.serving(serial()):
        await world.listed(NAME, "ttyUSB0")
        why = await refused_before_anybody_has_looked(world, swap)
        assert why == (
            f"{NAME}: device ttyUSB0: /dev/ttyUSB0 is another device than the one on offer"
        )


async def test_a_device_that_vanishes_is_unhealthy_at_once_and_comes_back(world: World) -> None:
    """D3: seen at once, both ways; K1 has it after restarts."""
    async with world.serving(serial()):
        await world.listed(NAME, "ttyUSB0")
        world.host.unplug("ttyUSB0")
        await world.listed(NAME)
        assert world.kubelet.devices(NAME) == {"ttyUSB0": "Unhealthy"}
        assert "no healthy devices present" in await world.refusal(serial=1)
        assert await refusal(world, "ttyUSB0") == (
            grpc.StatusCode.FAILED_PRECONDITION,
            f"{NAME}: device ttyUSB0 is Unhealthy: /dev/ttyUSB0 does not exist",
        )
        world.host.plug("ttyUSB0")
        await world.listed(NAME, "ttyUSB0")


async def test_devices_that_would_collide_are_refused_with_the_remedy(world: World) -> None:
    """D9: two devices, one fixed container path: an error instead of a silent loss."""
    fixed = {"devices": [{"path": "$(device.path)", "containerPath": "/dev/serial"}]}
    world.host.plug("ttyUSB1")
    async with world.serving(resource(NAME, "/dev/ttyUSB*", inject=fixed)):
        await world.listed(NAME, "ttyUSB0", "ttyUSB1")
        message = await world.refusal(serial=2)
        assert "/dev/ttyUSB0 and /dev/ttyUSB1 would both be '/dev/serial'" in message
        assert "$(allocation.index)" in message
        (node,) = (await world.container("other", serial=1)).devices
        assert node.container_path == "/dev/serial"


async def test_shares_of_one_device_are_one_device(world: World) -> None:
    async with world.serving(serial(replicas=3)):
        await world.listed(NAME, "ttyUSB0", "ttyUSB0::1", "ttyUSB0::2")
        given = await world.container(serial=2)
    (node,) = given.devices
    assert (node.host_path, node.container_path) == ("/dev/ttyUSB0", "/dev/serial0")
    assert node.permissions == "rw"
    assert given.env == {"SERIAL": "ttyUSB0"}


async def test_the_shares_of_one_device_are_told_apart(world: World) -> None:
    given = {
        "devices": [{"path": "$(device.path)"}],
        "env": {"CORE": "$(device.share)"},
    }
    async with world.serving(resource(NAME, "/dev/ttyUSB*", replicas=3, inject=given)):
        await world.listed(NAME, "ttyUSB0", "ttyUSB0::1", "ttyUSB0::2")
        for ids, core in ((["ttyUSB0"], "0"), (["ttyUSB0::2", "ttyUSB0::1"], "1,2")):
            answer = await world.allocated(NAME, ids)
            assert [dict(one.envs) for one in answer.container_responses] == [{"CORE": core}]


async def test_what_cannot_be_asked_is_an_invalid_argument(world: World) -> None:
    async with world.serving(serial()):
        await world.listed(NAME, "ttyUSB0")
        assert await refusal(world, "ttyUSB0", "nope") == (
            grpc.StatusCode.INVALID_ARGUMENT,
            f"{NAME}: there is no device 'nope'",
        )
        (path,) = world.kubelet.paths(NAME)
        async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                "/v1beta1.DevicePlugin/Allocate"
            )
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(b"\xff\xff")
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_the_same_ids_give_the_same_answer(world: World) -> None:
    """ALL-1, ALL-3: ids come in any order, more than once, and nothing is ever given back."""
    world.host.plug("ttyUSB1")
    async with world.serving(serial()):
        await world.listed(NAME, "ttyUSB0", "ttyUSB1")
        one = await world.allocated(NAME, ["ttyUSB1", "ttyUSB0"])
        other = await world.allocated(NAME, ["ttyUSB0", "ttyUSB1", "ttyUSB0"])
    assert one == other


async def test_each_container_of_a_request_gets_its_own_devices(world: World) -> None:
    """D15: all container responses hold the last device."""
    names = [f"ttyUSB{i}" for i in range(3)]
    for name in names:
        world.host.plug(name)
    async with world.serving(serial()):
        await world.listed(NAME, *names)
        given = (await world.allocated(NAME, *([name] for name in names))).container_responses
    assert [one.envs["SERIAL"] for one in given] == names
    assert [[node.host_path for node in one.devices] for one in given] == [
        [f"/dev/{name}"] for name in names
    ]


async def test_the_other_calls_have_an_answer_though_nobody_needs_to_ask(world: World) -> None:
    """PRF-4: an error of GetPreferredAllocation would reject the pod."""
    async with world.serving(serial()):
        await world.listed(NAME, "ttyUSB0")
        async with world.plugin(NAME) as plugin:
            options = await plugin.GetDevicePluginOptions(api.Empty())
            assert options == api.DevicePluginOptions(get_preferred_allocation_available=True)
            preferred = await plugin.GetPreferredAllocation(api.PreferredAllocationRequest())
            assert preferred == api.PreferredAllocationResponse()
            started = await plugin.PreStartContainer(api.PreStartContainerRequest())
            assert started == api.PreStartContainerResponse()


async def test_the_socket_is_private(world: World) -> None:
    """TRN-5: whoever can call it can ask for devices."""
    async with world.serving(serial()):
        await world.listed(NAME, "ttyUSB0")
        (socket,) = world.kubelet.folder.glob("genericdp-*.sock")
        assert socket.stat().st_mode & 0o777 == 0o600


async def test_every_stream_gets_every_change(world: World) -> None:
    """K1, LAW-1: the whole list at once, and no stream swallows what another is to hear."""
    async with world.serving(serial()):
        await world.listed(NAME, "ttyUSB0")
        async with world.plugin(NAME) as plugin:
            streams = [aiter(plugin.ListAndWatch(api.Empty())) for _ in range(2)]
            first = [await anext(one) for one in streams]
            assert [[one.ID for one in told.devices] for told in first] == [["ttyUSB0"]] * 2
            world.host.plug("ttyUSB1")
            told = [await anext(one) for one in streams]
            assert told[0] == told[1]
            assert [one.ID for one in told[0].devices] == ["ttyUSB0", "ttyUSB1"]
        await world.listed(NAME, "ttyUSB0", "ttyUSB1")


async def test_a_member_is_found_again_whatever_characters_its_path_has(world: World) -> None:
    for name in ("p\xa0", "q"):
        (world.host.folder / "opt/slots" / name).mkdir(parents=True)
    slots = resource(
        "example.com/slots",
        match=[{"path": "/opt/slots/*", "type": "directory"}],
        groupBy="all",
        inject={"mounts": [{"hostPath": "$(device.path)", "containerPath": "$(device.path)"}]},
    )
    async with world.serving(slots):
        given = await world.container(slots=1)
    assert [mount.host_path for mount in given.mounts] == ["/opt/slots/p\xa0", "/opt/slots/q"]
