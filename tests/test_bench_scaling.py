"""What a cost grows with is found, whether a part of it is constant or not."""

from __future__ import annotations

import json

import pytest

from bench.scaling_fit import Book, Curve, table


def curve(*costs: float, sizes: tuple[int, ...] = (100, 1_000, 10_000)) -> Curve:
    return Curve(
        axis="devices", chart="waits", what="x", costs=dict(zip(sizes, costs, strict=True))
    )


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("constant", [0.0, 3.0, 1e4])
def test_the_exponent_is_found_without_the_constant_part(exponent: float, constant: float) -> None:
    costs = [constant + n**exponent for n in (100, 1_000, 10_000)]
    found = curve(*costs).exponent
    if costs[1] - costs[0] < 0.5 * costs[0] or costs[2] - costs[1] < 0.05 * costs[1]:
        assert found is None
    else:
        assert found == pytest.approx(exponent)


@pytest.mark.parametrize(
    ("costs", "worse"),
    [
        ((1.0, 10.0, 100.0), False),
        ((1.0, 10.0, 200.0), True),
        ((50.0, 50.0, 51.0), False),
        ((50.0, 49.0, 48.0), False),
        ((5.0, 6.0, 100.0), True),  # the constant hides it from the slopes up to the middle
        ((1.0, 12.0, 130.0), False),
    ],
)
def test_what_is_worse_than_linear_is_marked(costs: tuple[float, ...], worse: bool) -> None:
    one = curve(*costs)
    assert one.is_worse_than_linear is worse
    assert one.as_json()["worseThanLinear"] is worse
    assert ("WORSE" in table([one])) is worse


def test_the_slopes_are_between_neighbours() -> None:
    assert curve(1.0, 10.0, 1000.0).slopes == pytest.approx((1.0, 2.0))


def test_two_sizes_have_a_slope_and_no_fit() -> None:
    one = curve(1.0, 10.0, sizes=(10, 100))
    assert one.exponent is None
    assert one.slopes == pytest.approx((1.0,))


def test_each_axis_has_a_table_with_its_sizes() -> None:
    book = Book()
    book.page("sysfs", 2_000).note("memory", "y", 2.0)
    book.page("sysfs", 200).note("memory", "y", 1.0)
    book.page("sysfs", 200).note("memory", "once", 1.0)
    (other,) = book.curves()
    assert list(other.costs) == [200, 2_000]
    first, second = table([curve(1.0, 2.0, 3.0), other]).split("\n\n")
    assert "10,000" in first
    assert "2,000" in second
    assert json.dumps(other.as_json())


def test_a_table_for_the_documentation_has_as_many_cells_in_each_row() -> None:
    lines = table([curve(1.0, 2.0, 3.0), curve(1.0, 5.0, 90.0)], markdown=True).splitlines()
    assert {line.count("|") for line in lines} == {10}
