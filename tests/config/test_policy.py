"""Policies, and what they say of a config's plain strings; the rest: cases of policies."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from genericdp.config.load import load
from genericdp.config.rules.policy import may_lie_within
from genericdp.glob import is_within, segments_of
from hypothesis import given
from hypothesis import strategies as st

from tests.config.bounded import HEAD

if TYPE_CHECKING:
    from pathlib import Path


def test_what_cannot_be_read_is_a_problem_and_no_policy(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    for spoil in (path.mkdir, path.rmdir, lambda: path.write_bytes(b"\xff\xfe\x00")):
        spoil()
        loaded = load([], policy=path)
        assert (loaded.policy, len(loaded.problems)) == (None, 1)


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n"])
def test_an_empty_policy_says_what_one_that_allows_nothing_has(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    (problem,) = load([], policy=path).problems
    first, second = HEAD.splitlines()
    assert problem.hint == f"a policy that allows nothing has two lines: '{first}' and '{second}'"


@pytest.mark.parametrize(
    ("mode", "who"), [(0o644, ""), (0o600, ""), (0o664, "its group"), (0o646, "any user")]
)
def test_a_policy_that_others_can_write_is_warned_about(
    tmp_path: Path, mode: int, who: str
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(HEAD)
    path.chmod(mode)
    messages = [warning.message for warning in load([], policy=path).warnings]
    assert [message.partition(" can write")[0] for message in messages] == [who] * bool(who)


OF_CONFIG = HEAD.replace("Policy", "Config")
PIECES = ["a", "b", "-", "*", "?", "[ab]", "[!a]", "[a-b]", "[]a]", "[!-b]", "[", "[*]", "[?]"]
TEXTS = [
    "".join(combination) for n in range(5) for combination in itertools.product("ab-z]", repeat=n)
]
TEXTS += ["[", "a[", "[b", "*", "a*", "?", "?b", "\n", "ü", ".a", ".-", "..a"]


@pytest.mark.parametrize(
    ("path", "rule", "is_taken"),
    [
        ("/dev/tty*", "/dev/ttyUSB*", True),
        ("/dev/ttyUSB?", "/dev/tty*", True),
        ("/dev/*", "/dev/ttyUSB0", True),
        ("/dev/*/card0", "/dev/dri", True),
        ("/dev/sd*", "/dev/ttyUSB*", False),
        ("/dev/ttyS*", "/dev/ttyUSB*", False),
        ("/dev/[[]x*", "/dev/[[]*", True),
        ("/dev/[[]x*", "/dev/[*]x*", False),
        ("/dev/tty*", "/dev/tty*/x", False),
        ("/dev/.*", "/dev/*", False),
        ("/dev/ttyUSB0", "/dev/ttyUSB[1-9]", False),
        ("/dev/ttyUSB[3]", "/dev/ttyUSB[1-9]", True),
    ],
)
def test_a_glob_is_refused_where_it_can_find_nothing_that_is_allowed(
    tmp_path: Path, path: str, rule: str, is_taken: bool
) -> None:
    policy, config = tmp_path / "p.yaml", tmp_path / "c.yaml"
    policy.write_text(f"{HEAD}devices: {{paths: ['{rule}']}}\n")
    config.write_text(f"{OF_CONFIG}resources: [{{name: a/b, match: [{{path: '{path}'}}]}}]\n")
    said = [problem.message for problem in load([config], policy=policy).problems]
    assert said == ([] if is_taken else [f"{path!r} is not allowed"])


@pytest.mark.parametrize(
    ("path", "rule", "expected"),
    [
        ("/dev/ttyUSB0", "/dev", True),
        ("/dev", "/dev", True),
        ("/dev", "/dev/tty*", False),
        ("/devious", "/dev", False),
        ("/dev/dri/card0", "/dev/dri*", True),
        ("/dev/a/b", "/dev/*/b", True),
        ("/dev/b", "/dev/*/b", False),
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
def test_a_path_lies_below_what_is_allowed_or_not(path: str, rule: str, expected: bool) -> None:
    outer = segments_of(rule)
    assert is_within(path, outer) is may_lie_within(segments_of(path), outer) is expected


DOTTED = st.lists(st.sampled_from([".", *PIECES, "[.]"]), max_size=4).map("".join)


@given(DOTTED, DOTTED)
def test_a_glob_that_can_find_what_is_allowed_is_never_refused(wide: str, narrow: str) -> None:
    found = [name for name in TEXTS if is_within(f"/{name}", [narrow])]
    if any(is_within(f"/{name}", [wide]) for name in found):
        assert may_lie_within([narrow], [wide])
