"""Globs, regular expressions and natural order: what they match, in a time that is bounded."""

from __future__ import annotations

import time

import pytest
from genericdp.devices.inventory import natural_key
from genericdp.glob import escape, is_glob, matches, matches_any, pattern_problem, unescape
from genericdp.regex import (
    PatternError,
    SearchTimeError,
    TextTooLongError,
    compiled,
    extract,
    limited,
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
        ("a[*]", "ab", False),
        ("a.b", "axb", False),
        ("*", "a\nb", True),
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


@given(st.text(alphabet="*?[]!-az/", max_size=15))
def test_any_text_is_a_pattern_or_says_why_not(pattern: str) -> None:
    assert matches(pattern, pattern) or is_glob(pattern) or pattern_problem(pattern)


def test_no_pattern_takes_long() -> None:
    begin = time.thread_time()
    assert not matches("*a" * 30 + "b", "a" * 2000)
    assert time.thread_time() - begin < 5


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"\d+", "ab12cd34", "12"),
        (r"b(\d)(\d)", "ab12", "1"),
        (r"^a|b$", "xb", "b"),
        (r"(?i)ACTIVE", "4: active", "active"),
        (r"(?m)^Minor: (\d+)$", "Major: 1\nMinor: 2\n", "2"),
        (r"(x)?y", "y", None),
        (r"ü+", "xüü", "üü"),
        ("", "abc", ""),
        ("x", "", None),
    ],
)
def test_group_1_else_the_whole_hit(pattern: str, text: str, expected: str | None) -> None:
    assert extract(pattern, text) == expected


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(" * 20_000 + "a" + ")" * 20_000, "20000 groups: at most 32"),  # took 6 GiB
        ("(ab){900}.*c", "it is too large"),  # took 33 s for 1 MB
    ],
)
def test_a_broken_pattern_says_why_and_writes_nowhere(
    pattern: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PatternError, match=f"(?i){said.replace(')', '[)]')}"):
        compiled(pattern)
    assert capfd.readouterr() == ("", "")


def test_a_text_that_would_take_too_long_is_not_searched() -> None:
    begun = time.process_time()
    assert extract("(a+)+b", "a" * 100_000) is None
    assert time.process_time() - begun < 5, "as Python's own re would take"
    slow = "[ab]*a[ab]{500}c"
    assert extract(slow, "ab" * 32 * 1024) is None
    with pytest.raises(TextTooLongError, match=r"the text is too long for .* at most 1.. KiB"):
        extract(slow, "ab" * 500_000)
    assert extract("^a.*b$", "ab" * 500_000) is not None


@given(st.text(max_size=20), st.text(max_size=40))
def test_any_pattern_is_refused_or_searched(pattern: str, text: str) -> None:
    try:
        found = extract(pattern, text)
    except PatternError as error:
        assert str(error)
    else:
        assert found is None or found in text


def test_only_what_searches_take_counts_toward_their_time() -> None:
    with limited(0.1):
        begun = time.thread_time()
        while time.thread_time() - begun < 0.15:
            pass  # as a scan of thousands of devices takes
        assert extract("a+", "xaa") == "aa"
        with pytest.raises(SearchTimeError, match=r"more than 0\.1 s"):
            while True:
                extract("[ab]*a[ab]{900}c", "ab" * 3_000)
    assert extract("a+", "xaa") == "aa"


def test_numbers_count_as_numbers() -> None:
    ordered = ["a", "a01", "a1", "a2", "a2b", "a10", "a10-2", "a10-10", "b", "ttyUSB2", "ttyUSB10"]
    assert sorted([*ordered[5:], *ordered[:5]], key=natural_key) == ordered
