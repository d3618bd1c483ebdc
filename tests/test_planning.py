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

    from genericdp.model import Resource

A, B, C = (resource(f"example.com/{letter}", "/dev/null") for letter in "abc")


MOVED = replace(A, place=replace(A.place, line=99))
UNASKED = replace(A, prefer=Preference.NONE)
PACKED = replace(B, prefer=Preference.PACKED)
HOOKED = replace(A, hooks={"preStart": Hook(command=Command(argv=(parse("/bin/true"),)))})


@pytest.mark.parametrize(
    ("wanted", "running", "stop", "update", "start"),
    [
        pytest.param({}, {}, "", "", "", id="nothing-wanted-nothing-runs"),
        pytest.param({"a": A}, {}, "", "", "a", id="new-ones-start"),
        pytest.param({}, {"a": A}, "a", "", "", id="gone-ones-stop"),
        pytest.param({"a": A}, {"a": A}, "", "", "", id="equal-ones-stay"),
        pytest.param({"a": MOVED}, {"a": A}, "", "", "", id="another-line-is-no-change"),
        pytest.param({"a": B}, {"a": A}, "", "a", "", id="changed-ones-change"),
        pytest.param(
            {"a": A, "b": C, "c": C}, {"b": B, "d": A, "c": C}, "d", "b", "a", id="all-at-once"
        ),
        pytest.param(
            {"a": HOOKED}, {"a": A}, "a", "", "a", id="other-options-begin-anew"  # REG-7
        ),
        pytest.param(
            {"a": A, "b": PACKED}, {"a": UNASKED, "b": B}, "a", "b", "a",
            id="a-kubelet-asks-for-preferred-devices-or-does-not",  # REG-7
        ),
    ],
)  # fmt: skip
def test_a_plan_compares_what_should_be_with_what_is(
    wanted: dict[str, Resource], running: dict[str, Resource], stop: str, update: str, start: str
) -> None:
    assert plan(wanted, running) == planned(stop, update, start)


def planned(stop: str, update: str, start: str) -> Plan:
    return Plan(stop=frozenset(stop), update=frozenset(update), start=frozenset(start))


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (Plan(), "nothing to change"),
        (planned("abc", "d", "aef"), "2 added, 2 removed, 2 changed"),
        (planned("ab", "", "b"), "0 added, 1 removed, 1 changed"),
    ],
)
def test_what_begins_anew_is_told_as_changed_not_as_removed_and_added(
    plan: Plan, text: str
) -> None:
    assert str(plan) == text


def test_what_bounds_it_is_left_out_where_only_the_config_counts(tmp_path: Path) -> None:
    bounded = {"a": replace(A, policy=policy_of(tmp_path, "devices: {}\n"))}
    assert without_policy(bounded) == {"a": A}
    assert plan(bounded, {"a": A}) == Plan(update=frozenset("a"))
