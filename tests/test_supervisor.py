from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from genericdp.inotify import FolderWatch
from genericdp.model import FileType, PathSelector, Selector
from genericdp.observed import until
from genericdp.simulator.kubelet import Kubelet
from genericdp.supervisor import Pace
from tests.supervising import World, resource, serial

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from inotify_simple import INotify

NAME = "example.com/serial"


@pytest.fixture
async def world(short_folder: Path) -> AsyncIterator[World]:
    folder = short_folder / "k"
    folder.mkdir()
    async with Kubelet(folder) as kubelet:
        yield World(short_folder, kubelet)


async def test_a_removed_resource_sends_an_empty_list_and_the_others_stay(world: World) -> None:
    """KST-11: the node shows 0 at once instead of n of 0 for five minutes."""
    world.host.plug("ttyUSB0")
    world.host.plug("ttyACM0", major=166)
    modem = resource("example.com/modem", "/dev/ttyACM*")
    async with world.serving(serial(), modem) as supervisor:
        await world.listed(NAME, "ttyUSB0")
        await world.listed("example.com/modem", "ttyACM0")
        await world.active(supervisor, "example.com/modem")
        supervisor.resources.value = (serial(),)
        await world.kubelet.wait_for(lambda: world.kubelet.capacity("example.com/modem") == 0)
        await world.kubelet.wait_for(lambda: world.kubelet.streams("example.com/modem") == 0)
        assert world.kubelet.observed.registrations[NAME] == 1
        assert world.kubelet.streams(NAME) == 1


async def test_a_changed_resource_keeps_its_stream(world: World) -> None:
    world.host.plug("ttyUSB0")
    async with world.serving(serial()) as supervisor:
        await world.listed(NAME, "ttyUSB0")
        supervisor.resources.value = (serial(replicas=2),)
        await world.listed(NAME, "ttyUSB0", "ttyUSB0::1")
        assert world.kubelet.observed.registrations[NAME] == 1


async def test_a_resource_for_other_nodes_does_not_run(world: World) -> None:
    world.host.plug("ttyUSB0")
    elsewhere = replace(serial("example.com/elsewhere"), node_names=("edge-*",))
    here = replace(serial(), node_names=("node-[0-9]",))
    async with world.serving(elsewhere, here) as supervisor:
        await world.listed(NAME, "ttyUSB0")
        assert supervisor.plugins.keys() == {NAME}


async def test_a_device_is_forgotten_when_its_time_is_over(world: World) -> None:
    world.host.plug("ttyUSB0")
    world.host.plug("ttyUSB1")
    async with world.serving(serial(forget=1)):
        await world.listed(NAME, "ttyUSB0", "ttyUSB1")
        world.host.unplug("ttyUSB1")
        await world.listed(NAME, "ttyUSB0")
        assert world.kubelet.capacity(NAME) == 2
        await world.kubelet.wait_for(lambda: world.kubelet.capacity(NAME) == 1)


