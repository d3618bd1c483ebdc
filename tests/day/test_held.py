"""What grows from rest to rest is found, what comes and goes is not."""

from __future__ import annotations

import pytest

from tests.day.held import Counts, Held, Objects, growths, more


def rests(**slopes: float) -> list[Held]:
    """Give a day of rests of which some figures have a slope, in units an hour."""
    start = {
        "descriptors": 50,
        "tasks": 70,
        "objects": 40_000,
        "entries": 80_000,
        "blocks": 190_000,
        "given_out": 9_000.0,
        "resident": 60.0,
        "series": 300,
        "events": 200,
    }
    return [
        Held(
            at=hour * 3600.0,
            **{  # type: ignore[arg-type]
                # Something comes and goes all day long.
                what: amount * (1 + 0.004 * (hour % 2)) + slopes.get(what, 0) * hour
                for what, amount in start.items()
            },
        )
        for hour in range(2, 25)
    ]


def test_what_comes_and_goes_is_no_growth() -> None:
    assert growths(rests()) == []


@pytest.mark.parametrize(
    ("what", "an_hour"),
    [("blocks", 100.0), ("entries", 50.0), ("given_out", 20.0), ("resident", 0.1), ("series", 1.0)],
)
def test_what_has_a_slope_grows(what: str, an_hour: float) -> None:
    (found,) = growths(rests(**{what: an_hour}))
    assert found.startswith(f"{what}: +")


def test_objects_grow_by_type() -> None:
    objects, times = Objects(24), [hour * 3600.0 for hour in range(24)]
    for hour in range(24):
        counts = {"builtins.dict": 9000 + hour % 3 * 30, "a.Kept": 5 + 2 * hour, "a.Few": 5}
        objects.enter(hour, counts if hour else {**counts, "a.Gone": 1000})
    assert objects.growths(times, 1) == ["a.Kept: +44 by its slope (limit +20)"]


def test_one_more_descriptor_or_task_is_told_by_its_name() -> None:
    before = Counts(descriptors={"socket:[N]": 4}, tasks={"probe": 1})
    now = Counts(descriptors={"socket:[N]": 5}, tasks={"probe": 0, "scrape": 1})
    assert more(before, now) == ["descriptors: {'socket:[N]': 1}", "tasks: {'scrape': 1}"]
