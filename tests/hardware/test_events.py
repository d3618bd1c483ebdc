"""Whatever comes in whatever order: the devices and ids are those of one look at everything."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genericdp.config.load import load
from genericdp.discovery import RECORD_SECONDS, Discoverer
from genericdp.errors import UnusableDeviceError
from genericdp.host.root import Root
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as pb
from genericdp.model import Hardware, Selector, UdevSelector, UsbSelector
from genericdp.service import Service
from tests.devices.making import healthy, resource, unhealthy
from tests.hardware.machine import Machine
from tests.host.test_damaged_trees import DAMAGES, PATHS, _damage

if TYPE_CHECKING:
    from genericdp.devices.assembling import Offers
    from genericdp.host.uevents import Uevent

HUB = "/devices/pci0000:00/0000:00:14.0/usb1/1-1"
PORTS = [f"{HUB}/1-1.{i}" for i in (1, 2, 3, 4)]
IDS = [f"1-1.{i}:1.0-tty" for i in (1, 2, 3, 4)]
CONFIGS = Path(__file__).parent / "configs"
PORT = Selector(
    candidates=UdevSelector(subsystem=("tty",)),
    hardware=Hardware(usb=UsbSelector(vendor=("*[!f]",))),
)
SERIAL = resource("serial", PORT)


def shown(offers: Offers) -> dict[str, dict[str, list[str]]]:
    """What is healthy: ids with nodes."""
    return {
        name: {
            device_id: [node.host_path for node in one.device.nodes]
            for device_id, one in offer.offered.items()
            if not one.unhealthy
        }
        for name, offer in offers.items()
    }


@pytest.mark.parametrize("name", ["serial-adapters", "webcam", "gpu", "nvme", "input"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=4)
def test_any_order_of_folders_gives_the_same_devices_and_ids(name: str, seed: int) -> None:
    """D1: three equal dongles stay three devices, in any order of discovery.

    Brought back by ``name = device.subsystem`` in ``hardware.place_name``.
    """
    wanted = load((CONFIGS / f"{name}.yaml",)).resources
    with TemporaryDirectory() as folder:
        machine = Machine(name, Path(folder))
        assert machine.offers(*wanted, seed=seed) == machine.offers(*wanted)


STEPS = st.lists(st.tuples(st.sampled_from([*PORTS, HUB]), st.booleans()), max_size=6)


@given(steps=STEPS, order=st.randoms(use_true_random=False))
@settings(max_examples=12)
def test_events_in_any_order_end_at_what_one_full_look_gives(
    steps: list[tuple[str, bool]], order: object
) -> None:
    """A pass between them may see anything, but nothing of it stays."""
    with TemporaryDirectory() as folder:
        asyncio.run(_play(Machine("serial-adapters", Path(folder)), steps, order))


async def _play(machine: Machine, steps: list[tuple[str, bool]], order: object) -> None:
    discoverer = Discoverer(machine.root, node_name="n", look_again=lambda: None)
    offers = (await discoverer.discover([SERIAL], {})).offers
    told: list[Uevent] = []
    for port, look in steps:
        there = (machine.folder / f"sys{port}").exists()
        if not there and not (machine.folder / f"sys{port}").parent.exists():
            continue
        told += machine.unplug(port) if there else machine.plug(port)
        if look:
            offers = (await discoverer.discover([SERIAL], offers, full=False)).offers
    order.shuffle(told)  # type: ignore[attr-defined]
    for event in told:
        discoverer.tell_of_event(event)
        if order.random() < 0.2:  # type: ignore[attr-defined]
            offers = (await discoverer.discover([SERIAL], offers, full=False)).offers
    offers = (await discoverer.discover([SERIAL], offers, full=False)).offers
    assert shown(offers) == shown(machine.offers(SERIAL))


async def test_another_stick_on_the_same_node_is_another_device(tmp_path: Path) -> None:
    """D5: a replug puts another stick on the same ``ttyUSB0``.

    Brought back by ``found.identity.device_number == identity.device_number`` in
    ``devicefiles.is_same``, or by an id from ``device.name`` in ``injecting._default_id``.
    """
    machine = Machine("serial-adapters", tmp_path)
    before = machine.offers(SERIAL)
    service = Service("example.com/serial", root=machine.root, look_again=lambda: None)
    service.set_offer(before["example.com/serial"])
    request = pb.AllocateRequest(
        container_requests=[pb.ContainerAllocateRequest(devices_ids=[IDS[0]])]
    ).SerializeToString()
    await service.allocate(request)

    machine.unplug(PORTS[0])
    machine.unplug(PORTS[1])
    # The twin comes up first and gets the node and number of the other one.
    changes = {"ttyUSB1": "ttyUSB0", "MINOR=1\n": "MINOR=0\n", "dev=188:1": "dev=188:0"}
    machine.plug(PORTS[1], changes)
    with pytest.raises(UnusableDeviceError, match=IDS[0]):
        await service.allocate(request)
    after = machine.offers(SERIAL)
    assert shown(after)["example.com/serial"][IDS[1]] == ["/dev/ttyUSB0"]
    assert IDS[0] not in healthy(after, "serial")


async def test_the_same_port_keeps_its_id_and_the_node_is_that_of_the_new_stick(
    tmp_path: Path,
) -> None:
    machine = Machine("serial-adapters", tmp_path)
    discoverer = Discoverer(machine.root, node_name="n", look_again=lambda: None)
    first = (await discoverer.discover([SERIAL], {})).offers
    for event in machine.unplug(PORTS[3]):
        discoverer.tell_of_event(event)
    gone = (await discoverer.discover([SERIAL], first, full=False)).offers
    assert unhealthy(gone, "serial") == {IDS[3]: "/dev/ttyUSB3 does not exist"}
    for event in machine.plug(PORTS[3], {"A: devnum=6": "A: devnum=17"}):
        discoverer.tell_of_event(event)
    back = (await discoverer.discover([SERIAL], gone, full=False)).offers
    assert healthy(back, "serial") == IDS
    old, new = (one["example.com/serial"].offered[IDS[3]].device for one in (first, back))
    assert (old.identity.plugged, new.identity.plugged) == ("usb 1:6", "usb 1:17")


class Counting(Root):
    """Writes down what is read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.read: list[str] = []

    def real(self, path: str) -> str:
        self.read.append(path)
        return super().real(path)


