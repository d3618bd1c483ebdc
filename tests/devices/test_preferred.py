from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest
from genericdp.devices.inventory import natural_key
from genericdp.devices.preferred import (
    preferred_ids,
)
from genericdp.devices.topology import Spot
from genericdp.model import Preference
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixtures.topologies import TOPOLOGIES

if TYPE_CHECKING:
    from collections.abc import Mapping

P = Preference
MACHINES = {
    name: dict(sorted(make().spots.items(), key=lambda item: natural_key(item[0])))
    for name, make in TOPOLOGIES.items()
}
MACHINES["two-sockets"] = {
    name: spot for name, spot in MACHINES["two-sockets"].items() if "drm" in name
}
FOUR = {f"d{i}": Spot() for i in (1, 2, 10, 11)}


def shares(devices: Mapping[str, Spot], replicas: int) -> list[str]:
    """All ids, in natural order."""
    return [f"{device}::{i}" if i else device for device in devices for i in range(replicas)]


ON_MACHINES = """
two-sockets      |           | 1 | 04:00 05:00             | a switch
two-sockets      | 94:00     | 1 | 94:00 95:00             | the switch of what is taken
two-sockets      | 94:00     | 1 | 84:00 85:00 94:00 95:00 | then its socket
nps4             | a2:00     | 1 | a1:00 a2:00             | NUMA
one-unknown-node |           | 1 | 3b:00 5e:00             | -1
laptop           |           | 1 | 1-7: 1-8:               | a laptop
hub-tree         |           | 1 | 1-1.4.1 1-1.4.2 1-1.4.3 1-1.4.4 | the second chip
hub-tree         | 1-1.4.3   | 2 | 1-1.1 1-1.4.3           | spread
hub-tree         | 1-1.4.3   | 1 | 1-1.4.1 1-1.4.3         | closest to what must be
hub-tree         |           | 1 | 1-1.1 1-1.2             | closest
hub-tree         | 1-1.4.3 + | 1 | 1-1.1 1-1.4.3           | spread, as an ID of a share shows
"""
"""A machine, parts of the IDs that must be given (+: a second share is free), how many shares a
device has, what is given by ``auto``, and why."""


@pytest.mark.parametrize("row", ON_MACHINES.strip().splitlines())
def test_auto_is_what_a_person_would_take_spread_with_shares_else_the_closest(row: str) -> None:
    name, must, replicas, expected, _ = (cell.strip() for cell in row.split("|"))
    devices = MACHINES[name]

    def full(part: str) -> str:
        return next(device_id for device_id in devices if part in device_id)

    named, more = must.removesuffix("+").split(), ["1-1.1:1.0-tty::1"] if "+" in must else []
    given = preferred_ids(
        [*devices, *more],
        [full(part) for part in named],
        len(expected.split()),
        devices,
        P.AUTO,
        replicas=int(replicas),
    )
    assert given == [full(part) for part in expected.split()]


CHOICES = """
spread  | d1 d1::1 d2 d2::1             |       |  2 | d1 d2        | distinct before second shares
spread  | d1 d1::1 d2 d2::1             | d1    |  2 | d1 d2        | not that of what is had
spread  | d1 d1::1 d1::2 d2::1          | d1    |  2 | d1 d2::1     | however much of it is free
spread  | d1::1 d2 d2::1                |       |  1 | d2           | the one that others use least
spread  | d1 d1::1 d2                   |       |  3 | d1 d1::1 d2  | all
spread  | d10 d10::1 d2 d2::1 d1 d1::1  |       |  4 | d1 d1::1 d2 d10 | a second round
packed  | d1 d1::1 d2 d2::1             |       |  2 | d1 d1::1     | packed
packed  | d1 d1::1 d2::1                |       |  2 | d1 d2::1     | those in use by others first
packed  | d1::2 d2 d2::1                | d2    |  2 | d2 d2::1     | before them those that it has
packed  | d1::2 d2 d2::1 d2::2          | d2    |  2 | d2 d2::1     | however much of these is free
packed  | d1::10 d1::9 d1::2            |       |  2 | d1::2 d1::9  | natural order
closest | d1 d2 d2::1                   |       |  2 | d2 d2::1     | one device is closest
auto    | d1 d1::1 d2 d2::1             |       |  2 | d1 d2        | auto with shares
auto    | d1 d1::1 d2 d2::1             | d1    |  2 | d1 d2        | auto not what is had
none    | d1 d2                         |       |  1 |              | none
closest | d2 d1                         | d1    |  1 | d1           | no more than must be
packed  | d2 d1                         | d1    |  1 | d1           | no more than must be packed
none    | d1 d2                         | d1    |  1 |              | none at all
spread  | d2 d1                         | d2 d1 |  2 | d1 d2        | nothing to choose
spread  | d2 d1                         |       |  3 | d1 d2        | fewer than requested
spread  | d2 d1                         | d1 d2 |  1 |              | more than requested
spread  | d2 d1                         |       |  0 |              | of none
spread  | d2 d1                         |       | -1 |              | of less than none
spread  |                               |       |  2 |              | nothing available
spread  | d2 d1                         | d10   |  2 | d1 d10       | had and not available
spread  | aa x2 d2 x10                  |       |  3 | d2 aa x2     | strangers last
closest | d2 d1 x2                      | x10   |  2 | d1 x10       | a stranger that is had
spread  | d2 d2 d1 d1                   | d2 d2 |  2 | d1 d2        | twice
"""
"""Preference, what is available, what must be among it, how many, what is preferred, and why."""


