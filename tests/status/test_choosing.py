"""genericdp.status.choosing: the rooms of the page, and who is shown first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.status.choosing import (
    MOST_DEVICES,
    MOST_NOT_OFFERED,
    MOST_OF_ONE,
    MOST_RESOURCES,
    chosen,
)
from genericdp.status.model import NotOfferedStatus, ResourceStatus
from tests.status.samples import device

if TYPE_CHECKING:
    from genericdp.status.choosing import Chosen


def resource(
    at: int, *, sick: int = 0, well: int = 0, aside: int = 0, registered: bool = True
) -> ResourceStatus:
    """Its Unhealthy devices stand behind the Healthy ones."""
    return ResourceStatus(
        name=f"example.com/kind-{at}",
        registered=registered,
        devices=tuple(device(n, healthy=n < well) for n in range(well + sick)),
        not_offered=tuple(NotOfferedStatus(path=f"/dev/x{n}", reason="odd") for n in range(aside)),
    )


def amounts(shown: tuple[Chosen, ...]) -> list[tuple[int, int, int, int]]:
    """Of each: its number, how many Unhealthy and Healthy are shown, and how many are not."""
    return [
        (int(name.rpartition("-")[2]), len(one.unhealthy), len(one.healthy), one.left_out)
        for one in shown
        for name in [one.resource.name]
    ]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([], []),
        ([resource(0)], [(0, 0, 0, 0)]),
        ([resource(0, well=3), resource(1, sick=1, well=2)], [(1, 1, 2, 0), (0, 0, 3, 0)]),
        (
            [resource(0, sick=1), resource(1, registered=False), resource(2)],
            [(1, 0, 0, 0), (0, 1, 0, 0), (2, 0, 0, 0)],
        ),
        # Of one only so many, of which the Unhealthy ones leave what they leave.
        ([resource(0, sick=200, well=900)], [(0, 200, 300, 600)]),
        ([resource(0, sick=900, well=900)], [(0, 500, 0, 1300)]),
        # The room is for the first ones; what one leaves of it is for the next.
        (
            [*(resource(n, well=450) for n in range(6))],
            [*((n, 0, 450, 0) for n in range(4)), (4, 0, 200, 250), (5, 0, 0, 450)],
        ),
        (
            [*(resource(n, sick=450, well=9) for n in range(6))],
            [*((n, 450, 0, 9) for n in range(4)), (4, 200, 0, 259), (5, 0, 0, 459)],
        ),
        # No Healthy one takes the place of an Unhealthy one that comes later.
        (
            [*(resource(n, sick=100, well=500) for n in range(10))],
            [
                *((n, 100, 400, 100) for n in range(2)),
                (2, 100, 200, 300),
                *((n, 100, 0, 500) for n in range(3, 10)),
            ],
        ),
    ],
)
def test_what_is_shown_of_each(
    resources: list[ResourceStatus], expected: list[tuple[int, int, int, int]]
) -> None:
    shown = chosen(resources)
    assert amounts(shown) == expected
    assert sum(sick + well for _, sick, well, _ in expected) <= MOST_DEVICES
    assert all(sick + well <= MOST_OF_ONE for _, sick, well, _ in expected)


def test_what_is_not_offered_has_a_room_of_its_own() -> None:
    shown = chosen([resource(n, well=500, aside=400 + 200 * n) for n in range(4)])
    assert [len(one.not_offered) for one in shown] == [400, 500, 100, 0]
    assert [one.not_offered_left_out for one in shown] == [0, 100, 700, 1000]
    assert sum(len(one.not_offered) for one in shown) == MOST_NOT_OFFERED


def test_each_keeps_its_own_devices_in_their_order() -> None:
    resources = [resource(n, sick=n % 3, well=n) for n in range(9)]
    for one in chosen(resources):
        own = one.resource.devices
        assert one.unhealthy == tuple(each for each in own if not each.healthy)
        assert one.healthy == tuple(each for each in own if each.healthy)


def test_of_too_many_resources_those_that_need_attention_are_shown() -> None:
    resources = [resource(n, well=1) for n in range(MOST_RESOURCES)]
    (first, *others) = chosen([*resources, resource(999, sick=1)])
    assert amounts((first,)) == [(999, 1, 0, 0)]
    assert [one.resource for one in others] == resources[:-1]
