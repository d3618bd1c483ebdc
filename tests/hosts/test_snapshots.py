"""Each host as a file of ``genericdp snapshot``: what is offered on it is what is offered there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.hosts.hosts import Host, all_hosts, allocated, discovered

if TYPE_CHECKING:
    from pathlib import Path

HOSTS = [host for host in all_hosts() if not host.file("files", "").is_dir()]
"""Those of which a config reads nothing outside of /sys, /dev and /run: no snapshot has that."""


@pytest.mark.parametrize("host", HOSTS, ids=str)
def test_a_snapshot_offers_what_its_host_offers(host: Host, tmp_path: Path) -> None:
    taken = tmp_path / "snapshot.tar.gz"
    assert main(["snapshot", str(taken), "--root", str(host.build(tmp_path))]) == 0
    assert discovered(host, taken) == host.file("discover", ".txt").read_text()
    assert allocated(host, taken) == host.file("allocate", ".txt").read_text()
