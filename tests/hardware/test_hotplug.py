"""Each machine of the testbeds under umockdev: what the kernel plugs and unplugs gets to a kubelet.

The daemon's supervisor runs with its own monitor and reader; it reads everything only once.
"""

from __future__ import annotations

import re
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from genericdp.config.load import load

from tests.cases.node import EXAMPLES
from tests.devices.making import healthy
from tests.hardware.adapters import CASES, HUB, IDS, PORTS, built, offers
from tests.testbeds import loading
from tests.testbeds.plugging import MadeUp, blocks_of, made_up, why_none

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from genericdp.devices.decide import DeviceLists

pytestmark = pytest.mark.slow

FTDI, CH340 = "example.com/ftdi", "example.com/ch340"
USB = "/devices/pci0000:00/0000:00:14.0/usb1"
HARDWARE = {
    "serial-adapters": [HUB],
    "webcam": [f"{USB}/1-8"],
    "gpu": [f"/devices/pci0000:00/0000:00:03.1/0000:0a:00.{i}" for i in (0, 1)],
    "nvme": ["/devices/pci0000:00/0000:00:1d.0/0000:01:00.0"],
    "infiniband": ["/devices/pci0000:5d/0000:5d:00.0/0000:5e:00.0"],
    "vfio": ["/devices/pci0000:3a/0000:3a:00.0/0000:3b:01.0", "/devices/virtual/vfio/12"],
    "dfl": ["/devices/pci0000:b0/0000:b0:00.0/0000:b1:00.0"],
    "input": [f"{USB}/1-2"],
    "can": [f"{USB}/1-3", "/devices/virtual/net/vcan0"],
}
"""Machines, and what is unplugged and plugged in again."""


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    if reason := why_none():
        pytest.skip(reason)


def ids(lists: DeviceLists) -> dict[str, set[str]]:
    """The healthy ids of each resource."""
    return {name: set(healthy(lists, name.rpartition("/")[2])) for name in lists}


@pytest.mark.parametrize("name", HARDWARE)
def test_hardware_that_is_unplugged_and_plugged_in_again_is_listed_so(
    name: str, tmp_path: Path
) -> None:
    """D3: as one read everything would see it. Without ``Uevents`` nothing is reported."""
    config = CASES / name / "config.yaml"
    wanted = load((config,)).resources
    machine = built(name, tmp_path / "copy")
    with_it = ids(offers(machine, *wanted))
    for path in HARDWARE[name]:
        machine.pull_out(path.rpartition("/")[2])
    without_it = ids(offers(machine, *wanted))
    assert without_it != with_it
    with made_up(name, config, tmp_path) as machine_of_umockdev:
        machine_of_umockdev.until(lambda: machine_of_umockdev.healthy() == with_it)
        for _ in range(2):
            blocks: dict[str, str] = {}
            for directory in HARDWARE[name]:
                blocks |= machine_of_umockdev.unplug(directory)
            machine_of_umockdev.until(lambda: machine_of_umockdev.healthy() == without_it)
            gone = {
                (resource, device_id)
                for resource, before in with_it.items()
                for device_id in before - without_it[resource]
            }
            for resource, device_id in gone:
                assert "refused" in machine_of_umockdev.ask(resource, device_id)
            machine_of_umockdev.plug(blocks)
            machine_of_umockdev.until(lambda: machine_of_umockdev.healthy() == with_it)
            for resource, device_id in gone:
                assert "given" in machine_of_umockdev.ask(resource, device_id)


def test_every_machine_is_in_the_table() -> None:
    assert {case.name for case in CASES.iterdir()} == {*loading.NAMES}
    assert {*loading.NAMES} == {*HARDWARE, "serial-adapters-replugged"}


@pytest.fixture
def adapters(tmp_path: Path) -> Iterator[MadeUp]:
    """Three FTDI adapters, of which two share a serial number, and a CH340 without one."""
    with made_up("serial-adapters", CASES / "serial-adapters/config.yaml", tmp_path) as machine:
        machine.until(lambda: machine.healthy()[FTDI] == set(IDS[:3]))
        machine.until(lambda: machine.healthy()[CH340] == {IDS[3]})
        yield machine


