"""After any sequence of events, what is on offer is what a fresh start would offer.

What may depend on history: a vanished device stays listed as Unhealthy, and an ID or node that
several devices claim stays with the one that is on offer.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.changing import PLACES, Changing, Told
from tests.devices.making import resource
from tests.test_known import LOOSE, TIED, Pass, knowing_nothing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from genericdp.devices.devicelist import DeviceList
    from genericdp.model import Resource

pytestmark = pytest.mark.slow

PASSES = 25


def on_offer(offer: DeviceList) -> dict[str, object]:
    """Return what is there now, by ID."""
    return {name: one.device for name, one in offer.devices.items() if one.gone_since is None}


def is_contested(*offers: DeviceList) -> bool:
    reasons = [one.reason for offer in offers for one in offer.not_offered]
    return any(" is that of " in one or " belongs to device " in one for one in reasons)


def change(host: Changing, rng: random.Random) -> None:
    """Change something at random."""
    place, minor = rng.choice(PLACES), rng.randrange(6)
    link = rng.choice(["out/a", "serial/by-id/x", "aux/ttyUSB9", "ttyUSB1", "loop"])
    name = rng.choice(["ttyUSB0", "ttyUSB1", "control", "aux/ttyUSB1x", "1-0", "aux/odd"])
    operations: tuple[Callable[[], None], ...] = (
        *[lambda: host.plug(place, serial=rng.choice("STx"))] * 4,
        *[lambda: host.unplug(place)] * 2,
        lambda: host.renumber(place, minor),
        lambda: host.add_camera(place),
        lambda: host.drop_camera(place),
        lambda: host.set_attribute(place, "serial", rng.choice("ST")),
        lambda: host.record(minor, rng.choice(["", "a", "ab", "b"])),
        lambda: host.touch(f"dev/{name}"),
        lambda: host.vanish(f"dev/{name}"),
        lambda: host.turn(f"dev/{link}", f"/dev/ttyUSB{rng.randrange(2)}"),
        lambda: host.replace_folder(kept=True),
    )
    rng.choice(operations)()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("resources", [TIED, LOOSE], ids=["tied", "loose"])
def test_a_churn_ends_where_a_fresh_start_begins(
    seed: int, resources: tuple[Resource, ...], tmp_path: Path
) -> None:
    rng, host, now = random.Random(seed), Changing(tmp_path), 0.0
    incremental = Pass(host, resources)
    offers: dict[str, DeviceList] = {}
    for _ in range(PASSES):
        for _ in range(rng.choice([1, 1, 2, 4])):
            change(host, rng)
        now += rng.choice([0.5, 2.0])
        found = incremental.run(host.told, offers, now)
        host.told = Told()
        assert found.lists == knowing_nothing(host, offers, now, resources).lists
        again = knowing_nothing(host, found.lists, now, resources)
        assert again.lists == found.lists, "a look at what has not changed changes nothing"
        fresh = knowing_nothing(host, {}, now, resources).lists
        offers = found.lists
        if not is_contested(*offers.values(), *fresh.values()):
            assert {name: on_offer(one) for name, one in offers.items()} == {
                name: on_offer(one) for name, one in fresh.items()
            }


def test_a_device_keeps_its_id_while_it_is_also_listed_under_a_former_one(tmp_path: Path) -> None:
    host = Changing(tmp_path)
    links = (resource("links", "/dev/serial/by-id/*", id="$(usb.serial)"),)
    host.plug(3, serial="x")
    before = knowing_nothing(host, {}, 0.0, links).lists
    host.plug(3, serial="T")
    renamed = knowing_nothing(host, before, 1.0, links).lists
    assert list(renamed["example.com/links"].devices) == ["T", "x"]
    host.plug(2, serial="T")
    later = knowing_nothing(host, renamed, 2.0, links).lists
    owner = later["example.com/links"].devices["T"].device
    assert owner.path == "/dev/serial/by-id/T-3"
