"""Quantiles: the middle of blocks is compared, the tails are looked at."""

from __future__ import annotations

from bench.quantiles import quantiles


def test_few_samples_are_shown_whole_and_have_no_p999() -> None:
    middle, tail = quantiles("x", [[1.0, 5.0], [3.0]], [[1.0]], goals={"p99": 4.0})
    assert middle.what == "x, p50"
    assert middle.daemon == (1.0, 5.0, 3.0)
    assert middle.ratio == 3.0
    assert middle.met is None
    assert tail.what == "x, p99"
    assert tail.daemon == (5.0,)
    assert tail.ratio is None
    assert tail.met is False


def test_of_many_samples_each_block_gives_one_and_the_tails_are_of_all() -> None:
    blocks = [[1.0] * 999 + [9.0], [2.0] * 1000, [3.0] * 1000]
    middle, _, tail = quantiles("x", blocks, [[1.0] * 1000])
    assert middle.daemon == (1.0, 2.0, 3.0)
    assert middle.ratio == 2.0
    assert tail.what == "x, p99.9"
    assert tail.daemon == (3.0,)
    assert tail.ratio is None


def test_the_baseline_must_have_enough_samples_for_a_p999_as_well() -> None:
    assert len(quantiles("x", [[1.0] * 1000], [[1.0] * 10])) == 2
    assert len(quantiles("x", [[1.0] * 1000], [])) == 3
