"""``/readyz`` with real plugins, against the stand-in for the kubelet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from genericdp.config.state import ConfigState
from genericdp.observed import until
from genericdp.simulator.kubelet import Kubelet
from tests.reloading.following import until_true
from tests.status.living import endpoints_of, said
from tests.supervising import FAST, World, resource, serial

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.supervisor import Supervisor

SERIAL, OTHER = "example.com/serial", "example.com/other"
READY = (200, ["ready"])


@pytest.fixture
def world(short_folder: Path) -> World:
    folder = short_folder / "k"
    folder.mkdir()
    return World(short_folder, Kubelet(folder))


async def running(supervisor: Supervisor) -> None:
    """Wait until there are plugins."""
    assert await until(lambda: bool(supervisor.offers.value), supervisor.offers, timeout_seconds=60)


async def test_while_nothing_is_registered_it_is_not_ready_and_says_why(world: World) -> None:
    """C9: "/health says 200 while nothing is registered"."""
    world.host.plug("ttyUSB0")
    async with world.serving(serial(), resource(OTHER, "/dev/other*")) as supervisor:
        endpoints = endpoints_of(supervisor)
        await running(supervisor)
        plugin = supervisor.plugins[OTHER]
        await until_true(lambda: "kubelet.sock" in plugin.standing.reason)
        why = f"not registered: there is no {world.kubelet.folder}/kubelet.sock"
        assert await said(endpoints, "/readyz") == (503, [f"{SERIAL}: {why}", f"{OTHER}: {why}"])
        assert await said(endpoints, "/livez") == (200, ["alive"])
        async with world.kubelet:
            await world.active(supervisor, SERIAL)
            await world.active(supervisor, OTHER)
            assert await said(endpoints, "/readyz") == READY
        assert await until(lambda: not plugin.active.value, plugin.active, timeout_seconds=60)
        status, lines = await said(endpoints, "/readyz")
        assert status == 503
        assert any(line.startswith(f"{OTHER}: not registered: ") for line in lines)


async def test_a_resource_that_is_refused_is_named_with_the_kubelets_reason(world: World) -> None:
    world.kubelet.faults.refuse_register = "no such luck"
    timing = replace(FAST, permanent_retry=60.0, first_retry=60.0, last_retry=60.0)
    async with world.kubelet, world.serving(serial(), timing=timing) as supervisor:
        await running(supervisor)
        endpoints, standing = endpoints_of(supervisor), supervisor.plugins[SERIAL].standing
        await until_true(lambda: "no such luck" in standing.reason)
        status, (line,) = await said(endpoints, "/readyz")
        assert status == 503
        assert line.startswith(f"{SERIAL}: not registered: ")
        assert "no such luck" in line


async def test_a_kubelet_that_does_not_answer_is_told(world: World) -> None:
    world.kubelet.faults.register_hangs = True
    async with world.kubelet, world.serving(serial()) as supervisor:
        await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[SERIAL] == 1)
        assert await said(endpoints_of(supervisor), "/readyz") == (
            503,
            [f"{SERIAL}: not registered: the kubelet has not answered Register yet"],
        )


async def test_what_stands_in_the_place_of_the_socket_is_told_also_when_it_changes(
    world: World,
) -> None:
    world.host.plug("ttyUSB0")
    path = world.kubelet.folder / "kubelet.sock"
    async with world.serving(serial()) as supervisor:
        await running(supervisor)
        standing = supervisor.plugins[SERIAL].standing
        await until_true(lambda: standing.reason == f"there is no {path}")
        path.mkdir()
        await until_true(lambda: f"{path} is a folder, not a socket" in standing.reason)
        (line,) = (await said(endpoints_of(supervisor), "/readyz"))[1]
        assert f"{SERIAL}: not registered: {path} is a folder" in line
        path.rmdir()
        await until_true(lambda: standing.reason == f"there is no {path}")


async def test_what_is_wanted_and_not_looked_for_yet_is_told(world: World) -> None:
    async with world.serving() as supervisor:
        supervisor.resources.value = (serial(),)
        assert await said(endpoints_of(supervisor), "/readyz") == (
            503,
            [f"{SERIAL}: not registered: the first look at the host is not over"],
        )


@pytest.mark.parametrize(
    ("problems", "line"),
    [
        ((), "no config in force: it is being read"),
        (("a.yaml:1:1: bad",), "no config in force: a.yaml:1:1: bad"),
        (
            ("a.yaml:1:1: bad", "a.yaml:2:1: worse", "b.yaml:1:1: x"),
            "no config in force: a.yaml:1:1: bad (and 2 more)",
        ),
    ],
)
async def test_without_a_config_in_force_nothing_is_ready(
    world: World, problems: tuple[str, ...], line: str
) -> None:
    async with world.serving() as supervisor:
        endpoints = endpoints_of(supervisor, config=ConfigState(problems=problems))
        assert await said(endpoints, "/readyz") == (503, [line])


async def test_a_config_without_a_resource_for_this_node_is_ready(world: World) -> None:
    async with world.serving() as supervisor:
        assert await said(endpoints_of(supervisor), "/readyz") == READY
