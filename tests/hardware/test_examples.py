"""Examples with probes and hooks: what they do for devices as machines have them."""

from __future__ import annotations

import os
import pty
import termios
from typing import TYPE_CHECKING

import pytest
from genericdp.config.load import load
from genericdp.devices.decide import decide
from genericdp.health.kinds.kernellog import KernelLogCheck
from genericdp.host.cache import HostCache
from genericdp.host.root import Root
from genericdp.process.run import Commands

from tests.cases.machine import Machine
from tests.cases.node import EXAMPLES
from tests.cases.running import DIRECTORY
from tests.health.probed_devices import struck
from tests.hosts.hosts import Host
from tests.testbeds import loading

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.devices.device import Device
    from genericdp.model import HookName


def argv_of(device: Device, hook: HookName) -> tuple[str, ...]:
    """Return the command of a hook."""
    return device.hooks[hook].command.expand(lambda *_: None).argv


def offered(example: str, root: Root) -> dict[str, Device]:
    """Return what an example offers on a machine, by id."""
    resources = load([EXAMPLES / f"{example}.yaml"]).resources
    lists = decide(resources, HostCache(root), node_name="n", previous={}, now=0.0).lists
    return {
        device_id: entry.device
        for listed in lists.values()
        for device_id, entry in listed.devices.items()
        if entry.is_healthy
    }


@pytest.fixture
def gpus(tmp_path: Path) -> Root:
    return Machine(tmp_path, DIRECTORY / "machines/two-gpus.yaml").root


def strikes(device: Device, line: str) -> bool:
    """Return whether a line of the kernel's log makes it Unhealthy."""
    (bound,) = device.probes
    assert isinstance(bound.check, KernelLogCheck)
    return struck(bound.check, line)


def test_the_errors_of_a_card_that_count_are_those_of_each_peer(gpus: Root) -> None:
    """NVIDIA's plugin counts all but those of programs, GKE's the uncorrectable one of memory."""
    line = "NVRM: Xid (PCI:0000:3b:00): {}, pid=1, name=x"

    def counted(device: Device) -> set[int]:
        return {code for code in range(1, 150) if strikes(device, line.format(code))}

    first, other = offered("nvidia-gpu", gpus).values()
    assert counted(first) == {*range(1, 150)} - {13, 31, 43, 45, 68, 109}
    assert counted(other) == set(), "they are about the first one"
    assert not strikes(first, f"Out of memory: Killed process 7 ({line.format(79)})")
    assert counted(offered("gke-nvidia", gpus)["nvidia0"]) == {48}


@pytest.mark.parametrize(
    ("example", "device", "hook", "command"),
    [
        ("qrng", "qrandom0", "allocate", ("/opt/qrng/bin/initialise", "/dev/qrandom0")),
        (
            *("intel-fpga", "0000:b3:00.0-port1", "preStart"),
            ("/opt/fpga/bin/reset-ports", "/dev/dfl-port.2"),
        ),
        # It gets its ports as variables.
        ("intel-fpga", "0000:21:00.0", "preStart", ("/opt/fpga/bin/reset-region",)),
    ],
)
def test_hooks_are_about_the_nodes_of_their_device(
    tmp_path: Path, example: str, device: str, hook: HookName, command: tuple[str, ...]
) -> None:
    assert argv_of(offered(example, Root(Host(example).build(tmp_path)))[device], hook) == command


async def test_a_serial_port_loses_what_its_last_container_has_set(tmp_path: Path) -> None:
    root = loading.build(loading.path_of("serial-adapters"), tmp_path)
    devices = offered("serial-reset", root)
    assert len(devices) == 4
    device = next(iter(devices.values()))
    words = argv_of(device, "preStart")
    assert device.nodes[0].host_path in words
    ours, port = pty.openpty()
    try:
        settings = termios.tcgetattr(port)
        settings[4] = settings[5] = termios.B115200
        termios.tcsetattr(port, termios.TCSANOW, settings)
        argv = [os.ttyname(port) if word == device.nodes[0].host_path else word for word in words]
        async with Commands() as commands:
            outcome = await commands.run(argv, {}, timeout_seconds=5)
        assert outcome.reason == ""
        after = termios.tcgetattr(port)
        assert after[4:6] == [termios.B9600, termios.B9600]
        assert not after[3] & (termios.ECHO | termios.ICANON)
    finally:
        os.close(ours)
        os.close(port)
