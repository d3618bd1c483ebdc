"""Calls of a kubelet: their answers and refusals, and the hooks that run in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.simulator.pods import Container, Pod

from tests.world import World, serial

NAME = "example.com/serial"
TIMES = 20
UNUSABLE = grpc.StatusCode.FAILED_PRECONDITION


@pytest.fixture
async def world(world: World) -> World:
    world.host.plug("ttyUSB0")
    return world


def unplug(node: Path) -> None:
    node.unlink()


def swap(node: Path) -> None:
    new = node.with_name("new")
    new.touch()  # while the old one is there: its inode number is not used again
    new.rename(node)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (unplug, "/dev/ttyUSB0 does not exist"),
        (swap, "/dev/ttyUSB0 is another device than the one on offer"),
    ],
)
async def test_what_has_changed_since_anybody_has_looked_is_not_handed_out(
    world: World, change: Callable[[Path], None], why: str
) -> None:
    """D4, D5: only Allocate reads the host again, and refuses.

    After a change of the list the daemon rests a moment before it looks again.
    """
    names, node = ["ttyUSB0"], world.host.directory / "dev/ttyUSB0"
    async with world.serving(serial()):
        for number in range(1, TIMES):
            names.append(f"ttyUSB{number}")
            world.host.plug(names[-1])
            await world.listed(NAME, *names)
            change(node)
            try:
                await world.allocated(NAME, ["ttyUSB0"])
            except grpc.aio.AioRpcError as error:
                refused = error.code(), error.details()
                if "Unhealthy" not in (error.details() or ""):
                    break
            node.touch()
            await world.listed(NAME, *names)
        else:
            raise AssertionError("the daemon has always looked before")
        assert refused == (UNUSABLE, f"{NAME}: device ttyUSB0: {why}")


async def test_each_container_of_a_request_gets_its_own_devices(world: World) -> None:
    """D15: all container responses hold the last device.

    ALL-1, ALL-3: ids come in any order, more than once, and nothing is ever given back.
    """
    names = [f"ttyUSB{number}" for number in range(3)]
    for name in names:
        world.host.plug(name)
    async with world.serving(serial(replicas=2)):
        await world.listed(NAME, *names, *(f"{name}::1" for name in names))
        given = (await world.allocated(NAME, *([name] for name in names))).container_responses
        assert [container.envs["SERIAL"] for container in given] == names
        nodes = [[node.host_path for node in container.devices] for container in given]
        assert nodes == [[f"/dev/{name}"] for name in names]
        answer = await world.allocated(NAME, ["ttyUSB1", "ttyUSB0"])
        again = await world.allocated(NAME, ["ttyUSB0::1", "ttyUSB1", "ttyUSB0", "ttyUSB0"])
    assert answer == again, "shares of one device are one device"


async def test_the_other_calls_have_an_answer_though_nobody_needs_to_ask(world: World) -> None:
    """PRF-4: an error of GetPreferredAllocation would reject the pod.

    TRN-5: the socket is private, since any caller gets devices.
    """
    async with world.serving(serial()):
        await world.listed(NAME, "ttyUSB0")
        (path,) = world.kubelet.paths(NAME)
        assert Path(path).stat().st_mode & 0o777 == 0o600
        async with world.plugin(NAME) as plugin:
            options = await plugin.GetDevicePluginOptions(api.Empty())
            assert options == api.DevicePluginOptions(get_preferred_allocation_available=True)
            preferred = await plugin.GetPreferredAllocation(api.PreferredAllocationRequest())
            assert preferred == api.PreferredAllocationResponse()
            started = await plugin.PreStartContainer(api.PreStartContainerRequest())
            assert started == api.PreStartContainerResponse()


def hooked(script: str, *, when: str = "allocate") -> dict[str, object]:
    return serial(hooks={when: {"exec": {"command": ["/bin/sh", "-c", script]}}})


async def test_a_device_that_its_hook_makes_anew_is_given_as_it_is_then(world: World) -> None:
    """A hook that resets a card may re-enumerate it (an inode of its own, the same id)."""
    node = world.host.directory / "dev/ttyUSB0"
    script = f"rm {node}; sleep 0.2; touch {node}.new; mv {node}.new {node}"
    async with world.serving(hooked(script)):
        await world.listed(NAME, "ttyUSB0")
        (given,) = (await world.container(serial=1)).devices
    assert (given.container_path, given.host_path) == ("/dev/serial0", "/dev/ttyUSB0")


async def test_a_pre_start_hook_that_fails_first_lets_the_container_start_later(
    world: World,
) -> None:
    """PRE-1: a failure leaves the container waiting; the kubelet tries again."""
    flag = world.directory / "ready"
    script = f"test -e {flag} || {{ echo not ready; exit 1; }}"
    container = Container(name="main", limits={NAME: 1})
    pod = Pod(uid="pod", containers=(container,))
    async with world.serving(hooked(script, when="preStart")):
        await world.listed(NAME, "ttyUSB0")
        assert (await world.kubelet.admit(pod)).admitted
        first = await world.kubelet.start_container(pod, container)
        assert first.given is None
        assert "its preStart hook /bin/sh exited with 1: not ready" in first.message
        flag.touch()
        assert (await world.kubelet.start_container(pod, container)).given is not None
