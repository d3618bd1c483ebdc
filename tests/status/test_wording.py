"""Sentences about the state."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from genericdp.status.model import ResourceStatus
from genericdp.status.wording import absolute, span, summary, visible
from tests.status.samples import EMPTY, NOW, RICH, device, many


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (-5, "0 s"),
        (nan, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (3660, "1 h 1 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (90_000, "1 d 1 h"),
        (86_400 * 4000, "4,000 d"),
    ],
)
def test_a_duration_has_its_largest_units(seconds: float, said: str) -> None:
    assert span(seconds) == said


@pytest.mark.parametrize("seconds", [nan, inf, -inf, 1e300])
def test_a_time_that_is_none_is_said_to_be_unknown(seconds: float) -> None:
    assert absolute(seconds) == "at an unknown time"


def test_a_time_is_said_in_utc() -> None:
    assert absolute(NOW) == "2026-11-21 19:00:00 UTC"


def test_what_hides_or_reorders_text_is_made_visible() -> None:
    assert visible("a\u202eb\nc\u200bd\x1b[2J") == "a\\u202eb\\nc\\u200bd\\x1b[2J"
    assert visible("é 漢 ñ") == "é 漢 ñ"


def test_a_long_text_is_cut_and_what_is_left_out_is_counted() -> None:
    assert visible("abcd", 4) == "abcd"
    assert visible("abcde", 4) == "abcd… (1 more character)"
    assert visible("a" * 2004, 4) == "aaaa… (2,000 more characters)"


def test_the_summary_says_what_is_wrong() -> None:
    assert summary(RICH) == (
        "4 of 5 resources registered, 71 of 75 devices Healthy."
        " Unhealthy: example.com/serial: ttyUSB1, ttyUSB2, ttyUSB5; example.com/loop: loop40."
        " The config on disk is refused. Also served by somebody else: example.com/fuse."
    )
    assert summary(EMPTY) == (
        "No config is in force: nothing is served. The config on disk is refused."
    )


def test_the_summary_says_that_all_is_well() -> None:
    well = ResourceStatus(name="example.com/a", registered=True, devices=(device(0),))
    status = replace(many(0, 0), resources=(well,))
    assert summary(status) == "1 resource registered, 1 device Healthy."
    nothing = "The config has no resource for this node."
    assert summary(replace(status, resources=())) == nothing


def test_the_summary_names_a_few_of_many() -> None:
    said = summary(many(8, 1000))
    assert "ttyUSB200 and 15 more; example.com/kind-1" in said
    assert said.endswith("; and of 3 more resources.")