def test_a_hub_that_comes_up_in_another_order_has_the_same_ids(adapters: MadeUp) -> None:
    """D1, D5. Ids by ``device.name`` would be those of other adapters now."""
    assert adapters.ask(FTDI, IDS[0]) == {"given": ["/dev/ttyUSB0"]}
    adapters.unplug(HUB)
    adapters.until(lambda: not any(adapters.healthy().values()))
    replugged = blocks_of("serial-adapters-replugged")
    adapters.plug({path: block for path, block in replugged.items() if path.startswith(HUB)})
    adapters.until(lambda: adapters.healthy()[FTDI] == set(IDS[:3]))
    adapters.until(lambda: adapters.healthy()[CH340] == {IDS[3]})
    nodes = [adapters.ask(FTDI, device_id)["given"] for device_id in IDS[:3]]
    assert nodes == [["/dev/ttyUSB3"], ["/dev/ttyUSB2"], ["/dev/ttyUSB1"]]
    assert adapters.ask(CH340, IDS[3]) == {"given": ["/dev/ttyUSB0"]}


def test_another_stick_on_the_same_node_is_another_device(adapters: MadeUp) -> None:
    """D5: node and number of the one that was allocated are now those of its twin."""
    adapters.unplug(PORTS[0])
    twin = adapters.unplug(PORTS[1])
    changes = {"ttyUSB1": "ttyUSB0", "MINOR=1\n": "MINOR=0\n", "dev=188:1": "dev=188:0"}
    for old, new in changes.items():
        twin = {path.replace(old, new): text.replace(old, new) for path, text in twin.items()}
    adapters.plug(twin)
    # At once, whatever list the kubelet has by now.
    assert IDS[0] in adapters.ask(FTDI, IDS[0])["refused"]
    adapters.until(lambda: adapters.healthy()[FTDI] == set(IDS[1:3]))
    # The list is the same before the daemon has seen the second stick move.
    adapters.until_given(FTDI, IDS[1], ["/dev/ttyUSB0"])
    assert IDS[0] in adapters.ask(FTDI, IDS[0])["refused"]


def test_a_webcam_has_both_its_nodes_again(tmp_path: Path) -> None:
    with made_up("webcam", CASES / "webcam/config.yaml", tmp_path) as machine:
        nodes = {
            ("example.com/camera", "1-8:1.0-video4linux"): [
                *("/dev/video0", "/dev/snd/pcmC1D0c", "/dev/media0")
            ],
            ("example.com/metadata", "1-8:1.0-video4linux-index1"): ["/dev/video1"],
        }

        def listed() -> bool:
            return all(node in machine.healthy()[resource] for resource, node in nodes)

        machine.until(listed)
        camera = machine.unplug(f"{USB}/1-8")
        machine.until(lambda: not any(machine.healthy().values()))
        machine.plug(camera)
        machine.until(listed)
        # The camera is listed before its microphone comes, which is optional.
        for (resource, device_id), given in nodes.items():
            machine.until_given(resource, device_id, given)


def _seven() -> dict[str, str]:
    """A hub with seven adapters, each made of the third one's text."""
    blocks = blocks_of("serial-adapters")
    hub = {path: text for path, text in blocks.items() if path in {HUB, f"{HUB}/1-1:1.0"}}
    model = [text for path, text in blocks.items() if f"{path}/".startswith(f"{PORTS[2]}/")]
    for port in range(1, 8):
        numbers = {
            "1-1.3": f"1-1.{port}",
            "usb-0:1.3": f"usb-0:1.{port}",
            "ttyUSB2": f"ttyUSB{port - 1}",
            "dev=188:2": f"dev=188:{port - 1}",
            "MINOR=2\n": f"MINOR={port - 1}\n",
            "001/005": f"001/{port + 10:03}",
            "DNUM=005": f"DNUM={port + 10:03}",
            "devnum=5": f"devnum={port + 10}",
            "dev=189:4": f"dev=189:{port + 9}",
            "MINOR=4\n": f"MINOR={port + 9}\n",
            "DN05FSZ9": f"DN05FSZ{port}",
        }
        for text in model:
            new = re.sub("|".join(map(re.escape, numbers)), lambda old: numbers[old[0]], text)  # noqa: B023
            hub[f"/{new.partition('P: /')[2].partition(chr(10))[0]}"] = new
    return hub


