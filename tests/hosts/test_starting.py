"""Test what ``genericdp init`` writes on the hosts of the examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.test_init import TRIED, offered, written
from tests.hosts.hosts import Host, all_hosts

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "host", [each_host for each_host in all_hosts() if each_host.config.name in TRIED], ids=str
)
def test_what_is_written_offers_all_that_the_example_offers(
    host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = host.build(tmp_path)
    found = written(capsys, tmp_path / "config.yaml", root)
    wanted = TRIED[host.config.name]
    expected = {
        device
        for name, ids in offered(capsys, host.config, root).items()
        for device in ids
        if not wanted or name in wanted
    }
    # Maybe by an example that comes earlier, under another name.
    assert expected <= {device for ids in found.values() for device in ids}
