"""What takes devices of the network examples away, and what is run before a container has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.config.load import load
from genericdp.devices.decide import decide
from genericdp.host.cache import HostCache
from genericdp.host.root import Root
from tests.hosts.hosts import Host, told

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.devices.device import Device

A_PORT = "sys/class/infiniband/{}/ports/1/state"
PARENT = "sys/class/net/{}/operstate"


@pytest.mark.parametrize(
    ("name", "file", "state", "lost"),
    [
        ("infiniband", A_PORT.format("mlx5_1"), "1: DOWN", {"0000:1a:00.0-infiniband"}),
        ("rdma-shared", A_PORT.format("mlx5_1"), "2: INIT", {"0000:5e:00.1-infiniband"}),
        ("rdma-shared", A_PORT.format("mlx5_3"), "1: DOWN", {"hcas"}),
        # Of a group only the first member is read.
        ("rdma-shared", A_PORT.format("mlx5_4"), "1: DOWN", set()),
        ("sriov-vf", PARENT.format("ens8f1"), "down", {"0000:d8:10.1"}),
    ],
)
def test_what_has_no_link_is_not_well(
    tmp_path: Path, name: str, file: str, state: str, lost: set[str]
) -> None:
    host = Host(name)
    root = host.build(tmp_path)
    assert "failed" not in told("probe", config=host.config, root=root)
    (root / file).write_text(f"{state}\n")
    lines = told("probe", config=host.config, root=root).splitlines()
    assert {line.split()[1] for line in lines if " failed " in line} == lost
    assert any(" passed " in line for line in lines)


def test_a_port_is_reset_before_each_container_and_a_region_is_told_of_all_its_ports(
    tmp_path: Path,
) -> None:
    devices = offered(Host("intel-fpga"), Root(Host("intel-fpga").build(tmp_path)))
    port = devices["0000:b3:00.0-port1"]
    assert commands(port) == ("/opt/fpga/bin/reset-ports", "/dev/dfl-port.2")
    region = devices["0000:21:00.0"]
    assert commands(region) == ("/opt/fpga/bin/reset-region",)
    assert [node.host_path for node in region.nodes] == ["/dev/dfl-port.5", "/dev/dfl-port.6"]


def test_a_card_whose_firmware_has_crashed_is_lost_to_its_resource(tmp_path: Path) -> None:
    host = Host("intel-fpga")
    root = host.build(tmp_path)
    (function,) = root.glob("sys/devices/*/*/*/fpga_region/region1/dfl-port.0/afu_id")
    function.write_text(f"{'f' * 32}\n")
    assert "dfl-port.0" not in offered(host, Root(root))


def offered(host: Host, root: Root) -> dict[str, Device]:
    resources = load([host.config]).resources
    found = decide(
        resources,
        HostCache(root),
        node_name="n",
        previous={},
        now=0.0,
    )
    return {
        name: one.device for offer in found.lists.values() for name, one in offer.devices.items()
    }


def commands(device: Device) -> tuple[str, ...]:
    return tuple(device.hooks["preStart"].command.argv)
