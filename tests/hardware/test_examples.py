"""Examples with probes and hooks: what they do for devices as machines have them."""

from __future__ import annotations

import os
import pty
import termios
from typing import TYPE_CHECKING

import pytest
from genericdp.config.load import load
from genericdp.devices.decide import decide
from genericdp.devices.preferred import preferred_ids
from genericdp.health.kinds.exec import ExecCheck
from genericdp.health.kinds.kernellog import KernelLogCheck
from genericdp.host.cache import HostCache
from genericdp.host.kmsg import parse
from genericdp.host.root import Root
from genericdp.model import Command, Preference
from genericdp.process.run import Commands

from tests.cases.machine import Machine
from tests.cases.node import EXAMPLES
from tests.cases.running import DIRECTORY
from tests.health.probed_devices import struck
from tests.host.kernel_log import recorded
from tests.hosts.hosts import Host
from tests.testbeds import loading

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.devices.device import Device
    from genericdp.model import HookName

GPUS = ("0000:3b:00.0", "0000:af:00.0")
UUIDS = ("GPU-0", "GPU-1")


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
def gpu_host(tmp_path: Path) -> Root:
    return Machine(tmp_path, DIRECTORY / "machines/two-gpus.yaml").root


@pytest.fixture
def gpus(gpu_host: Root) -> dict[str, Device]:
    """Return the offered devices of them, by UUID."""
    return offered("nvidia-gpu", gpu_host)


def test_a_card_is_struck_by_its_own_errors_and_by_no_others(gpus: dict[str, Device]) -> None:
    assert [entry.nodes[0].host_path for entry in gpus.values()] == ["/dev/nvidia0", "/dev/nvidia1"]
    records = [entry for data in recorded("nvidia-xid.kmsg") if (entry := parse(data)) is not None]

    def codes(device: Device) -> list[str]:
        (bound,) = device.probes
        check = bound.check
        assert isinstance(check, KernelLogCheck)
        lines = [
            record.text for record in records if record.by_kernel and struck(check, record.text)
        ]
        return [line.partition("): ")[2].partition(",")[0] for line in lines]

    # The first has errors of programs only; one that user space wrote does not count either.
    assert [codes(gpus[uuid]) for uuid in UUIDS] == [[], ["48"]]


def test_a_process_cannot_strike_a_card_by_its_name(gpus: dict[str, Device]) -> None:
    bound = gpus[UUIDS[0]].probes[0]
    assert isinstance(bound.check, KernelLogCheck)
    error = f"NVRM: Xid (PCI:{GPUS[0][:-2]}): 79, pid=1, name=x, GPU has fallen off the bus."
    assert struck(bound.check, error)
    assert not struck(bound.check, f"Out of memory: Killed process 7 ({error})")


def test_the_errors_that_count_are_those_of_each_peer(
    gpu_host: Root, gpus: dict[str, Device]
) -> None:
    """NVIDIA's plugin counts all but those of programs, GKE's the uncorrectable one of memory."""

    def counted(device: Device) -> set[int]:
        check = device.probes[0].check
        assert isinstance(check, KernelLogCheck)
        line = f"NVRM: Xid (PCI:{GPUS[0][:-2]}): {{}}, pid=1, name=x"
        return {code for code in range(1, 150) if struck(check, line.format(code))}

    assert counted(gpus[UUIDS[0]]) == {*range(1, 150)} - {13, 31, 43, 45, 68, 109}
    assert counted(offered("gke-nvidia", gpu_host)["nvidia0"]) == {48}


@pytest.mark.parametrize(
    ("free", "size", "hives"),
    [
        ("1 2 3 4 5 6 7 8", 3, {"1 2 3 4": 3}),
        ("1 2 3 4 5 6 7 8", 5, {"1 2 3 4": 4, "5 6 7 8": 1}),
        ("3 4 5 6 7 8", 3, {"5 6 7 8": 3}),
        ("3 4 5 6 7 8", 2, {"3 4": 2}),
    ],
)
def test_amd_cards_of_one_hive_are_preferred_as_the_peer_tests_it(
    tmp_path: Path, free: str, size: int, hives: dict[str, int]
) -> None:
    """The peer's own cases on its dump of eight MI210, in KFD's order; the last one is ours."""
    buses = dict(zip("12345678", ("63", "43", "03", "26", "e3", "c3", "83", "a3"), strict=True))
    devices = offered("amd-gpu", Root(Host("amd-gpu").build(tmp_path)))
    spots = {name: device.spot for name, device in devices.items()}

    def ids(cards: str) -> set[str]:
        return {f"0000:{buses[card]}:00.0" for card in cards.split()}

    given = set(preferred_ids(sorted(ids(free)), (), size, spots, Preference.AUTO))
    assert len(given) == size
    assert {cards: len(given & ids(cards)) for cards in hives} == hives


def test_a_random_number_generator_is_tested_and_initialised_by_its_node(tmp_path: Path) -> None:
    device = offered("qrng", Root(Host("qrng").build(tmp_path)))["qrandom0"]
    (bound,) = device.probes
    selftest = Command(
        argv=("/opt/qrng/bin/selftest", "/dev/qrandom0"), env={"SAMPLE_BYTES": "4096"}
    )
    assert bound.check == ExecCheck(command=selftest)
    assert argv_of(device, "allocate") == ("/opt/qrng/bin/initialise", "/dev/qrandom0")
    assert device.hooks["allocate"].timeout_seconds == 4


@pytest.mark.parametrize(
    ("device", "command"),
    [
        ("0000:b3:00.0-port1", ("/opt/fpga/bin/reset-ports", "/dev/dfl-port.2")),
        ("0000:21:00.0", ("/opt/fpga/bin/reset-region",)),  # it gets its ports as variables
    ],
)
def test_a_port_or_region_of_an_fpga_is_reset_before_each_container(
    tmp_path: Path, device: str, command: tuple[str, ...]
) -> None:
    found = offered("intel-fpga", Root(Host("intel-fpga").build(tmp_path)))
    assert argv_of(found[device], "preStart") == command


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