def test_a_burst_of_seven_is_told_in_few_lists_each_of_which_is_true(adapters: MadeUp) -> None:
    """LAW-7. Without ``_pause`` there would be a list for each adapter, at least."""
    adapters.unplug(HUB)
    adapters.until(lambda: not any(adapters.healthy().values()))
    lists, begun = adapters.lists, time.monotonic()
    wanted = {f"1-1.{port}:1.0-tty" for port in range(1, 8)}
    adapters.plug(_seven())
    adapters.until(lambda: adapters.healthy()[FTDI] == wanted)
    took = time.monotonic() - begun
    # Of two resources: the ports, and the sticks by their serial numbers.
    assert adapters.lists - lists <= 2 * (2 + took / 0.1)
    ports = [
        {entry for entry, health in seen[FTDI].items() if health == "Healthy"}
        for seen in adapters.seen
        if seen[FTDI]
    ]
    came = ports[next(i for i, seen in enumerate(ports) if not seen) :]
    assert all(before <= after for before, after in pairwise(came))
    for item in wanted:
        assert adapters.ask(FTDI, item)["given"] == [f"/dev/ttyUSB{int(item[4]) - 1}"]


CORAL, ZIGBEE = (f"../hosts/{name}/machine" for name in ("coral-tpu", "zigbee"))
STICK = "/devices/pci0000:00/0000:00:14.0/usb2/2-1"
COLD, LOADED = "example.com/coral-usb-cold", "example.com/coral-usb"
CONBEE = (
    "/devices/platform/scb/fd500000.pcie/pci0000:00/0000:00:00.0/0000:01:00.0/usb1/1-1/1-1.3",
    "1-1.3:1.0-tty",
    "/dev/serial/by-id/usb-dresden_elektronik_ingenieurtechnik_GmbH_ConBee_II_DE2230427-if00",
)


def test_a_stick_goes_from_one_resource_to_the_other_as_its_firmware_is_loaded(
    tmp_path: Path,
) -> None:
    """D5: 1a6e:089a leaves the bus, 18d1:9302 comes to the same port with another node."""
    with made_up(CORAL, EXAMPLES / "coral-tpu.yaml", tmp_path) as machine:
        machine.until(lambda: machine.healthy().get(COLD) == {"cold-2-1"})
        machine.until(lambda: machine.healthy().get(LOADED) == {"2-2"})
        machine.unplug(STICK)
        # Gone, not Unhealthy: no one waits for it to come back as it was.
        machine.until(lambda: not machine.devices[COLD])
        loaded = blocks_of(f"{CORAL}-loaded")
        machine.plug({path: block for path, block in loaded.items() if path.startswith(STICK)})
        machine.until(lambda: machine.healthy()[LOADED] == {"2-1", "2-2"})
        assert machine.ask(LOADED, "2-1") == {"given": ["/dev/bus/usb/002/011"]}
        assert not machine.devices[COLD]


def test_a_zigbee_stick_that_comes_back_under_another_name_is_the_same(tmp_path: Path) -> None:
    """D1, D5: ttyACM0 is ttyACM1 the next morning. A container's path and the link stay."""
    where, device_id, link = CONBEE
    with made_up(ZIGBEE, EXAMPLES / "zigbee.yaml", tmp_path) as machine:
        machine.until(lambda: device_id in machine.healthy().get("example.com/zigbee", ()))
        assert machine.ask("example.com/zigbee", device_id) == {"given": [link]}
        stick = machine.unplug(where)
        machine.until(lambda: device_id not in machine.healthy()["example.com/zigbee"])
        assert device_id in machine.devices["example.com/zigbee"]
        changes = {"ttyACM0": "ttyACM1", "MINOR=0\n": "MINOR=1\n", "dev=166:0": "dev=166:1"}
        for old, new in changes.items():
            stick = {path.replace(old, new): text.replace(old, new) for path, text in stick.items()}
        machine.plug(stick)
        machine.until(lambda: device_id in machine.healthy()["example.com/zigbee"])
        machine.until_given("example.com/zigbee", device_id, [link])
