"""Quantities of Kubernetes, and policies for what claims can request."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from genericdp.devices.capacity import problem, quantity, rounded_up, whole
from genericdp.model import RequestPolicy
from hypothesis import given
from hypothesis import strategies as st

AMOUNTS = st.integers(1, 2**63 - 1) | st.builds(
    lambda factor, power, base: min(factor * base**power, 2**63 - 1),
    st.integers(1, 5000),
    st.integers(0, 6),
    st.sampled_from((10, 1000, 1024)),
)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("8", 8),
        ("+08.", 8),
        (".5k", 500),
        ("1.5Gi", 3 * 2**29),
        ("5000m", 5),
        ("1E", 10**18),
        ("20e-1", 2),
        ("7Ei", 7 * 2**60),
        ("8Ei", None),
        ("9223372036854775807", 2**63 - 1),
        *((text, None) for text in ("9223372036854775808", "0", "-8", "1.5", "1m", "1e100")),
        *((text, None) for text in ("9" * 10_000, "1K", "1Gi\n", "٣", ".", "0x10", "")),
    ],
)
def test_a_capacity_is_a_whole_amount_as_kubernetes_writes_quantities(
    text: str, amount: int | None
) -> None:
    assert whole(text) == amount


@given(AMOUNTS)
def test_an_amount_is_written_so_that_it_can_be_read_again(amount: int) -> None:
    assert whole(quantity(amount)) == amount == rounded_up(quantity(amount))


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (1100, "1100"),
        (1_500_000, "1500k"),
        (1_024_000, "1000Ki"),
        (1536 * 2**20, "1536Mi"),
        (10**18, "976562500000000Ki"),
        (2**63 - 1, "9223372036854775807"),
    ],
)
def test_an_amount_is_written_as_the_api_server_stores_it(amount: int, text: str) -> None:
    """Otherwise it would count as changed; ``resource.Quantity`` parses and prints it so."""
    assert quantity(amount) == text


@given(st.fractions(0, 10**6).map(lambda number: round(number, 3)))
def test_what_a_claim_has_is_rounded_up(number: Fraction) -> None:
    assert rounded_up(f"{int(number * 1000)}m") == math.ceil(number)


LIMITS = st.none() | st.integers(1, 40)


@given(LIMITS, LIMITS, LIMITS, LIMITS, st.integers(1, 40))
def test_a_policy_that_passes_is_one_of_which_a_claim_can_get_what_it_says(
    least: int | None, default: int | None, most: int | None, step: int | None, amount: int
) -> None:
    """As the API server's validation puts it."""
    policy = RequestPolicy(default=default, min=least, max=most, step=step)
    numbers = [number for number in (least, default, most, amount) if number is not None]
    is_right = numbers == sorted(numbers)
    if step and least:
        is_right &= all((number - least) % step == 0 for number in (default, most) if number)
        is_right &= least + step <= amount
    assert (problem(policy, amount) == "") is is_right