async def test_an_event_has_only_its_device_read_again(tmp_path: Path) -> None:
    machine = Machine("serial-adapters", tmp_path)
    root = Counting(machine.folder)
    discoverer = Discoverer(root, node_name="n", look_again=lambda: None)
    first = (await discoverer.discover([SERIAL], {})).offers
    root.read.clear()
    discoverer.tell_of_event(machine.event("change", PORTS[2]))
    await discoverer.discover([SERIAL], first, full=False)
    # Type and number of nodes, which a copied tree lacks, are looked up anew in each pass.
    asked = ("/idVendor", "/numa_node", "/run/udev/data/")
    read = {path for path in root.read if any(part in path for part in asked)}
    assert read == {f"/sys{PORTS[2]}/idVendor", "/run/udev/data/c189:4"} | {
        path for path in read if path == f"/sys{PORTS[2]}/numa_node"
    }


@pytest.mark.parametrize(
    ("nodes", "sent"),
    [
        pytest.param(("-1", "-1"), [], id="minus-one"),
        pytest.param(("-1", "0"), [], id="all-or-none"),
        pytest.param(("1", "0"), [1, 0], id="all"),
        pytest.param(("7", "7"), [], id="offline"),
    ],
)
async def test_numa_nodes_are_sent_of_all_devices_or_of_none(
    tmp_path: Path, nodes: tuple[str, str], sent: list[int]
) -> None:
    """D10: NUMA node -1 is sent, and pods are refused under topology policies.

    Brought back by ``int(node)`` without ``isdecimal`` in ``hardware.numa_node_of``; a list that
    is half with nodes by ``carried = True`` in ``Service.set_offer``.
    """
    machine = Machine("serial-adapters", tmp_path)
    (machine.folder / "sys/devices/system/node").mkdir(parents=True, exist_ok=True)
    (machine.folder / "sys/devices/system/node/online").write_text("0-1\n")
    for port, node in zip(PORTS[:2], nodes, strict=True):
        (machine.folder / f"sys{port}/numa_node").write_text(f"{node}\n")
    two = resource("serial", PORT, exclude=["/dev/ttyUSB[23]"])
    service = Service("example.com/serial", root=machine.root, look_again=lambda: None)
    service.set_offer(machine.offers(two)["example.com/serial"])
    listed = pb.ListAndWatchResponse.FromString(await anext(service.lists()))
    assert [one.ID for one in listed.devices] == IDS[:2]
    assert [node.ID for one in listed.devices for node in one.topology.nodes] == sent


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


RECORDED = resource(
    "recorded", Selector(candidates=UdevSelector(subsystem=("tty",), properties={"ID_BUS": ("*",)}))
)


