"""The distance between two devices, and where a device of several pieces of hardware is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from genericdp.devices.hardware import numa_node_of
from genericdp.devices.topology import (
    NOWHERE,
    Distance,
    Spot,
    bus_path,
    closeness,
    distance,
    hardware_below,
    spot_of,
)
from genericdp.host.cache import HostCache
from genericdp.host.root import Root
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.servicer import encode_list
from genericdp.model import TopologyMode
from hypothesis import given
from hypothesis import strategies as st

from tests.devices.known import Known
from tests.devices.making import decide, node, resource
from tests.fixtures.topologies import TOPOLOGIES

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.template import Lookup

D = Distance
ROOT = "/sys/devices/pci0000:00"
SWITCH = f"{ROOT}/0000:00:01.0/0000:01:00.0"
SECOND = f"{SWITCH}/0000:02:08.0/0000:06:00.0"
USB = f"{ROOT}/0000:00:14.0/usb1"
VMD = f"{ROOT}/0000:00:05.5/pci10000:00"
SOC = "/sys/devices/platform/soc/fd500000.usb"


@pytest.mark.parametrize(
    ("syspath", "expected"),
    [
        pytest.param(
            f"{SWITCH}/0000:02:00.0/0000:03:00.0/drm/renderD128",
            (ROOT, "0000:00:01.0", "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"),
            id="what-sits-on-a-function",
        ),
        pytest.param(
            f"{USB}/1-1/1-1.4/1-1.4:1.0/ttyUSB0/tty/ttyUSB0",
            (ROOT, "0000:00:14.0", "usb1", "1-1", "1-1.4"),
            id="interfaces-and-ports-of-a-driver-are-no-steps",
        ),
        pytest.param(f"{SOC}/usb2/2-1", (SOC, "usb2", "2-1"), id="usb-without-pci"),
        pytest.param(
            f"{ROOT}/0000:00:1f.4/i2c-0/0-50/0000:01:00.0",
            (ROOT, "0000:00:1f.4", "0000:01:00.0"),
            id="an-i2c-device-is-no-port",
        ),
        pytest.param(
            f"{VMD}/10000:00:02.0/10000:01:00.0/nvme/nvme0",
            (VMD, "10000:00:02.0", "10000:01:00.0"),
            id="a-root-behind-a-function",
        ),
        pytest.param(
            f"{USB}/1-2/1-2:1.0/i2c-1/1-0050", (ROOT, "0000:00:14.0", "usb1", "1-2"), id="i2c"
        ),
        pytest.param(
            "/sys/devices/platform/soc/i2c-1/1-0050",
            ("/sys/devices/platform/soc/i2c-1/1-0050",),
            id="neither-pci-nor-usb",
        ),
        pytest.param("", ("",), id="nothing"),
    ],
)
def test_a_bus_path_is_the_hardware_from_the_root_down(
    syspath: str, expected: tuple[str, ...]
) -> None:
    assert bus_path(syspath) == expected


PORT, GPU = f"{ROOT}/0000:00:01.0", f"{SWITCH}/0000:02:00.0/0000:03:00"
STICK, OTHER_BUS = f"{USB}/1-1", f"{ROOT}/0000:00:14.0/usb2"
VIRTUAL = "/sys/devices/virtual/block"
DISTANCES = {
    "ports of one controller": (f"{ROOT}/0000:00:17.0/ata1", f"{ROOT}/0000:00:17.0/ata2", D.DEVICE),
    "functions of one slot": (f"{GPU}.0", f"{GPU}.1", D.DEVICE),
    "functions of one slot on the root": (f"{ROOT}/0000:00:1f.3", f"{ROOT}/0000:00:1f.6", D.DEVICE),
    "interfaces": (f"{STICK}/1-1:1.0/tty", f"{STICK}/1-1:1.1/tty", D.DEVICE),
    "itself": ("/sys/devices/platform/x", "/sys/devices/platform/x", D.DEVICE),
    "one PCI switch": (f"{GPU}.0", f"{SWITCH}/0000:02:04.0/0000:04:00.0", D.SWITCH),
    "virtual functions behind a port": (f"{PORT}/0000:03:02.0", f"{PORT}/0000:03:03.1", D.SWITCH),
    "one hub": (f"{STICK}/1-1.1", f"{STICK}/1-1.2", D.SWITCH),
    "one root hub": (STICK, f"{USB}/1-2", D.SWITCH),
    "a hub and what is on it": (STICK, f"{STICK}/1-1.2", D.SWITCH),
    "a switch behind a switch": (f"{GPU}.0", f"{SECOND}/0000:07:00.0/0000:08:00.0", D.SWITCHES),
    "two hubs": (f"{STICK}/1-1.1", f"{STICK}/1-1.4/1-1.4.1", D.SWITCHES),
    "hubs side by side": (f"{STICK}/1-1.1", f"{USB}/1-2/1-2.1", D.SWITCHES),
    "buses of a controller": (STICK, f"{OTHER_BUS}/2-1", D.SWITCHES),
    "root ports of a slot": (SWITCH, f"{ROOT}/0000:00:01.1/0000:02:00.0", D.ROOT),
    "two controllers": (STICK, f"{ROOT}/0000:00:1a.0/usb3/3-1", D.ROOT),
    "behind VMD": (f"{VMD}/10000:00:02.0/10000:01:00.0", STICK, D.OTHER),
    "two roots": (PORT, "/sys/devices/pci0000:80/0000:80:01.0", D.OTHER),
    "no hardware": (f"{VIRTUAL}/loop0", f"{VIRTUAL}/loop1", D.OTHER),
}


@pytest.mark.parametrize(("first", "other", "expected"), DISTANCES.values(), ids=DISTANCES)
def test_the_nearest_common_ancestor_gives_the_distance(
    first: str, other: str, expected: Distance
) -> None:
    a, b = Spot(syspaths=(first,)), Spot(syspaths=(other,))
    assert (distance(a, b), distance(b, a)) == (expected, expected)


FAR = ("/sys/devices/pci0000:00/0000:00:01.0", "/sys/devices/pci0000:80/0000:80:01.0")


NEAR, AWAY = FAR[:1], FAR[1:]
BESIDE = tuple(f"{ROOT}/0000:00:{number:02x}.0" for number in range(2, 30))


def spot(paths: tuple[str, ...] = (), numa: tuple[int, ...] = (), link: str | None = None) -> Spot:
    return Spot(syspaths=paths, numa_nodes=numa, closeness=link)


SPOTS = {
    "nothing known": (spot(), spot(), D.OTHER),
    "NUMA alone": (spot(numa=(0,)), spot(numa=(0,)), D.NUMA_NODE),
    "one NUMA node of several": (spot(NEAR, (0, 1)), spot(AWAY, (1,)), D.NUMA_NODE),
    "the tree before NUMA": (spot((STICK,), (0,)), spot((f"{USB}/1-2",), (1,)), D.SWITCH),
    "members that come closest": (spot(FAR), spot(AWAY), D.DEVICE),
    "the one member that is close": (spot((*BESIDE, f"{GPU}.0")), spot((f"{GPU}.1",)), D.DEVICE),
    "linked": (spot(NEAR, link="0xd1e"), spot(AWAY, link="0xd1e"), D.DEVICE),
    "linked to others": (spot(NEAR, link="a"), spot(AWAY, link="b"), D.OTHER),
    "an empty text is not one": (spot(NEAR, link=""), spot(AWAY, link=""), D.OTHER),
}


@pytest.mark.parametrize(("first", "other", "expected"), SPOTS.values(), ids=SPOTS)
def test_members_numa_nodes_and_links_count(first: Spot, other: Spot, expected: Distance) -> None:
    assert (distance(first, other), distance(other, first)) == (expected, expected)


def test_two_pairs_on_a_socket_are_closer_than_three_and_one_on_the_other() -> None:
    two_pairs = 2 * D.SWITCH + 4 * D.NUMA_NODE
    three_and_one = 3 * D.SWITCH + 3 * D.OTHER
    assert two_pairs < three_and_one


@given(st.text(), st.text())
def test_any_text_has_a_distance(first: str, other: str) -> None:
    assert distance(Spot(syspaths=(first,)), Spot(syspaths=(other,))) in Distance


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_the_trees_of_the_topologies_are_read_as_they_are_meant(name: str, tmp_path: Path) -> None:
    topology = TOPOLOGIES[name]()
    facts = HostCache(Root(topology.build(tmp_path / "machine")))
    for spot in topology.spots.values():
        (syspath,), (path,) = spot.syspaths, spot.bus_paths
        device = facts.device(syspath)
        assert device is not None
        node = numa_node_of(device, facts)
        assert spot.numa_nodes == (() if node is None else (node,))
        above = [entry.name for entry in (device, *facts.ancestors(device))]
        assert set(path[1:]) <= set(above)


@pytest.mark.parametrize("name", ["12", "noiommu-12"])
def test_the_functions_of_its_group_are_below_a_vfio_node(name: str) -> None:
    """Without the bridge above them, which is not an one's device."""
    known = Known(texts={"/sys/devices/system/node/online": "0-1"})
    for at, pci_class in (("00:01.0", "060400"), ("01:00.0", "030000"), ("01:00.1", "040300")):
        facts = {"numa_node": "1", "class": f"0x{pci_class}"}
        function = known.add(f"0000:{at}", "pci", attributes=facts)
        known.targets[f"/sys/kernel/iommu_groups/12/devices/0000:{at}"] = function.syspath
    group = known.add(f"/sys/devices/virtual/vfio/{name}", "vfio")
    spot = Spot(syspaths=(f"{ROOT}/0000:01:00.0", f"{ROOT}/0000:01:00.1"), numa_nodes=(1,))
    assert spot_of([group], known) == spot
    other = known.add("/sys/devices/virtual/vfio/9", "vfio")
    assert hardware_below(other, known) == (other,), "a group that is being taken apart"


