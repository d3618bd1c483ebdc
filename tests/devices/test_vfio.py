"""VFIO: what is remembered of a group is read again with the news of its functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from genericdp.config.load import load
from genericdp.devices.topology import functions_of, group_number
from genericdp.host.events import Uevent
from genericdp.host.root import Root

from tests.cases.machine import Machine
from tests.cases.running import DIRECTORY
from tests.decisions import Discoverer
from tests.devices.known import Known

if TYPE_CHECKING:
    from pathlib import Path

CASE = DIRECTORY / "vfio/whole-groups"
NAME = "example.com/pci"
UNBOUND = "/sys/devices/pci0000:00/0000:03:00.1"


async def test_a_function_that_is_bound_later_brings_its_group(tmp_path: Path) -> None:
    machine = Machine(CASE / "machine.yaml", tmp_path)
    resources = load([CASE / "config.yaml"]).resources
    discoverer = Discoverer(Root(tmp_path), look_again=lambda: None)
    first = (await discoverer.discover(resources, {})).lists
    assert "pci-13" not in first[NAME].devices
    machine.link(f"{UNBOUND}/driver", "../../../bus/pci/drivers/vfio-pci")
    discoverer.mark_event(Uevent(action="bind", syspath=UNBOUND))
    assert "pci-13" in (await discoverer.discover(resources, first)).lists[NAME].devices


@pytest.mark.parametrize(
    ("name", "number"),
    [("12", "12"), ("noiommu-0", "0"), ("vfio", None), ("vfio12", None), ("", None), ("1x", None)],
)
def test_nodes_are_called_by_their_groups(name: str, number: str | None) -> None:
    assert group_number(name) == number


def test_a_group_that_is_not_there_has_no_functions() -> None:
    assert functions_of("7", Known()) == ()
