"""What ``genericdp init`` writes on the hosts of the examples."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.hosts.hosts import EXAMPLES, Host, all_hosts, told

if TYPE_CHECKING:
    from pathlib import Path

LINES = (EXAMPLES.parent / "init-order.txt").read_text().splitlines()
TRIED = {words[0]: words[1:] for line in LINES if (words := line.partition("#")[0].split())}


@pytest.mark.parametrize("host", [one for one in all_hosts() if one.config.name in TRIED], ids=str)
def test_what_is_written_offers_all_that_the_example_offers(host: Host, tmp_path: Path) -> None:
    root, config = host.build(tmp_path), tmp_path / "config.yaml"
    assert main(["init", str(config), "--root", str(root)]) == 0
    assert main(["validate", str(config)]) == 0

    def offered(file: Path) -> dict[str, list[str]]:
        found = json.loads(told("discover", "-o", "json", config=file, root=root))["resources"]
        return {
            name: sorted(one["id"] for one in listed["devices"])
            for name, listed in found.items()
            if any(one["state"] != "Unhealthy" for one in listed["devices"])
        }

    wanted = TRIED[host.config.name]
    expected = {
        device
        for name, ids in offered(host.config).items()
        for device in ids
        if not wanted or name in wanted
    }
    # Maybe by an example that comes earlier, under another name.
    assert expected <= {device for ids in offered(config).values() for device in ids}
