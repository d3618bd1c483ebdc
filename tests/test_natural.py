from __future__ import annotations

from genericdp.devices.inventory import natural_key
from hypothesis import given
from hypothesis import strategies as st


def test_numbers_count_as_numbers() -> None:
    ordered = ["a", "a01", "a1", "a2", "a2b", "a10", "a10-2", "a10-10", "b", "ttyUSB2", "ttyUSB10"]
    assert sorted([*ordered[5:], *ordered[:5]], key=natural_key) == ordered


@given(st.lists(st.text(alphabet="a0129-²٣", max_size=6)))
def test_the_order_is_total_and_does_not_depend_on_where_it_starts(texts: list[str]) -> None:
    assert sorted(texts, key=natural_key) == sorted([*texts[1:], *texts[:1]], key=natural_key)
