"""``discover --root`` reads the copied trees of machines whose devices sit near and far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.fixtures.topologies import TOPOLOGIES
from tests.printed import resources_in

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.devices.topology import Spot

CONFIG = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/all
    match:
      - path: [/dev/dri/*, /dev/infiniband/*, /dev/nvme*, /dev/accel/*, /dev/video*, /dev/tty*]
"""


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_ids_and_numa_nodes_are_those_of_the_machine(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    topology = TOPOLOGIES[name]()
    root = tmp_path / "root"
    topology.build(root)
    assert main(["discover", "--root", str(root), "--config", str(config), "-o", "json"]) == 0
    found = resources_in(capsys.readouterr().out)["example.com/all"]["devices"]
    assert {one["id"]: one["numaNodes"] for one in found} == {
        device_id: list(spot.numa_nodes) for device_id, spot in topology.spots.items()
    }


@pytest.mark.parametrize("needs", [1, 2, 3])
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_what_sits_below_one_port_of_the_root_can_be_one_device(
    name: str, needs: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        f"{CONFIG}"
        "    values:\n"
        "      port: {text: $(device.syspath), regex: '^/sys/devices/([^/]+/[^/]+)/'}\n"
        f"    groupBy: $(value.port)\n    groupNeeds: {needs}\n"
    )
    topology = TOPOLOGIES[name]()
    topology.build(tmp_path / "root")
    argv = ["discover", "--root", str(tmp_path / "root"), "--config", str(config), "-o", "json"]
    assert main(argv) == 0
    found = resources_in(capsys.readouterr().out)["example.com/all"]
    groups: dict[str, list[Spot]] = {}
    for spot in topology.spots.values():
        port = "_".join(spot.syspaths[0].split("/")[3:5])
        groups.setdefault(port, []).append(spot)
    assert {one["id"]: (len(one["nodes"]), one["numaNodes"]) for one in found["devices"]} == {
        port: (len(spots), sorted({node for spot in spots for node in spot.numa_nodes}))
        for port, spots in groups.items()
        if len(spots) >= needs
    }
    assert len(found["notOffered"]) == sum(len(spots) < needs for spots in groups.values())