@pytest.mark.parametrize(
    ("texts", "close_to"),
    [(["hive", "hive"], "hive"), (["hive", "other"], None), (["hive", None], None), ([""], None)],
    ids=["agree", "differ", "lacking", "empty"],
)
def test_members_are_counted_once_and_close_by_what_all_agree_in(
    texts: list[str | None], close_to: str | None
) -> None:
    def lookup(text: str | None) -> Lookup:
        return lambda _scope, _name, /: text

    close = closeness(resource("x", closeness="link"), map(lookup, texts))
    known = Known()
    near, far = known.add("block/sda", "block"), known.add("block/sdb", "block")
    both = spot_of([near, far, near], known, close)
    assert both == Spot(syspaths=(near.syspath, far.syspath), closeness=close_to)
    assert spot_of([], known) == NOWHERE


@pytest.mark.parametrize(
    ("mode", "numa", "reported", "spoiler"),
    [
        (TopologyMode.AUTO, ("0", "1"), [[0], [1]], ""),
        (TopologyMode.AUTO, ("0", "-1"), [[], []], "0000:01:00.0-misc"),
        (TopologyMode.NONE, ("0", "-1"), [[], []], ""),
    ],
    ids=["both", "one lacks it", "the config says none"],
)
def test_the_kubelet_is_told_the_numa_nodes_if_all_devices_have_one(
    mode: TopologyMode, numa: tuple[str, ...], reported: list[list[int]], spoiler: str
) -> None:
    """LAW-8: and -1 is never sent (D10). What is closest is known all the same."""
    known, files = Known(texts={"/sys/devices/system/node/online": "0-1"}), []
    for number, text in enumerate(numa):
        at = f"0000:0{number}:00.0"
        known.add(at, "pci", attributes={"numa_node": text})
        device = known.add(f"{at}/misc/m{number}", "misc", number=(10, number))
        files.append(node(f"/dev/m{number}", (10, number), syspath=device.syspath))
    listed = decide([resource("m", "/dev/m*", topology=mode)], files, facts=known)["example.com/m"]
    sent = api.ListAndWatchResponse.FromString(encode_list(listed)).devices
    assert [[each_node.ID for each_node in device.topology.nodes] for device in sent] == reported
    assert listed.numa_spoiler == spoiler
    first = next(iter(listed.devices.values())).device
    assert first.spot.numa_nodes == (0,)
