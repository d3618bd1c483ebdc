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
        ("+8", 8),
        ("08", 8),
        ("8.0", 8),
        ("8.", 8),
        (".5k", 500),
        ("1.5Gi", 3 * 2**29),
        ("5000m", 5),
        ("1E", 10**18),
        ("1E3", 1000),
        ("12e-1", None),
        ("20e-1", 2),
        ("7Ei", 7 * 2**60),
        ("8Ei", None),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("0", None),
        ("-8", None),
        ("1.5", None),
        ("1m", None),
        ("1e", None),
        ("1e99", None),
        ("1e100", None),
        ("9" * 10_000, None),
        ("1K", None),
        ("1ki", None),
        ("1 Gi", None),
        ("1Gi\n", None),
        ("٣", None),
        (".", None),
        ("0x10", None),
        ("", None),
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
        (1, "1"),
        (1000, "1k"),
        (1100, "1100"),
        (1_500_000, "1500k"),
        (1024, "1Ki"),
        (1_024_000, "1000Ki"),
        (1536 * 2**20, "1536Mi"),
        (2**60, "1Ei"),
        (10**18, "976562500000000Ki"),
        (2**63 - 1, "9223372036854775807"),
    ],
)
def test_an_amount_is_written_as_the_api_server_stores_it(amount: int, text: str) -> None:
    """Otherwise it would count as changed; ``resource.Quantity`` parses and prints it so."""
    assert quantity(amount) == text


@pytest.mark.parametrize("text", ["-1", "", "1e99", "much", "9" * 40])
def test_what_is_not_a_quantity_in_a_claim_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        rounded_up(text)


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
