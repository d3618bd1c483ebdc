from __future__ import annotations

import random
import time
from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from genericdp.devices.inventory import natural_key
from genericdp.devices.preferred import (
    MAX_COMPARED,
    MAX_STARTS,
    preferred_ids,
)
from genericdp.devices.topology import Spot, distance
from genericdp.model import Preference
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.fixtures.topologies import TOPOLOGIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def total(devices: Mapping[str, Spot], ids: Sequence[str]) -> int:
    """The sum of distances of all pairs; shares of one device have none."""
    owners = [share.partition("::")[0] for share in ids]
    return sum(distance(devices[a], devices[b]) for a, b in combinations(owners, 2) if a != b)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("size", [1, 2])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=examples(8), deadline=None)
def test_one_or_two_are_the_best_of_all_choices(name: str, size: int, seed: int) -> None:
    """PRF-2: in whatever order the kubelet sends the ids, some of which others have."""
    devices, chance = MACHINES[name], random.Random(seed)
    ids = shares(devices, chance.choice([1, 1, 2]) if len(devices) < 10 else 1)
    available = chance.sample(ids, chance.randint(size, len(ids)))
    must = chance.sample(available, chance.randint(0, size - 1))
    rest = [device for device in ids if device in set(available) - set(must)]
    best = min(
        combinations(rest, size - len(must)), key=lambda some: total(devices, [*must, *some])
    )
    expected = [device for device in ids if device in {*must, *best}]
    assert preferred_ids(available, must, size, devices, P.CLOSEST, replicas=1) == expected


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


PORTS = [
    f"/sys/devices/pci0000:{root}0/0000:{root}0:01.{port}/0000:01:00.0/0000:02:0{below}.0/0000:03:00.0"
    for root in (0, 8)
    for port in (0, 1)
    for below in (0, 1)
]
anywhere = st.builds(
    Spot,
    syspaths=st.lists(st.sampled_from(PORTS), max_size=2).map(tuple),
    numa_nodes=st.lists(st.integers(0, 2), max_size=2).map(tuple),
    closeness=st.sampled_from([None, None, "a", "b"]),
)


@st.composite
def choices(
    draw: st.DrawFn, *, fewest: int = 1, most: int, shares: int
) -> tuple[list[Spot], Counter[int], Counter[int], int]:
    """Spots of devices, the free shares and those that must be given, and how many are wanted."""
    where = draw(st.lists(anywhere, min_size=fewest, max_size=most))
    free = Counter({i: draw(st.integers(1, shares)) for i in range(len(where))})
    held = draw(st.dictionaries(st.integers(0, len(where) - 1), st.integers(1, 2), max_size=2))
    return where, free, Counter(held), draw(st.integers(1, min(10, free.total())))


def units(counts: Counter[int]) -> list[int]:
    return sorted(counts.elements())


def sum_of_pairs(where: Sequence[Spot], chosen: Sequence[int]) -> int:
    return sum(distance(where[a], where[b]) for a, b in combinations(chosen, 2) if a != b)


def asked(where: Sequence[Spot], free: Counter[int], held: Counter[int], size: int) -> list[int]:
    """Return the devices of the shares that are given in addition to those that must be."""
    devices = {f"d{i}": spot for i, spot in enumerate(where)}
    must = [f"d{i}::{1000 + share}" for i, count in held.items() for share in range(count)]
    available = [f"d{i}::{share}" for i, count in free.items() for share in range(count)]
    answer = preferred_ids([*available, *must], must, size + len(must), devices, P.CLOSEST)
    assert set(must) <= set(answer)
    return [int(share.partition("::")[0][1:]) for share in answer if share not in must]


def one_by_one(
    where: Sequence[Spot], free: Counter[int], chosen: Sequence[int], size: int
) -> list[int]:
    """Return the devices of the shares that are added, always the closest to those before."""
    chosen, left, added = list(chosen), units(free), []
    for _ in range(size):
        best = min(left, key=lambda device: sum_of_pairs(where, [*chosen, device]))
        left.remove(best)
        chosen.append(best)
        added.append(best)
    return sorted(added)


