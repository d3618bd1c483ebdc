from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genericdp.devices.closeness import Spot, distance
from genericdp.devices.nearest import MOST_COMBINATIONS, MOST_COMPARED, Counts, nearest
from tests.budget import examples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PORTS = [
    f"/sys/devices/pci0000:{root}0/0000:{root}0:01.{port}/0000:01:00.0/0000:02:0{below}.0/0000:03:00.0"
    for root in (0, 8)
    for port in (0, 1)
    for below in (0, 1)
]
spots = st.builds(
    Spot,
    syspaths=st.lists(st.sampled_from(_PORTS), max_size=2).map(tuple),
    numa_nodes=st.lists(st.integers(0, 2), max_size=2).map(tuple),
    closeness=st.sampled_from([None, None, "a", "b"]),
)


@st.composite
def choices(
    draw: st.DrawFn, *, devices: int, shares: int
) -> tuple[list[Spot], Counts, Counts, int]:
    """Where devices are, what of them is free and taken, and how many are wanted."""
    where = draw(st.lists(spots, min_size=1, max_size=devices))
    free = {i: draw(st.integers(0, shares)) for i in range(len(where))}
    free = {i: count for i, count in free.items() if count} or {0: 1}
    taken = draw(st.dictionaries(st.integers(0, len(where) - 1), st.integers(1, 2), max_size=2))
    return where, free, taken, draw(st.integers(1, sum(free.values())))


def units(counts: Mapping[int, int]) -> list[int]:
    return [device for device, count in sorted(counts.items()) for _ in range(count)]


def total(where: Sequence[Spot], chosen: Sequence[int]) -> int:
    """The sum of distances of all pairs; shares of one device have none."""
    return sum(distance(where[a], where[b]) for a, b in combinations(chosen, 2) if a != b)


def plain_greedy(
    where: Sequence[Spot], free: Mapping[int, int], taken: Mapping[int, int], size: int
) -> list[int]:
    """Always the nearest to all that is taken, the first of equally near ones."""
    chosen, left = units(taken), units(free)
    for _ in range(size):
        best = min(left, key=lambda one: sum(total(where, (one, other)) for other in chosen))
        left.remove(best)
        chosen.append(best)
    return chosen


@given(choices(devices=5, shares=3))
def test_a_small_choice_is_the_best_one_and_of_equals_the_first(
    choice: tuple[list[Spot], Counts, Counts, int],
) -> None:
    where, free, taken, size = choice
    assert comb(sum(free.values()), size) <= MOST_COMBINATIONS
    best = min(
        combinations(units(free), size), key=lambda some: total(where, [*units(taken), *some])
    )
    assert units(nearest(where, free, taken, size)) == list(best)


@settings(max_examples=examples(30), deadline=None)
@given(choices(devices=24, shares=3))
def test_a_choice_is_never_worse_than_the_plain_greedy_one(
    choice: tuple[list[Spot], Counts, Counts, int],
) -> None:
    where, free, taken, size = choice
    chosen = nearest(where, free, taken, size)
    assert sum(chosen.values()) == size
    assert all(0 < count <= free[device] for device, count in chosen.items())
    greedy = total(where, plain_greedy(where, free, taken, size))
    assert total(where, units(taken) + units(chosen)) <= greedy


@settings(max_examples=examples(15), deadline=None)
@given(
    free=st.sets(st.integers(0, 255), min_size=MOST_COMPARED + 5).map(sorted),
    taken=st.sets(st.integers(0, 255), max_size=3),
    size=st.integers(1, 5),
)
def test_nor_is_one_among_many_devices(free: list[int], taken: set[int], size: int) -> None:
    where = [card(number) for number in range(256)]
    left = {number: 1 for number in free if number not in taken}
    held = dict.fromkeys(taken, 1)
    chosen = nearest(where, left, held, size)
    greedy = total(where, plain_greedy(where, left, held, size))
    assert total(where, units(held) + units(chosen)) <= greedy


def test_a_round_of_swaps_improves_what_greedy_choices_from_every_start_give() -> None:
    places = [1, 4, 5, 5, 5, 8, 10, 10, 13, 14, 19, 19, 21, 22, 23, 27, 29, 30, 30]
    where, size = [card(number) for number in places], 7
    free = dict.fromkeys(range(len(where)), 1)
    assert comb(len(where), size) > MOST_COMBINATIONS
    greedy = [
        total(where, plain_greedy(where, {**free, start: 0}, {start: 1}, size - 1))
        for start in free
    ]
    assert (min(greedy), total(where, units(nearest(where, free, {}, size)))) == (60, 53)


def card(number: int) -> Spot:
    """One of many cards: 4 on a switch, 4 switches on a root complex, 4 of those on a socket."""
    socket, root, switch, port = number // 64, number // 16, number // 4 % 4, number % 4
    above = f"/sys/devices/pci0000:{root:02x}/0000:{root:02x}:0{switch}.0/0000:01:00.0"
    below = f"{above}/0000:02:0{port}.0/0000:03:00.0"
    return Spot(syspaths=(below,), numa_nodes=(socket,))


def adapter(number: int) -> Spot:
    """One of many USB adapters: 4 on a hub, 5 hubs on a bus."""
    bus, hub, port = number // 20 + 1, number // 4 % 5 + 1, number % 4 + 1
    usb = f"/sys/devices/pci0000:00/0000:00:{bus:02x}.0/usb{bus}/{bus}-{hub}/{bus}-{hub}.{port}"
    return Spot(syspaths=(f"{usb}/{bus}-{hub}.{port}:1.0/ttyUSB{number}/tty/ttyUSB{number}",))


@pytest.mark.parametrize("devices", [60, 400])
@pytest.mark.parametrize(
    ("taken", "size", "expected"),
    [
        pytest.param({}, 4, [4, 5, 6, 7], id="the-first-whole-hub"),
        pytest.param({30: 1}, 2, [28, 29], id="the-hub-of-what-is-taken"),
        pytest.param({41: 1}, 7, [40, 42, 43, 44, 45, 46, 47], id="then-its-bus"),
    ],
)
def test_of_many_devices_neighbours_are_taken(
    devices: int, taken: Counts, size: int, expected: list[int]
) -> None:
    assert (devices > MOST_COMPARED) == (devices == 400)
    where = [adapter(number) for number in range(devices)]
    free = {number: 1 for number in range(devices) if number > 1 and number not in taken}
    assert units(nearest(where, free, taken, size)) == expected


def test_of_many_devices_without_hardware_the_first_are_taken() -> None:
    where = [Spot(syspaths=(f"/sys/devices/virtual/block/loop{i}",)) for i in range(1000)]
    assert units(nearest(where, dict.fromkeys(range(1000), 1), {}, 12)) == list(range(12))


def test_more_than_are_compared_can_be_taken() -> None:
    where = [adapter(number) for number in range(400)]
    chosen = nearest(where, dict.fromkeys(range(400), 1), {7: 1}, 390)
    assert sum(chosen.values()) == 390
    assert set(chosen.values()) == {1}
