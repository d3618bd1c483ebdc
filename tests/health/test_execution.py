from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.devices.device import Device, DeviceNode
from genericdp.devices.inventory import Identity
from genericdp.health.execution import PATH, command_environment, run_for
from genericdp.model import Command
from genericdp.process.run import Commands
from genericdp.template import parse

if TYPE_CHECKING:
    from collections.abc import Mapping


def node(path: str) -> DeviceNode:
    return DeviceNode(
        host_path=path, real_path=path, container_path=parse(path), permissions="rw", key=path,
        identity=Identity(inode=1), exclusive=True,
    )  # fmt: skip


DEVICE = Device(
    id="tty-1",
    key="k",
    path="/dev/ttyUSB1",
    nodes=(node("/dev/ttyUSB1"), node("/dev/input/event3")),
    identity=Identity(inode=1),
)


@pytest.mark.parametrize(
    ("declared", "path"), [({}, PATH), ({"MODE": "quick", "PATH": "/opt/bin"}, "/opt/bin")]
)
def test_a_command_knows_its_device_and_what_is_declared(
    declared: Mapping[str, str], path: str
) -> None:
    assert command_environment("example.com/serial", DEVICE, declared) == {
        **declared,
        "PATH": path,
        "GENERICDP_RESOURCE": "example.com/serial",
        "GENERICDP_DEVICE_ID": "tty-1",
        "GENERICDP_DEVICE_PATHS": "/dev/ttyUSB1:/dev/input/event3",
    }


def test_what_is_declared_hides_no_device() -> None:
    environment = command_environment("a.b/c", DEVICE, {"GENERICDP_DEVICE_ID": "other"})
    assert environment["GENERICDP_DEVICE_ID"] == "tty-1"


@pytest.mark.parametrize(("wanted", "reason"), [("tty-1", ""), ("tty-2", "exited with 1: tty-1")])
async def test_the_command_decides(wanted: str, reason: str) -> None:
    script = 'echo "$GENERICDP_DEVICE_ID"; test "$GENERICDP_DEVICE_ID" = "$WANTED"'
    check = Command(argv=("/bin/sh", "-c", script), env={"WANTED": wanted})
    async with Commands() as commands:
        outcome = await run_for(
            DEVICE,
            check,
            resource="example.com/serial",
            timeout_seconds=5,
            run=commands.run,
        )
    assert (outcome.ok, outcome.reason, outcome.output) == (not reason, reason, "tty-1\n")