@pytest.mark.parametrize("ends", ["with-its-record", "without"])
async def test_where_udev_runs_a_new_device_waits_for_its_record(tmp_path: Path, ends: str) -> None:
    machine, clock = Machine("serial-adapters", tmp_path), Clock()
    (machine.folder / "run/udev/control").touch()
    machine.unplug(PORTS[0])
    given = resource("serial", "/dev/ttyUSB*", id="$(property.ID_PATH:-unknown)")
    discoverer = Discoverer(machine.root, node_name="n", look_again=lambda: None, now=clock)
    offers = (await discoverer.discover([given], {})).offers
    assert len(healthy(offers, "serial")) == 3
    for event in machine.plug(PORTS[0], recorded=False):
        discoverer.tell_of_event(event)
    found = await discoverer.discover([given], offers, full=False)
    assert len(healthy(found.offers, "serial")) == 3, "not under an id that it would lose"
    assert found.due == RECORD_SECONDS
    if ends == "with-its-record":
        for name in machine.record(PORTS[0]):
            discoverer.tell_of_record(name)
        expected = "pci-0000:00:14.0-usb-0:1.1:1.0"
    else:
        clock.time = RECORD_SECONDS
        expected = "unknown"
    found = await discoverer.discover([given], found.offers, full=False)
    assert expected in healthy(found.offers, "serial")


async def test_who_asks_for_no_properties_does_not_wait_nor_does_anybody_without_udev(
    tmp_path: Path,
) -> None:
    machine = Machine("serial-adapters", tmp_path)
    for control in (True, False):
        wanted = SERIAL if control else RECORDED
        if control:
            (machine.folder / "run/udev/control").touch()
        else:
            (machine.folder / "run/udev/control").unlink()
        machine.unplug(PORTS[0])
        discoverer = Discoverer(machine.root, node_name="n", look_again=lambda: None)
        offers = (await discoverer.discover([wanted], {})).offers
        for event in machine.plug(PORTS[0], recorded=not control):
            discoverer.tell_of_event(event)
        offers = (await discoverer.discover([wanted], offers, full=False)).offers
        assert healthy(offers, wanted.name.rpartition("/")[2]) == IDS
        machine.record(PORTS[0])


@pytest.mark.parametrize("damage", sorted(set(DAMAGES) - {"a pipe"}))
@given(data=st.data())
@settings(max_examples=8)
def test_whatever_is_damaged_a_look_at_a_copy_ends(damage: str, data: st.DataObject) -> None:
    """What answers late or never is another matter (see below)."""
    wanted = load((CONFIGS / "can.yaml",)).resources
    with TemporaryDirectory() as folder:
        machine = Machine("can", Path(folder))
        for path in data.draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=4)):
            with suppress(RuntimeError, OSError):  # it lies below what is damaged already
                _damage(machine.folder, path, damage)
        offers = machine.offers(*wanted, RECORDED, SERIAL)
    assert offers.keys() == {one.name for one in (*wanted, RECORDED, SERIAL)}


async def test_lost_events_have_everything_read_again(tmp_path: Path) -> None:
    machine, again = Machine("serial-adapters", tmp_path), asyncio.Event()
    discoverer = Discoverer(machine.root, node_name="n", look_again=again.set)
    offers = (await discoverer.discover([SERIAL], {})).offers
    machine.unplug(PORTS[1])
    (machine.folder / f"sys{PORTS[0]}/idVendor").write_text("ffff\n")
    for tell in (discoverer.tell_of_event, discoverer.tell_of_record):
        again.clear()
        tell(None)
        assert again.is_set()
        offers = (await discoverer.discover([SERIAL], offers, full=False)).offers
        assert healthy(offers, "serial") == IDS[2:]


async def test_an_attribute_that_does_not_answer_concerns_its_device_alone(tmp_path: Path) -> None:
    machine, again = Machine("serial-adapters", tmp_path), asyncio.Event()
    serial = machine.folder / f"sys{PORTS[2]}/serial"
    named = resource("serial", PORT, id="$(usb.port)-$(usb.serial:-none)")
    discoverer = Discoverer(machine.root, node_name="n", look_again=again.set, look_seconds=0.1)
    first = (await discoverer.discover([named], {})).offers
    name = "1-1.3-DN05FSZ9"
    assert name in healthy(first, "serial")
    serial.unlink()
    os.mkfifo(serial)
    async with asyncio.timeout(20):
        second = (await discoverer.discover([named], first)).offers
    assert name not in healthy(second, "serial")
    assert len(healthy(second, "serial")) == 3 + ("1-1.3-none" in healthy(second, "serial"))
    descriptor = os.open(serial, os.O_WRONLY)
    os.write(descriptor, b"DN05FSZ9\n")
    os.close(descriptor)
    serial.unlink()
    serial.write_text("DN05FSZ9\n")
    async with asyncio.timeout(20):
        await again.wait()
    third = (await discoverer.discover([named], second, full=False)).offers
    assert name in healthy(third, "serial"), "it is asked again when it has answered"
