"""Where the devices of a config sit, on machines whose devices sit near and far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.config.load import load
from genericdp.devices.decide import decide
from genericdp.devices.topology import Distance, distance
from genericdp.host.cache import HostCache
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.servicer import encode_list
from tests.fixtures.topologies import TOPOLOGIES

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.devices.devicelist import DeviceList

NAME = "example.com/x"
HEAD = f"""\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: {NAME}
    match: [{{path: [/dev/dri/*, /dev/accel/*]}}]
"""
HIVE = """\
    values: {hive: {text: $(attribute.device/hive:-), regex: '^0*([1-9][0-9]*)$'}}
    closeness: {value: hive}
"""


def offer_of(
    name: str, keys: str, tmp_path: Path, hives: dict[str, str] | None = None
) -> DeviceList:
    """What a config offers; ``hives`` are what a file beside the functions says, by address."""
    tree = TOPOLOGIES[name]().build(tmp_path / "root")
    for node in tree.folder.glob("sys/devices/**/drm/renderD*"):
        function = node.parents[1]
        (node / "device").symlink_to("../..")
        if (text := (hives or {}).get(function.name)) is not None:
            (function / "hive").write_text(text)
    (tmp_path / "config.yaml").write_text(HEAD + keys)
    loaded = load([tmp_path / "config.yaml"])
    assert (loaded.problems, loaded.warnings) == ((), ())
    host = HostCache(tree.root)
    return decide(loaded.resources, host, node_name="n", previous={}, now=0.0).lists[NAME]


def told(offer: DeviceList) -> list[list[int]]:
    """The NUMA nodes of each device that the kubelet is told."""
    devices = api.ListAndWatchResponse.FromString(encode_list(offer)).devices
    return [[node.ID for node in one.topology.nodes] for one in devices]


def test_the_kubelet_is_told_the_numa_nodes_unless_the_config_says_none(tmp_path: Path) -> None:
    assert told(offer_of("two-sockets", "", tmp_path / "a")) == [[0]] * 4 + [[1]] * 4
    offer = offer_of("two-sockets", "    topology: none\n", tmp_path / "b")
    assert told(offer) == [[]] * 8
    assert offer.numa_spoiler == "", "nothing spoils what nobody wants"
    nodes = [one.device.spot.numa_nodes for one in offer.devices.values()]
    assert nodes == [(0,)] * 4 + [(1,)] * 4, "closest knows them all the same"


def test_one_device_without_a_numa_node_spoils_it_for_all(tmp_path: Path) -> None:
    """LAW-8: and -1 is never sent (D10)."""
    offer = offer_of("one-unknown-node", "", tmp_path)
    assert told(offer) == [[]] * 4
    assert offer.numa_spoiler == "0000:d8:00.0-accel"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param("7", "7", Distance.DEVICE, id="linked-across-sockets"),
        pytest.param("007", "7", Distance.DEVICE, id="what-the-regex-finds-counts"),
        pytest.param("7", "8", Distance.OTHER, id="not-linked"),
        pytest.param("0", "0", Distance.OTHER, id="no-hive"),
        pytest.param("", "", Distance.OTHER, id="empty"),
        pytest.param(None, "7", Distance.OTHER, id="lacking"),
    ],
)
def test_devices_with_an_equal_value_are_close(
    one: str | None, other: str | None, expected: Distance, tmp_path: Path
) -> None:
    """And those that lack it are offered all the same."""
    near, far = "0000:04:00.0", "0000:84:00.0"
    hives = {near: one, far: other}
    given = {address: text for address, text in hives.items() if text is not None}
    offer = offer_of("two-sockets", HIVE, tmp_path, given)
    assert len(offer.devices) == 8
    spots = [offer.devices[f"{address}-drm-renderD"].device.spot for address in hives]
    assert distance(*spots) is expected
