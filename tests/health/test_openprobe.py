"""Probes that open nodes: real ones, and what can be wrong with them."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from genericdp.devices.device import BoundProbe, DeviceNode
from genericdp.health.health import Probes
from genericdp.health.kinds.open import OpenCheck
from genericdp.host.devicefiles import DeviceFiles
from genericdp.host.root import Root
from genericdp.process.run import Commands
from genericdp.template import parse
from tests.health.probed_devices import device, probe

if TYPE_CHECKING:
    from genericdp.devices.device import Device

MACHINE = Root(Path("/"))


def node(path: str, root: Root = MACHINE) -> DeviceNode:
    found = DeviceFiles(root).examine(path)
    assert found is not None
    return DeviceNode(
        host_path=path,
        real_path=path,
        container_path=parse(path),
        permissions="rw",
        key=found.key,
        identity=found.identity,
        exclusive=True,
    )


def with_nodes(*nodes: DeviceNode) -> Device:
    return replace(device("a"), nodes=nodes)


async def reason(device: Device, mode: str = "rw", root: Root = MACHINE) -> str:
    bound = BoundProbe(probe=probe(), check=OpenCheck(mode=mode))
    found = await Probes(Commands().run).run(bound, device, resource="r", root=root)
    assert found.ok is not bool(found.reason)
    return found.reason


@pytest.mark.parametrize("mode", ["r", "w", "rw"])
async def test_nodes_that_open_are_well(mode: str) -> None:
    assert await reason(with_nodes(node("/dev/null"), node("/dev/zero")), mode) == ""


async def test_it_is_opened_as_asked_without_waiting_and_closed_at_once() -> None:
    asked: list[int] = []

    class Noting(Root):
        def descriptor(self, path: str, flags: int) -> int:
            asked.append(flags)
            return super().descriptor(path, flags)

    before = os.listdir("/proc/self/fd")
    for mode in ("r", "w", "rw"):
        await reason(with_nodes(node("/dev/null")), mode, Noting(Path("/")))
    always = os.O_NONBLOCK | os.O_NOCTTY
    assert asked == [access | always for access in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR)]
    assert len(os.listdir("/proc/self/fd")) == len(before)


async def test_a_device_without_nodes_cannot_be_opened() -> None:
    assert await reason(with_nodes()) == "the device has no node that could be opened"


async def test_a_node_that_is_gone_or_another_one_is_not_opened() -> None:
    """D5: another device on the same path."""
    null = node("/dev/null")
    gone = replace(null, host_path="/dev/no-such-node")
    other = replace(null, identity=replace(null.identity, plugged="diskseq 7"))
    assert await reason(with_nodes(null, gone)) == "/dev/no-such-node does not exist"
    assert await reason(with_nodes(other)) == "/dev/null is another device now"


FORBIDDEN = " (the pod's device cgroup or capabilities may forbid it)"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EBUSY, "Device or resource busy"),
        (errno.ENXIO, "No such device or address"),
        (errno.EIO, "Input/output error"),
        (errno.EPERM, f"Operation not permitted{FORBIDDEN}"),
        (errno.EACCES, f"Permission denied{FORBIDDEN}"),
    ],
)
async def test_what_the_driver_says_is_told_in_words(number: int, said: str) -> None:
    class Refusing(Root):
        def descriptor(self, path: str, flags: int) -> int:
            raise OSError(number, os.strerror(number), path)

    found = await reason(with_nodes(node("/dev/null")), root=Refusing(Path("/")))
    assert found == f"/dev/null cannot be opened: {said}"


async def test_a_copied_tree_is_looked_at_instead_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "x").touch()
    root = Root(tmp_path)
    there = with_nodes(node("/dev/x", root))
    assert await reason(there, root=root) == ""
    (tmp_path / "dev" / "x").unlink()
    assert await reason(there, root=root) == "/dev/x does not exist"