async def test_a_list_that_no_kubelet_takes_is_cut_before_it_is_sent(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """K11: what would pass 4 MiB is not offered, with a message; the rest is served."""
    for i in range(12):
        world.host.plug(f"ttyUSB{i}-{'x' * 40}", minor=i)
    many = resource(NAME, "/dev/ttyUSB*", replicas=10_000)
    with caplog.at_level(logging.INFO):
        async with world.serving(many):
            await world.listed_once(NAME)
            capacity = world.kubelet.capacity(NAME)
    assert 0 < capacity < 120_000
    assert capacity % 10_000 == 0
    assert "of 120000 devices, shares counted, fit into the 4194304 bytes that" in caplog.text
    warnings = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert warnings == [f"list full: left out are {12 - capacity // 10_000} of the devices"]
    assert world.kubelet.observed.registrations[NAME] == 1


async def test_where_inotify_cannot_be_had_it_polls_and_says_so_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def exhausted() -> INotify:
        # The limit of instances is the whole machine's: it cannot be used up for one test.
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async with world.serving(serial(), pace=Pace(poll=0.05), open_inotify=exhausted):
        await world.listed_once(NAME)
        world.host.plug("ttyUSB0")
        await world.listed(NAME, "ttyUSB0")
        world.host.unplug("ttyUSB0")
        await world.listed(NAME)
    told = [record for record in caplog.records if "polling instead" in record.message]
    assert [record.args[0] for record in told if isinstance(record.args, tuple)] == [
        f"the kubelet's folder {world.kubelet.folder}"  # once for all that lack the same
    ]


async def test_folders_that_do_not_exist_yet_are_seen_when_they_appear(world: World) -> None:
    by_id = resource(NAME, "/dev/serial/by-id/*")
    async with world.serving(by_id):
        await world.listed_once(NAME)
        for _ in range(2):
            world.host.plug("ttyUSB0")
            folder = world.host.folder / "dev/serial/by-id"
            folder.mkdir(parents=True)
            (folder / "usb-one").symlink_to("../../ttyUSB0")
            await world.listed(NAME, "serial_by-id_usb-one")
            (folder / "usb-one").unlink()
            folder.rmdir()
            folder.parent.rmdir()
            await world.listed(NAME)


async def test_a_burst_is_few_lists_and_each_is_true(world: World) -> None:
    """LAW-7: the first change at once, the rest together."""
    async with world.serving(serial()):
        await world.listed_once(NAME)
        before = world.kubelet.observed.lists[NAME]
        for i in range(50):
            world.host.plug(f"ttyUSB{i}")
        await world.listed(NAME, *(f"ttyUSB{i}" for i in range(50)))
        assert world.kubelet.observed.lists[NAME] - before <= 4


async def test_two_resources_with_one_id_are_warned_of(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """LAW-4: kubelets up to 1.36 tell devices apart by their id alone."""
    for name in ("one/same", "two/same"):
        folder = world.host.folder / name
        folder.mkdir(parents=True)

    def folders(name: str, parent: str) -> object:
        selector = PathSelector(globs=(f"/{parent}/*",), types=(FileType.DIRECTORY,))
        from genericdp.model import Inject, Mount
        from genericdp.template import parse

        mount = Mount(host_path=parse("$(device.path)"), container_path=parse("/data"))
        return replace(
            resource(name, inject=Inject(mounts=(mount,))),
            match=(Selector(candidates=selector),),
            id=parse("$(device.name)"),
        )

    first, second = folders("example.com/one", "one"), folders("example.com/two", "two")
    async with world.serving(first, second):  # type: ignore[arg-type]
        await world.listed("example.com/one", "same")
        await world.listed("example.com/two", "same")
    assert "ids used by several resources, which kubelets mix up: ['same']" in caplog.text


async def test_sockets_of_crashed_runs_are_removed_at_the_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9: sockets of crashed runs pile up."""
    dead = world.kubelet.folder / "genericdp-0-other-1.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(dead))
    real = time.time  # noqa: TID251
    monkeypatch.setattr(time, "time", lambda: real() + 61)  # younger ones may be about to listen
    changed = asyncio.Event()
    watch = FolderWatch(changed.set, what="test")
    try:
        watch.set_folders([str(dead.parent)])
        async with asyncio.timeout(5), world.serving():
            while dead.exists():
                await changed.wait()
                changed.clear()
    finally:
        watch.close()


async def test_a_plugin_that_dies_of_our_mistake_is_started_again(world: World) -> None:
    world.host.plug("ttyUSB0")
    async with world.serving(serial()) as supervisor:
        await world.listed(NAME, "ttyUSB0")
        running = supervisor._plugins._running[NAME]
        running.task.cancel()
        await asyncio.wait([running.task])
        supervisor.look_again()
        await world.kubelet.wait_for(lambda: world.kubelet.observed.registrations[NAME] == 2)
        await world.listed(NAME, "ttyUSB0")
        assert await until(
            lambda: supervisor.plugins[NAME].active.value,
            supervisor.plugins[NAME].active,
            timeout_seconds=5,
        )


@pytest.mark.parametrize(("took", "rest"), [(0.02, 30.0), (1.5, 30.0), (4, 80.0), (9e3, 300)])
def test_looks_that_take_long_are_rare(took: float, rest: float) -> None:
    """Bites if 100,000 devices are all looked at every 30 s: that is a sixth of a core."""
    assert Pace().between_full_looks(took) == pytest.approx(rest)


@pytest.mark.parametrize(
    ("took", "lists_changed", "pause"),
    [(0.03, True, 0.07), (0.3, True, 0.0), (0.03, False, 0.03), (4.5, False, 1.0)],
)
def test_an_event_does_not_wait_for_long_because_a_pass_took_long(
    took: float, *, lists_changed: bool, pause: float
) -> None:
    """Bites if the pause after a pass is as long as the pass, whatever that took."""
    assert Pace().pause(took, lists_changed=lists_changed) == pytest.approx(pause)
