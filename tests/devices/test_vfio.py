"""What VFIO gives away: all functions of an IOMMU group, or none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from genericdp.config.load import load
from genericdp.devices.allocation import edits
from genericdp.devices.decide import decide
from genericdp.devices.topology import functions_of, group_number
from genericdp.host.cache import HostCache
from genericdp.host.events import Uevent
from tests.decisions import Discoverer
from tests.devices.known import Known
from tests.fixtures.make_tree import Tree

if TYPE_CHECKING:
    from genericdp.devices.devicelist import DeviceList
    from genericdp.model import Resource

EXAMPLE = Path(__file__).parents[2] / "examples/configs/vfio.yaml"
NAME = "example.com/vfio"
HEAD = f"""\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: {NAME}
"""
BY_NODE = {
    "path": "    match: [{path: /dev/vfio/*}]\n    exclude: [{path: /dev/vfio/vfio}]\n",
    "link": "    match: [{path: /dev/passthrough/*}]\n",
    "udev": "    match: [{udev: {subsystem: vfio}}]\n",
    "pci": (
        '    match: [{pci: {class: "0300*"}}]\n'
        "    inject: {devices: [{path: /dev/vfio/$(pci.iommuGroup)}, {path: /dev/vfio/vfio}]}\n"
    ),
}
ROOT = "devices/pci0000:00"
CARD = f"{ROOT}/0000:00:01.0/0000:01:00"


class Machine:
    """Two graphics cards with sound, each pair of functions with its root port in a group."""

    def __init__(self, folder: Path) -> None:
        self.tree = Tree(folder)
        self.tree.node("vfio/vfio", "10:196")
        for i in (1, 2):
            port = f"{ROOT}/0000:00:0{i}.0"
            self.function(port, f"1{i}", "060400", "pcieport")
            self.function(f"{port}/0000:0{i}:00.0", f"1{i}", "030000", "vfio-pci")
            self.function(f"{port}/0000:0{i}:00.1", f"1{i}", "040300", "vfio-pci")
            at = "virtual/vfio"
            self.tree.node(f"vfio/1{i}", f"511:{i}", at=at)
            self.tree.link(f"sys/devices/{at}/1{i}/subsystem", "../../../../class/vfio")
            self.tree.link(f"sys/class/vfio/1{i}", f"../../devices/{at}/1{i}")
            self.tree.link(f"dev/passthrough/card{i}", f"../vfio/1{i}")

    def function(self, path: str, group: str, kind: str, driver: str) -> None:
        """Add a PCI function to a group."""
        name = path.rpartition("/")[2]
        up = "../" * (path.count("/") + 1)
        self.tree.write(f"sys/{path}/uevent", f"PCI_SLOT_NAME={name}\n")
        self.tree.write(f"sys/{path}/class", f"0x{kind}\n")
        self.tree.link(f"sys/{path}/subsystem", f"{up}bus/pci")
        self.tree.link(f"sys/{path}/iommu_group", f"{up}kernel/iommu_groups/{group}")
        self.tree.link(f"sys/bus/pci/devices/{name}", f"../../../{path}")
        group_folder = f"sys/kernel/iommu_groups/{group}/devices"
        self.tree.link(f"{group_folder}/{name}", f"../../../../{path}")
        self.bind(path, driver)

    def bind(self, path: str, driver: str) -> None:
        """Bind a function to another driver, or to none."""
        link = f"sys/{path}/driver"
        self.tree.link(link, f"{'../' * (path.count('/') + 1)}bus/pci/drivers/{driver}")
        if not driver:
            self.tree.remove(link)

    def offer(self, *resources: Resource) -> DeviceList:
        root = self.tree.root
        found = decide(
            resources,
            HostCache(root),
            node_name="n",
            previous={},
            now=0.0,
        )
        return found.lists[NAME]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


def config(tmp_path: Path, how: str) -> Resource:
    file = tmp_path / "config.yaml"
    file.write_text(HEAD + BY_NODE[how])
    loaded = load([file])
    assert loaded.problems == ()
    return loaded.resources[0]


@pytest.mark.parametrize("how", BY_NODE)
@pytest.mark.parametrize(
    ("driver", "told"),
    [("snd_hda_intel", "the driver snd_hda_intel"), ("", "no driver")],
)
def test_a_group_is_offered_only_if_all_its_functions_are_bound(
    how: str, driver: str, told: str, machine: Machine, tmp_path: Path
) -> None:
    """However its node came in. The root port in the group keeps its driver, as it has to."""
    one = config(tmp_path, how)
    assert len(machine.offer(one).devices) == 2
    machine.bind(f"{CARD}.1", driver)
    offer = machine.offer(one)
    assert len(offer.devices) == 1
    refused = {one.text for one in offer.not_offered if one.device.path != "/dev/vfio/vfio"}
    assert refused == {f"0000:01:00.1 of IOMMU group 11 has {told}, all of the group need vfio-pci"}


def test_what_is_not_bound_is_told_where_there_is_no_node_for_that_reason(
    machine: Machine, tmp_path: Path
) -> None:
    """A card on its own driver has no node of VFIO yet."""
    machine.bind(f"{CARD}.0", "nvidia")
    machine.tree.remove("dev/vfio/11")
    offer = machine.offer(config(tmp_path, "pci"))
    assert len(offer.devices) == 1
    reasons = {one.text for one in offer.not_offered}
    assert any("0000:01:00.0 of IOMMU group 11 has the driver nvidia" in one for one in reasons)


def test_any_driver_of_vfio_will_do(machine: Machine, tmp_path: Path) -> None:
    machine.bind(f"{CARD}.0", "vfio_pci_custom")
    assert len(machine.offer(config(tmp_path, "path")).devices) == 2


def test_the_control_node_is_given_once(machine: Machine, tmp_path: Path) -> None:
    devices = [one.device for one in machine.offer(config(tmp_path, "pci")).devices.values()]
    given = [node.host_path for node in edits(devices).devices]
    assert sorted(given) == ["/dev/vfio/11", "/dev/vfio/12", "/dev/vfio/vfio"]


async def test_a_function_that_is_bound_later_brings_its_group(
    machine: Machine, tmp_path: Path
) -> None:
    """What is remembered of a group is looked at again with the news of any of its functions."""
    one = config(tmp_path, "pci")
    machine.bind(f"{CARD}.1", "snd_hda_intel")
    discoverer = Discoverer(machine.tree.root, look_again=lambda: None)
    first = (await discoverer.discover((one,), {})).lists
    assert len(first[NAME].devices) == 1
    machine.bind(f"{CARD}.1", "vfio-pci")
    discoverer.mark_event(Uevent(action="bind", syspath=f"/sys/{CARD}.1"))
    assert len((await discoverer.discover((one,), first)).lists[NAME].devices) == 2


@pytest.mark.parametrize(
    ("name", "number"),
    [("12", "12"), ("noiommu-0", "0"), ("vfio", None), ("vfio12", None), ("", None), ("1x", None)],
)
def test_nodes_are_called_by_their_groups(name: str, number: str | None) -> None:
    assert group_number(name) == number


def test_a_group_that_is_not_there_has_no_functions() -> None:
    assert functions_of("7", Known()) == ()


def test_the_example_makes_one_device_of_each_group(machine: Machine) -> None:
    offer = machine.offer(*load([EXAMPLE]).resources)
    assert list(offer.devices) == ["0000:01:00", "0000:02:00"]
    both = edits([one.device for one in offer.devices.values()])
    assert [node.host_path for node in both.devices] == [
        "/dev/vfio/11",
        "/dev/vfio/vfio",
        "/dev/vfio/12",
    ]
    addresses = ("0000:01:00.0", "0000:01:00.1", "0000:02:00.0", "0000:02:00.1")
    assert both.env == {"VFIO_FUNCTIONS": ",".join(addresses)}
    machine.bind(f"{CARD}.1", "snd_hda_intel")
    assert list(machine.offer(*load([EXAMPLE]).resources).devices) == ["0000:02:00"]
