"""Whatever comes in whatever order: the devices and ids are those of one look at everything."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genericdp.config.load import load
from genericdp.host.root import Root
from tests.budget import examples
from tests.hardware.adapters import CONFIGS, HUB, PORTS, SERIAL
from tests.hardware.machine import Machine
from tests.looking import Discoverer

if TYPE_CHECKING:
    from genericdp.devices.decide import DeviceLists
    from genericdp.host.uevents import Uevent


def shown(offers: DeviceLists) -> dict[str, dict[str, list[str]]]:
    """What is healthy: ids with nodes."""
    return {
        name: {
            device_id: [node.host_path for node in one.device.nodes]
            for device_id, one in offer.devices.items()
            if not one.unhealthy
        }
        for name, offer in offers.items()
    }


@pytest.mark.parametrize("name", ["serial-adapters", "webcam", "gpu", "nvme", "input"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=examples(3))
def test_any_order_of_folders_gives_the_same_devices_and_ids(name: str, seed: int) -> None:
    """D1: three equal dongles stay three devices, in any order of discovery."""
    wanted = load((CONFIGS / f"{name}.yaml",)).resources
    with TemporaryDirectory() as folder:
        machine = Machine(name, Path(folder))
        assert machine.offers(*wanted, seed=seed) == machine.offers(*wanted)


STEPS = st.lists(st.tuples(st.sampled_from([*PORTS, HUB]), st.booleans()), max_size=6)


@given(steps=STEPS, order=st.randoms(use_true_random=False))
@settings(max_examples=examples(6))
def test_events_in_any_order_end_at_what_one_full_look_gives(
    steps: list[tuple[str, bool]], order: object
) -> None:
    """A pass between them may see anything, but nothing of it stays."""
    with TemporaryDirectory() as folder:
        asyncio.run(_play(Machine("serial-adapters", Path(folder)), steps, order))


async def _play(machine: Machine, steps: list[tuple[str, bool]], order: object) -> None:
    discoverer = Discoverer(machine.root, look_again=lambda: None)
    offers = (await discoverer.discover([SERIAL], {})).lists
    told: list[Uevent] = []
    for port, look in steps:
        there = (machine.folder / f"sys{port}").exists()
        if not there and not (machine.folder / f"sys{port}").parent.exists():
            continue
        told += machine.unplug(port) if there else machine.plug(port)
        if look:
            offers = (await discoverer.discover([SERIAL], offers, full=False)).lists
    order.shuffle(told)  # type: ignore[attr-defined]
    for event in told:
        discoverer.mark_event(event)
        if order.random() < 0.2:  # type: ignore[attr-defined]
            offers = (await discoverer.discover([SERIAL], offers, full=False)).lists
    offers = (await discoverer.discover([SERIAL], offers, full=False)).lists
    assert shown(offers) == shown(machine.offers(SERIAL))


class Counting(Root):
    """Writes down what is read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.read: list[str] = []

    def real(self, path: str) -> str:
        self.read.append(path)
        return super().real(path)

    def read_bytes(self, path: str, *, limit: int, follow: bool = True) -> bytes:
        self.read.append(path)
        return super().read_bytes(path, limit=limit, follow=follow)


async def test_an_event_has_only_its_device_read_again(tmp_path: Path) -> None:
    machine = Machine("serial-adapters", tmp_path)
    root = Counting(machine.folder)
    discoverer = Discoverer(root, look_again=lambda: None)
    first = (await discoverer.discover([SERIAL], {})).lists
    root.read.clear()
    discoverer.mark_event(machine.event("change", PORTS[2]))
    await discoverer.discover([SERIAL], first, full=False)
    # Type and number of nodes, which a copied tree lacks, are looked up anew in each pass.
    asked = ("/idVendor", "/numa_node", "/run/udev/data/")
    read = {path for path in root.read if any(part in path for part in asked)}
    assert read == {f"/sys{PORTS[2]}/idVendor", "/run/udev/data/c189:4"} | {
        path for path in read if path == f"/sys{PORTS[2]}/numa_node"
    }