@pytest.mark.parametrize("row", CHOICES.strip().splitlines())
def test_what_is_preferred(row: str) -> None:
    preference, available, must, size, expected, _ = (cell.strip() for cell in row.split("|"))
    given = preferred_ids(
        available.split(), must.split(), int(size), FOUR, Preference(preference), replicas=3
    )
    assert given == expected.split()


def test_a_device_without_neighbors_is_left_where_others_have_some() -> None:
    """The first in natural order is alone on its socket."""
    roots = {"d1": "00", "d2": "80", "d10": "80", "d11": "80"}
    spots = {
        name: Spot(syspaths=(f"/sys/devices/pci0000:{root}/0000:{root}:01.0/0000:01:{at:02x}.0",))
        for at, (name, root) in enumerate(roots.items())
    }
    assert preferred_ids([*spots], [], 2, spots, P.CLOSEST) == ["d2", "d10"]


def adapter(number: int) -> Spot:
    """One of many USB adapters: 4 on a hub, 5 hubs on a bus."""
    bus, hub, port = number // 20 + 1, number // 4 % 5 + 1, number % 4 + 1
    usb = f"/sys/devices/pci0000:00/0000:00:{bus:02x}.0/usb{bus}/{bus}-{hub}/{bus}-{hub}.{port}"
    return Spot(syspaths=(f"{usb}/{bus}-{hub}.{port}:1.0/ttyUSB{number}/tty/ttyUSB{number}",))


@pytest.mark.parametrize(
    ("held", "size", "expected"),
    [
        pytest.param([], 4, [2, 3, 4, 5], id="the-first-and-its-bus"),
        pytest.param([30], 3, [28, 29, 30], id="the-hub-of-what-must-be-given"),
        pytest.param([41], 8, [40, 41, 42, 43, 44, 45, 46, 47], id="then-its-bus"),
        pytest.param([3, 41, 42], 4, [3, 40, 41, 42], id="close-to-all-that-must-be-given"),
    ],
)
def test_of_many_devices_neighbors_are_given(
    held: list[int], size: int, expected: list[int]
) -> None:
    spots = {f"d{number}": adapter(number) for number in range(60)}
    available, must = [*spots][2:], [f"d{number}" for number in held]
    given = preferred_ids(available, must, size, spots, P.CLOSEST)
    assert given == [f"d{number}" for number in expected]


@pytest.mark.parametrize("preference", [P.CLOSEST, P.SPREAD, P.PACKED])
def test_a_thousand_of_ten_thousand_devices_are_given_without_long_computing(
    preference: Preference,
) -> None:
    """Each has hardware of its own, so all are equally good."""
    devices = {
        f"loop{i}": Spot(syspaths=(f"/sys/devices/virtual/block/loop{i}",)) for i in range(10_000)
    }
    begun = time.thread_time()
    given = preferred_ids([*devices], ["loop9999"], 1000, devices, preference)
    assert given == [*list(devices)[:999], "loop9999"]
    assert time.thread_time() - begun < 5, "comparing each with all that is chosen takes longer"


ids = st.sampled_from([*shares(FOUR, 3), "x", "x::1", "", "::", "d1::x", "9" * 5000]) | st.text()


@given(
    available=st.lists(ids, max_size=12),
    must=st.lists(ids, max_size=4),
    size=st.integers(-1, 14) | st.just(10**9),
    preference=st.sampled_from(Preference),
    devices=st.dictionaries(st.sampled_from([*FOUR]) | st.text(), st.just(Spot()), max_size=5),
    replicas=st.sampled_from([1, 3]),
    chance=st.randoms(use_true_random=False),
)
@settings(deadline=None)
def test_whatever_is_asked_the_answer_is_right_and_does_not_depend_on_the_order(
    available: list[str],
    must: list[str],
    size: int,
    preference: Preference,
    devices: dict[str, Spot],
    replicas: int,
    chance: random.Random,
) -> None:
    """PRF-3, PRF-4: never an error, never too many, and all that must be."""
    answer = preferred_ids(available, must, size, devices, preference, replicas=replicas)
    if preference is P.NONE or size < 1 or size < len(set(must)):
        assert answer == []
        return
    possible = {*available, *must}
    assert len(answer) == len(set(answer)) == min(size, len(possible))
    assert set(must) <= set(answer) <= possible
    chance.shuffle(available)
    chance.shuffle(must)
    again = preferred_ids(available, must, size, devices, preference, replicas=replicas)
    assert again == answer