@given(choices(most=6, shares=3))
@settings(deadline=None)
def test_of_few_devices_the_best_of_those_that_begin_with_each_is_given(
    choice: tuple[list[Spot], Counter[int], Counter[int], int],
) -> None:
    where, free, held, size = choice
    if held:
        assert asked(where, free, held, size) == one_by_one(where, free, units(held), size)
        return
    given = asked(where, free, held, size)
    for first in free:
        rest = one_by_one(where, free - Counter([first]), [first], size - 1)
        assert sum_of_pairs(where, given) <= sum_of_pairs(where, [first, *rest])


def test_a_device_without_neighbors_is_left_where_others_have_some() -> None:
    """The first in natural order is alone on its socket."""
    where = [Spot(syspaths=(port,)) for port in (PORTS[0], *PORTS[4:])]
    assert asked(where, Counter(range(len(where))), Counter(), 2) == [1, 2]


@given(choices(fewest=MAX_STARTS + 1, most=24, shares=3))
@settings(max_examples=examples(30), deadline=None)
def test_of_many_devices_the_closest_to_those_already_chosen_is_added_each_time(
    choice: tuple[list[Spot], Counter[int], Counter[int], int],
) -> None:
    where, free, held, size = choice
    assert held.total() + size <= MAX_COMPARED
    assert asked(where, free, held, size) == one_by_one(where, free, units(held), size)


def adapter(number: int) -> Spot:
    """One of many USB adapters: 4 on a hub, 5 hubs on a bus."""
    bus, hub, port = number // 20 + 1, number // 4 % 5 + 1, number % 4 + 1
    usb = f"/sys/devices/pci0000:00/0000:00:{bus:02x}.0/usb{bus}/{bus}-{hub}/{bus}-{hub}.{port}"
    return Spot(syspaths=(f"{usb}/{bus}-{hub}.{port}:1.0/ttyUSB{number}/tty/ttyUSB{number}",))


@pytest.mark.parametrize("devices", [60, 400])
@pytest.mark.parametrize(
    ("held", "size", "expected"),
    [
        pytest.param([], 4, [2, 3, 4, 5], id="the-first-and-its-bus"),
        pytest.param([30], 2, [28, 29], id="the-hub-of-what-must-be-given"),
        pytest.param([41], 7, [40, 42, 43, 44, 45, 46, 47], id="then-its-bus"),
    ],
)
def test_of_many_devices_neighbors_are_given(
    devices: int, held: list[int], size: int, expected: list[int]
) -> None:
    where = [adapter(number) for number in range(devices)]
    free = Counter(number for number in range(2, devices) if number not in held)
    assert asked(where, free, Counter(held), size) == expected


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


@given(
    free=st.dictionaries(st.integers(0, 4), st.integers(1, 6)),
    taken=st.dictionaries(st.integers(0, 4), st.integers(1, 3)),
    size=st.integers(1, 30),
)
def test_spread_takes_each_share_where_the_container_has_the_fewest(
    free: dict[int, int], taken: dict[int, int], size: int
) -> None:
    left, held = dict(free), Counter(taken)
    expected = Counter[int]()
    for _ in range(min(size, sum(free.values()))):
        device = min(
            (device for device in left if left[device]),
            key=lambda device: (held[device], -left[device], device),
        )
        left[device] -= 1
        held[device] += 1
        expected[device] += 1
    available = [f"d{device}::{share}" for device, count in free.items() for share in range(count)]
    must = [f"d{device}::{9 + share}" for device, count in taken.items() for share in range(count)]
    devices = {f"d{device}": Spot() for device in range(5)}
    given = preferred_ids(available, must, size + len(must), devices, P.SPREAD)
    chosen = Counter(int(share[1]) for share in set(given) - set(must))
    assert chosen == expected


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
