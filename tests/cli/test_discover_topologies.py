"""``discover --root`` reads the copied trees of machines whose devices sit near and far."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.fixtures.topologies import TOPOLOGIES

if TYPE_CHECKING:
    from pathlib import Path

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
    found = json.loads(capsys.readouterr().out)["resources"]["example.com/all"]["devices"]
    assert {one["id"]: one["numaNodes"] for one in found} == {
        device_id: list(spot.numa_nodes) for device_id, spot in topology.spots.items()
    }
