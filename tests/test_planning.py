"""genericdp.devices.changes: what has to be done about which resource."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from genericdp.devices.changes import Plan, plan, without_policy
from genericdp.model import Command, Hook, Preference
from genericdp.template import parse
from tests.config.bounded import policy_of
from tests.modelled import resource

if TYPE_CHECKING:
    from pathlib import Path

A, B, C = (resource(f"example.com/{letter}", "/dev/null") for letter in "abc")


UNASKED = replace(A, prefer=Preference.NONE)
PACKED = replace(B, prefer=Preference.PACKED)
HOOKED = replace(A, hooks={"preStart": Hook(command=Command(argv=(parse("/bin/true"),)))})


@pytest.mark.parametrize(
    ("wanted", "running", "expected"),
    [
        pytest.param({}, {}, Plan(), id="nothing-wanted-nothing-runs"),
        pytest.param({"a": A}, {}, Plan(start=frozenset("a")), id="new-ones-start"),
        pytest.param({}, {"a": A}, Plan(stop=frozenset("a")), id="gone-ones-stop"),
        pytest.param({"a": A}, {"a": A}, Plan(), id="equal-ones-stay"),
        pytest.param({"a": B}, {"a": A}, Plan(update=frozenset("a")), id="changed-ones-change"),
        pytest.param(
            {"a": A, "b": C, "c": C},
            {"b": B, "d": A, "c": C},
            Plan(stop=frozenset("d"), update=frozenset("b"), start=frozenset("a")),
            id="all-at-once",
        ),
        pytest.param(
            {"a": HOOKED},
            {"a": A},
            Plan(stop=frozenset("a"), start=frozenset("a")),
            id="other-options-begin-anew",  # REG-7
        ),
        pytest.param(
            {"a": A, "b": PACKED},
            {"a": UNASKED, "b": B},
            Plan(stop=frozenset("a"), start=frozenset("a"), update=frozenset("b")),
            id="a-kubelet-asks-for-preferred-devices-or-does-not",  # REG-7
        ),
    ],
)
def test_a_plan_compares_what_should_be_with_what_is(
    wanted: dict[str, object], running: dict[str, object], expected: Plan
) -> None:
    assert plan(wanted, running) == expected  # type: ignore[arg-type]


def test_the_place_in_the_config_is_no_change() -> None:
    """A comment added above a resource must not restart it."""
    moved = replace(A, place=replace(A.place, line=99))
    assert plan({"a": moved}, {"a": A}) == Plan()


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (Plan(), "nothing to change"),
        (
            Plan(stop=frozenset("abc"), update=frozenset("d"), start=frozenset("aef")),
            "2 added, 2 removed, 2 changed",
        ),
        (Plan(stop=frozenset("ab"), start=frozenset("b")), "0 added, 1 removed, 1 changed"),
    ],
)
def test_what_begins_anew_is_told_as_changed_not_as_removed_and_added(
    plan: Plan, text: str
) -> None:
    assert str(plan) == text


def test_what_bounds_it_is_left_out_where_only_the_config_counts(tmp_path: Path) -> None:
    policy = policy_of(tmp_path, "devices: {}\n")
    bounded = {"a": replace(A, policy=policy)}
    assert without_policy(bounded) == {"a": A}
    assert plan(bounded, {"a": A}) == Plan(update=frozenset("a"))
