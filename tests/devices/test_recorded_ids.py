"""Default IDs of all devices of all recorded machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from genericdp.devices.identity import default_name
from genericdp.host.cache import HostCache
from genericdp.host.root import Root

from tests.hosts.hosts import all_hosts
from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MACHINES: dict[str, Callable[[Path], Path]] = {
    **{f"example {host}": host.build for host in all_hosts()},
    **{name: lambda directory, name=name: built(name, directory) for name in loading.NAMES},  # type: ignore[misc]
}


def built(name: str, directory: Path) -> Path:
    loading.build(loading.path_of(name), directory)
    return directory


@pytest.mark.parametrize("machine", MACHINES)
def test_no_two_devices_of_a_subsystem_have_one_id(machine: str, tmp_path: Path) -> None:
    """Only the first of two would be offered. A device with a node may be below one without."""
    host = HostCache(Root(MACHINES[machine](tmp_path)))
    found: dict[tuple[str, bool, str], list[str]] = {}
    for subsystem in host.subsystems():
        for device in host.members(subsystem):
            name = default_name(device, host)
            key = (subsystem, device.number is not None, device.name if name is None else name.text)
            found.setdefault(key, []).append(device.syspath)
    assert found
    assert [paths for paths in found.values() if len(paths) > 1] == []
