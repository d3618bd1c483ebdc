"""Disks that the system is on are warned of: what the cases of disks cannot show."""

from __future__ import annotations

import pytest
from genericdp.errors import HostError
from genericdp.printing import shortened
from genericdp.template import MAX_TEXT

from tests.devices.known import Known
from tests.devices.making import decide, node
from tests.devices.making import resource as made
from tests.world import World, resource


@pytest.mark.parametrize("error", [MemoryError(), HostError("odd"), ValueError("x" * 1000)])
def test_whatever_fails_there_costs_no_more_than_the_warning(error: Exception) -> None:
    class Failing(Known):
        def text(self, path: str, *, limit: int = MAX_TEXT) -> str | None:
            if path == "/proc/self/mountinfo":
                raise error
            return Known.text(self, path, limit=limit)

    found = [node("/dev/sda", (8, 0), block=True), node("/dev/gpu0", (195, 0))]
    wanted = [made("disk", "/dev/sda"), made("gpu", "/dev/gpu0")]
    lists = decide(wanted, found, facts=Failing())
    disk, gpu = lists["example.com/disk"], lists["example.com/gpu"]
    assert [*disk.devices, *gpu.devices] == ["sda", "gpu0"]
    assert gpu.warnings == {}
    why = f"the system may have something ({shortened(repr(error))}) on /dev/sda: exclude it"
    assert disk.warnings == {"sda": why}


async def test_the_daemon_logs_it_once_while_it_is_offered(world: World) -> None:
    tree = world.host
    for name, number in (("sda", "8:0"), ("sda1", "8:1"), ("sdb", "8:16")):
        tree.node(name, number, at="virtual/block", block=True)
    mount = "27 1 8:1 / / rw - ext4 /dev/root rw\n"
    world.host.write("/proc/self/mountinfo", mount)
    said = "warning example.com/disks: device sda1 should not be on offer: the system has / on "
    async with world.serving(resource("example.com/disks", "/dev/sda1", "/dev/sdb")) as daemon:
        await daemon.log.says(said)
        tree.remove("dev/sdb")
        await world.listed("example.com/disks", "sda1")
        assert daemon.log.count("the system has") == 1
        await daemon.takes(resource("example.com/disks", "/dev/sda"))
        await world.listed("example.com/disks", "sda")
        await daemon.takes(resource("example.com/disks", "/dev/sda1"))
        await daemon.log.says(said, times=2)
        world.host.write("/proc/self/mountinfo", mount * 40_000)
        tree.node("sdc", "8:32")
        await daemon.log.says("(/proc/self/mountinfo: it has more than 1024 KiB) on /dev/sda1")
