"""What ``genericdp init`` writes on hosts of the examples, where the two call something alike."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.hosts.hosts import Host, all_hosts, told

if TYPE_CHECKING:
    from pathlib import Path

ALIKE = {
    "coral-tpu": ("coral-usb", "coral-usb-cold", "coral-pcie"),
    "coral-tpu-loaded": ("coral-usb", "coral-pcie"),
    "fuse": ("fuse",),
    "input": ("joystick",),
    "serial": ("serial",),
    "tpm": ("tpm",),
    "zigbee": ("zigbee", "zwave"),
}


@pytest.mark.parametrize("host", [one for one in all_hosts() if str(one) in ALIKE], ids=str)
def test_what_is_written_offers_what_the_example_offers(host: Host, tmp_path: Path) -> None:
    root, config = host.build(tmp_path), tmp_path / "config.yaml"
    assert main(["init", str(config), "--root", str(root)]) == 0
    assert main(["validate", str(config)]) == 0

    def offered(file: Path) -> dict[str, list[str]]:
        found = json.loads(told("discover", "-o", "json", config=file, root=root))["resources"]
        names = [f"example.com/{name}" for name in ALIKE[str(host)]]
        return {name: sorted(one["id"] for one in found[name]["devices"]) for name in names}

    assert offered(config) == offered(host.config)
