from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp import glob
from genericdp.config.containment import covers, lies_within
from genericdp.glob import is_within, segments_of

PIECES = ["a", "b", "-", "*", "?", "[ab]", "[!a]", "[a-b]", "[]a]", "[!-b]", "[", "[*]", "[?]"]
TEXTS = ["".join(one) for n in range(5) for one in itertools.product("ab-z]", repeat=n)]
TEXTS += ["[", "a[", "[b", "*", "a*", "?", "?b", "\n", "ü"]
PATTERNS = st.lists(st.sampled_from(PIECES), max_size=4).map("".join)


@given(PATTERNS, PATTERNS)
def test_what_is_covered_is_matched_by_both(wide: str, narrow: str) -> None:
    """Never allows what is outside."""
    if covers(wide, narrow):
        outside = [
            text for text in TEXTS if glob.matches(narrow, text) and not glob.matches(wide, text)
        ]
        assert outside == []


@given(st.lists(st.sampled_from(PIECES[:10]), max_size=3).map("".join), PATTERNS)
def test_what_is_not_covered_has_a_text_that_is_outside(narrow: str, wide: str) -> None:
    """The comparison is exact for patterns of everyday size."""
    if not covers(wide, narrow):
        longer = ("".join(one) for one in itertools.product("ab-z", repeat=6))
        assert any(
            glob.matches(narrow, text) and not glob.matches(wide, text)
            for text in itertools.chain(TEXTS, ["[]", "[a]", "a[]", "*?", "[*"], longer)
        )


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        ("*", "anything*", True),
        ("ttyUSB*", "ttyUSB[0-9]", True),
        ("ttyUSB[0-9]", "ttyUSB*", False),
        ("[a-z]*", "[c-e]?", True),
        ("[abz]", "[a-z]", False),
        ("[!a]", "[b-z]", True),
        ("[!m]", "[b-z]", False),
        ("*a*", "*b*a", True),
        ("*ab*", "*a*b*", False),
        ("?*", "*", False),
        ("*", "", True),
        ("a", "[a]", True),
        ("[[]x", "[[]x", True),
    ],
)
def test_globs_are_compared(wide: str, narrow: str, expected: bool) -> None:
    """What lies between the characters written counts: the offsets of ``_representatives``."""
    assert covers(wide, narrow) is expected


def test_patterns_that_are_hard_to_compare_count_as_not_covered() -> None:
    narrow = "*" + "a" + "?" * 30
    wide = "*" + "[ab]" + "?" * 29 + "a*"
    assert not covers(wide, narrow)


@pytest.mark.parametrize(
    ("path", "bound", "expected"),
    [
        ("/dev/ttyUSB0", "/dev", True),
        ("/dev", "/dev", True),
        ("/devious", "/dev", False),
        ("/dev/dri/card0", "/dev/dri*", True),
        ("/dev/a/b", "/dev/*/b", True),
        ("/dev/b", "/dev/*/b", False),
        ("/dev/../etc", "/dev", False),
        ("/opt/x/.", "/opt/x/*", False),
        ("/opt//x/", "/opt/x", True),
        ("/anything", "/", True),
        ("/opt/.x", "/opt/*", False),
        ("/opt/.x", "/opt/?x", False),
        ("/opt/.x", "/opt/[!a]x", False),
        ("/opt/.x", "/opt/[.]x", False),
        ("/opt/.x", "/opt/.*", True),
        ("/opt/x/.y", "/opt/*", True),
        ("/opt/.x", "/opt", True),
    ],
)
def test_a_path_lies_below_what_is_allowed_or_not(path: str, bound: str, expected: bool) -> None:
    assert is_within(path, segments_of(bound)) is expected


def test_a_pattern_lies_below_if_each_part_does() -> None:
    assert lies_within(("dev", "tty[0-3]", "x"), ("dev", "tty*"))
    assert not lies_within(("dev",), ("dev", "tty*"))
    assert not lies_within(("dev", "*"), ("dev", "tty*"))


DOTTED = st.lists(st.sampled_from([".", *PIECES[:7], "[.]"]), max_size=3).map("".join)
NAMES = ["".join(one) for n in range(1, 4) for one in itertools.product(".ab", repeat=n)]
NAMES = [name for name in NAMES if name not in {".", ".."}]


@given(DOTTED, DOTTED)
def test_a_dot_at_the_start_is_as_hidden_to_a_policy_as_to_a_config(wide: str, narrow: str) -> None:
    if lies_within([narrow], [wide]):
        found = [name for name in NAMES if is_within(name, [narrow])]
        assert [name for name in found if not is_within(name, [wide])] == []


def test_what_a_config_cannot_find_is_no_reason_to_refuse_it() -> None:
    assert lies_within(("opt", "*"), ("opt", "*"))
    assert lies_within(("opt", "?b"), ("opt", "*"))
    assert lies_within(("opt", ".*"), ("opt", ".*"))
    assert not lies_within(("opt", ".b*"), ("opt", "*"))
