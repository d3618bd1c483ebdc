from __future__ import annotations

import time

import pytest
from genericdp.glob import (
    escape,
    is_glob,
    matches,
    matches_any,
    pattern_problem,
    unescape,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("pattern", "text", "matched"),
    [
        ("ttyUSB*", "ttyUSB0", True),
        ("ttyUSB*", "ttyUSB", True),
        ("ttyUSB*", "xttyUSB0", False),
        ("ttyUSB?", "ttyUSB10", False),
        ("a[0-2]", "a1", True),
        ("a[!0-2]", "a1", False),
        ("a[!0-2]", "a3", True),
        ("a[]]", "a]", True),
        ("a[*]", "a*", True),
        ("a[*]", "ab", False),
        ("a.b", "axb", False),
        ("*", "a\nb", True),
        ("(a|b)", "a", False),
        ("A*", "ab", False),
    ],
)
def test_a_glob_matches_the_whole_text(pattern: str, text: str, matched: bool) -> None:
    assert matches(pattern, text) is matched


def test_case_can_be_ignored_and_any_of_several_may_match() -> None:
    assert matches("0BDA", "0bda", ignore_case=True)
    assert matches_any(["x", "0B*"], "0bda", ignore_case=True)
    assert not matches_any([], "0bda")


@given(st.text(max_size=12))
def test_an_escaped_text_matches_itself_alone(text: str) -> None:
    assert matches(escape(text), text)
    assert not matches(escape(text), text + "x")
    assert pattern_problem(escape(text)) is None
    assert unescape(escape(text)) == text


@given(st.text(alphabet="*?[]!-az/", max_size=15), st.text(alphabet="[]!-az/", max_size=10))
def test_any_text_is_a_pattern_or_says_why_not(pattern: str, text: str) -> None:
    assert isinstance(matches(pattern, text), bool)
    if pattern_problem(pattern) is None and not is_glob(pattern):
        assert matches(pattern, pattern)


def test_no_pattern_takes_long() -> None:
    begin = time.thread_time()
    assert not matches("*a" * 30 + "b", "a" * 2000)
    assert time.thread_time() - begin < 5
