"""A device is the hardware at its place, whatever the kernel calls it; and where that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.errors import UnusableDeviceError
from genericdp.kubelet.servicer import Servicer
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as pb
from tests.devices.making import healthy, resource, unhealthy
from tests.hardware.adapters import IDS, PORT, PORTS, SERIAL
from tests.hardware.machine import Machine
from tests.health.made import no_hooks
from tests.looking import Discoverer

if TYPE_CHECKING:
    from pathlib import Path


async def test_another_stick_on_the_same_node_is_another_device(tmp_path: Path) -> None:
    """D5: a replug puts another stick on the same ``ttyUSB0``."""
    machine = Machine("serial-adapters", tmp_path)
    before = machine.offers(SERIAL)
    service = Servicer(
        "example.com/serial", root=machine.root, look_again=lambda: None, run_hooks=no_hooks()
    )
    service.set_devices(before["example.com/serial"])
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
    twin = after["example.com/serial"].devices[IDS[1]]
    assert [node.host_path for node in twin.device.nodes] == ["/dev/ttyUSB0"]
    assert IDS[0] not in healthy(after, "serial")


async def test_the_same_port_keeps_its_id_and_the_node_is_that_of_the_new_stick(
    tmp_path: Path,
) -> None:
    machine = Machine("serial-adapters", tmp_path)
    discoverer = Discoverer(machine.root, look_again=lambda: None)
    first = (await discoverer.discover([SERIAL], {})).lists
    for event in machine.unplug(PORTS[3]):
        discoverer.mark_event(event)
    gone = (await discoverer.discover([SERIAL], first, full=False)).lists
    assert unhealthy(gone, "serial") == {IDS[3]: "/dev/ttyUSB3 does not exist"}
    for event in machine.plug(PORTS[3], {"A: devnum=6": "A: devnum=17"}):
        discoverer.mark_event(event)
    back = (await discoverer.discover([SERIAL], gone, full=False)).lists
    assert healthy(back, "serial") == IDS
    old, new = (one["example.com/serial"].devices[IDS[3]].device for one in (first, back))
    assert (old.identity.plugged, new.identity.plugged) == ("usb 1:6", "usb 1:17")


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
    """D10: NUMA node -1 is sent, and pods are refused under topology policies."""
    machine = Machine("serial-adapters", tmp_path)
    (machine.folder / "sys/devices/system/node").mkdir(parents=True, exist_ok=True)
    (machine.folder / "sys/devices/system/node/online").write_text("0-1\n")
    for port, node in zip(PORTS[:2], nodes, strict=True):
        (machine.folder / f"sys{port}/numa_node").write_text(f"{node}\n")
    two = resource("serial", PORT, exclude=["/dev/ttyUSB[23]"])
    service = Servicer(
        "example.com/serial", root=machine.root, look_again=lambda: None, run_hooks=no_hooks()
    )
    service.set_devices(machine.offers(two)["example.com/serial"])
    listed = pb.ListAndWatchResponse.FromString(await anext(service.device_lists()))
    assert [one.ID for one in listed.devices] == IDS[:2]
    assert [node.ID for one in listed.devices for node in one.topology.nodes] == sent
