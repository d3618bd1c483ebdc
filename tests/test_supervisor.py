from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from genericdp.kubelet.folder import KubeletFolder
from tests.world import World, resource, serial

if TYPE_CHECKING:
    import pytest

NAME = "example.com/serial"


async def test_a_removed_resource_sends_an_empty_list_and_the_others_stay(world: World) -> None:
    """KST-11: the node shows 0 at once instead of n of 0 for five minutes."""
    world.host.plug("ttyUSB0")
    world.host.plug("ttyACM0", major=166)
    modem = resource("example.com/modem", "/dev/ttyACM*")
    async with world.serving(serial(), modem) as daemon:
        await world.listed(NAME, "ttyUSB0")
        await world.listed("example.com/modem", "ttyACM0")
        await daemon.registered("example.com/modem")
        await daemon.takes(serial())
        await world.kubelet.wait_for(lambda: world.kubelet.capacity("example.com/modem") == 0)
        await world.kubelet.wait_for(lambda: world.kubelet.streams("example.com/modem") == 0)
        assert world.kubelet.observed.registrations[NAME] == 1
        assert world.kubelet.streams(NAME) == 1


async def test_a_resource_for_other_nodes_does_not_run(world: World) -> None:
    world.host.plug("ttyUSB0")
    elsewhere = serial("example.com/elsewhere", nodeNames=["edge-*"])
    here = serial(nodeNames=["node-[0-9]"])
    async with world.serving(elsewhere, here) as daemon:
        await world.listed(NAME, "ttyUSB0")
        assert [one["name"] for one in (await daemon.status())["resources"]] == [NAME]
        assert set(world.kubelet.observed.registrations) == {NAME}


async def test_a_burst_is_few_lists_and_each_is_true(world: World) -> None:
    """LAW-7: the first change at once, the rest together."""
    async with world.serving(serial()):
        await world.listed_once(NAME)
        before = world.kubelet.observed.lists[NAME]
        for i in range(50):
            world.host.plug(f"ttyUSB{i}")
        await world.listed(NAME, *(f"ttyUSB{i}" for i in range(50)))
        assert world.kubelet.observed.lists[NAME] - before <= 4


async def test_two_resources_with_one_id_are_warned_of(world: World) -> None:
    """LAW-4: kubelets up to 1.36 tell devices apart by their id alone."""

    def folders(name: str) -> dict[str, object]:
        (world.host.folder / name / "same").mkdir(parents=True, exist_ok=True)
        return resource(
            f"example.com/{name}",
            match=[{"path": f"/{name}/*", "type": "directory"}],
            id="$(device.name)",
            inject={"mounts": [{"hostPath": "$(device.path)", "containerPath": "/data"}]},
        )

    async with world.serving(folders("one"), folders("two")) as daemon:
        await world.listed("example.com/one", "same")
        await world.listed("example.com/two", "same")
        await daemon.log.says("warning ids used by several resources, which kubelets mix up: same")
        await daemon.takes(folders("one"))
        await daemon.log.says("info ids no longer used by several resources: same")


async def test_sockets_of_crashed_runs_are_removed_at_the_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9: sockets of crashed runs do not pile up."""
    dead = world.kubelet.folder / KubeletFolder(world.kubelet.folder).next_name("a/b")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(dead))
    real = time.time  # noqa: TID251
    monkeypatch.setattr(time, "time", lambda: real() + 61)  # younger ones may be about to listen
    async with world.serving(serial()) as daemon:
        await daemon.log.says(f"removed {dead.name}, left by a run that crashed")
        assert not dead.exists()


async def test_a_flip_is_one_list_of_one_resource_and_no_registration(world: World) -> None:
    """No list is sent twice, and no change ends a stream."""
    names = ("serial", "modem", "camera")
    resources = [resource(f"example.com/{name}", f"/dev/{name}*") for name in names]
    for major, name in enumerate(names, 200):
        for number in range(2):
            world.host.plug(f"{name}{number}", major=major)
    observed = world.kubelet.observed
    async with world.serving(*resources) as daemon:
        for name in names:
            await daemon.registered(f"example.com/{name}")
            await world.listed(f"example.com/{name}", f"{name}0", f"{name}1")
        lists = dict(observed.lists)
        world.host.unplug("serial1")
        await world.listed(NAME, "serial0")
        world.host.plug("serial1", major=200)
        await world.listed(NAME, "serial0", "serial1")
        # What else the flips might send comes before the list of a later change.
        world.host.plug("camera2", major=202)
        await world.listed("example.com/camera", "camera0", "camera1", "camera2")
        sent = {NAME: lists[NAME] + 2, "example.com/camera": lists["example.com/camera"] + 1}
        assert dict(observed.lists) == lists | sent
        assert set(observed.registrations.values()) == {1}
