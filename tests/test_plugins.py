"""What is served when, and how health changes it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import grpc
import pytest

from genericdp.simulator.pods import Container, Pod
from tests.world import World, resource, serial

NAME = "example.com/serial"


def probed(**keys: int) -> dict[str, object]:
    """Return serial adapters that are well while /state/NAME holds 1."""
    return serial(health=[state_probe(**keys)])


def state_probe(**keys: int) -> dict[str, object]:
    file = {"path": "/state/$(device.name)", "equals": "1"}
    return {"file": file, "periodSeconds": 1, "failureThreshold": 1, **keys}


def set_state(world: World, name: str, text: str) -> None:
    file = world.host.folder / "state" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


async def test_the_devices_that_a_container_gets_are_those_that_are_preferred(
    world: World,
) -> None:
    """Spread over devices, and packed after a reload that keeps the registration."""
    for number in range(3):
        world.host.plug(f"ttyUSB{number}")
    names = [f"ttyUSB{number}" for number in range(3)]
    shares = ["", "::1", "::2", "::3"]
    async with world.serving(serial(replicas=3)) as daemon:
        await world.listed(NAME, *(name + share for name in names for share in shares[:3]))
        given = await world.container("a", serial=3)
        assert given.env["SERIAL"] == "ttyUSB0,ttyUSB1,ttyUSB2"
        await daemon.takes(serial(replicas=4, prefer="packed"))
        await world.listed(NAME, *(name + share for name in names for share in shares))
        assert (await world.container("b", serial=2)).env["SERIAL"] == "ttyUSB0"
        assert world.kubelet.observed.registrations[NAME] == 1
        await daemon.takes(serial(replicas=4, prefer="none"))
        await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[NAME] == 2)


async def test_a_device_falls_and_returns_with_its_probe(world: World) -> None:
    """D6: nothing is Unhealthy forever."""
    for name in ("ttyUSB0", "ttyUSB1"):
        world.host.plug(name)
        set_state(world, name, "1")
    async with world.serving(probed()) as daemon:
        await world.listed(NAME, "ttyUSB0", "ttyUSB1")
        set_state(world, "ttyUSB0", "0")
        await world.listed(NAME, "ttyUSB1")
        await daemon.offers(NAME, ttyUSB0="file: /state/ttyUSB0 is '0', not '1'", ttyUSB1="")
        set_state(world, "ttyUSB0", "1")
        await world.listed(NAME, "ttyUSB0", "ttyUSB1")
        assert world.kubelet.observed.registrations[NAME] == 1


async def test_devices_that_fall_within_a_moment_go_out_together(world: World) -> None:
    """LAW-7: each list costs the kubelet a write."""
    names = [f"ttyUSB{number}" for number in range(40)]
    for name in names:
        world.host.plug(name)
        set_state(world, name, "1")
    async with world.serving(probed()):
        await world.listed(NAME, *names)
        lists = world.kubelet.observed.lists[NAME]
        for name in names:
            set_state(world, name, "0")
        await world.listed(NAME)
        # The probes run within a second, and what changes within a tenth of it is one list.
        assert world.kubelet.observed.lists[NAME] - lists <= 15


async def test_a_restart_makes_nothing_unhealthy_that_is_well(world: World) -> None:
    """The first list that a kubelet gets is that after the first results."""
    for number in range(20):
        world.host.plug(f"ttyUSB{number}")
        set_state(world, f"ttyUSB{number}", "1")
    command = {"exec": {"command": ["/bin/sleep", "0.05"]}}
    both = serial(health=[state_probe(periodSeconds=60), command])
    async with world.serving(both):
        await world.listed_once(NAME)
        assert set(world.kubelet.devices(NAME).values()) == {"Healthy"}
        assert world.kubelet.observed.lists[NAME] == 1


async def test_a_device_that_appears_later_is_unhealthy_until_its_first_result(
    world: World,
) -> None:
    world.host.plug("ttyUSB0")
    set_state(world, "ttyUSB0", "1")
    async with world.serving(probed(initialDelaySeconds=1)) as daemon:
        await world.listed(NAME, "ttyUSB0")
        set_state(world, "ttyUSB1", "1")
        world.host.plug("ttyUSB1")
        await daemon.offers(NAME, ttyUSB0="", ttyUSB1="file: not probed yet")
        await world.listed(NAME, "ttyUSB0", "ttyUSB1")


async def test_a_device_that_turned_unhealthy_the_moment_before_is_refused(world: World) -> None:
    """The kubelet may ask before it has the list."""
    world.host.plug("ttyUSB0")
    set_state(world, "ttyUSB0", "1")
    async with world.serving(probed()) as daemon:
        await world.listed(NAME, "ttyUSB0")
        world.kubelet.freeze()
        set_state(world, "ttyUSB0", "broken")
        await daemon.offers(NAME, ttyUSB0="file: /state/ttyUSB0 is 'broken', not '1'")
        with pytest.raises(grpc.aio.AioRpcError, match="is Unhealthy: file: /state/ttyUSB0 is 'br"):
            await world.allocated(NAME, ["ttyUSB0"])
        world.kubelet.thaw()


async def test_what_the_host_says_of_a_device_comes_before_what_its_probe_says(
    world: World,
) -> None:
    world.host.plug("ttyUSB0")
    set_state(world, "ttyUSB0", "1")
    async with world.serving(probed()) as daemon:
        await world.listed(NAME, "ttyUSB0")
        world.host.unplug("ttyUSB0")
        await world.listed(NAME)
        await daemon.offers(NAME, ttyUSB0="/dev/ttyUSB0 does not exist")
        world.host.plug("ttyUSB0")
        await world.listed(NAME, "ttyUSB0")


async def test_one_resource_whose_probes_hang_holds_up_no_other_one(world: World) -> None:
    for number in range(40):
        world.host.plug(f"ttyACM{number}", major=166)
    world.host.plug("ttyUSB0")
    set_state(world, "ttyUSB0", "1")
    hanging = {"exec": {"command": ["/bin/sleep", "60"]}, "periodSeconds": 60, "timeoutSeconds": 60}
    other = resource("example.com/other", "/dev/ttyACM*", health=[hanging])
    async with world.serving(other, probed()) as daemon:
        await world.listed(NAME, "ttyUSB0")
        # It still waits for its first results.
        assert "example.com/other" not in world.kubelet.observed.registrations
        await daemon.counts("example.com/other", 40)


def hooked(script: str, *, when: str = "allocate", **keys: object) -> dict[str, object]:
    return serial(hooks={when: {"exec": {"command": ["/bin/sh", "-c", script]}, **keys}})


async def test_an_allocate_hook_that_fails_refuses_the_pod_and_says_why(world: World) -> None:
    world.host.plug("ttyUSB0")
    async with world.serving(hooked("echo locked; exit 1")):
        await world.listed(NAME, "ttyUSB0")
        message = await world.refusal(serial=1)
    assert "device ttyUSB0: its allocate hook /bin/sh exited with 1: locked" in message


async def test_a_device_that_its_hook_makes_anew_is_given_as_it_is_then(world: World) -> None:
    """A hook that resets a card may re-enumerate it (an inode of its own, the same id)."""
    node = world.host.plug("ttyUSB0")
    script = f"rm {node}; sleep 0.2; touch {node}.new; mv {node}.new {node}"
    async with world.serving(hooked(script)):
        await world.listed(NAME, "ttyUSB0")
        given = await world.container(serial=1)
    assert [(one.container_path, one.host_path) for one in given.devices] == [
        ("/dev/serial0", "/dev/ttyUSB0")
    ]


async def test_a_pre_start_hook_that_fails_first_lets_the_container_start_later(
    world: World, tmp_path: Path
) -> None:
    """PRE-1: a failure leaves the container waiting; the kubelet tries again."""
    world.host.plug("ttyUSB0")
    flag = tmp_path / "ready"
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


async def test_the_end_of_the_daemon_ends_a_hook_that_hangs(world: World, tmp_path: Path) -> None:
    world.host.plug("ttyUSB0")
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    async with asyncio.TaskGroup() as tasks:
        async with world.serving(hooked(f"echo $$ > {begun}; exec sleep 60", timeoutSeconds=1)):
            await world.listed(NAME, "ttyUSB0")
            asked = tasks.create_task(world.refusal(serial=1))
            pid = int(await asyncio.to_thread(begun.read_text))
            assert Path(f"/proc/{pid}").exists()
        await asked
    assert not Path(f"/proc/{pid}").exists()
