"""What makes a remembered decision be taken again, and what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.devices.inventory import Inventory, Look
from genericdp.devices.remembering import Memory
from tests.devices.known import ROOT, Known

if TYPE_CHECKING:
    from collections.abc import Callable

DISK, PART, OTHER = f"{ROOT}/disk", f"{ROOT}/disk/part", f"{ROOT}/other"
ONLINE = "/sys/devices/system/node/online"


def nothing(_: Inventory) -> object:
    return None


def attribute_above(inventory: Inventory) -> object:
    return inventory.facts.attribute(DISK, "size")


def other_device(inventory: Inventory) -> object:
    return inventory.facts.attribute(OTHER, "size")


def below_other(inventory: Inventory) -> object:
    return inventory.facts.below(OTHER, "block")


def a_file(inventory: Inventory) -> object:
    return inventory.facts.text(ONLINE)


def members(inventory: Inventory) -> object:
    return inventory.facts.members("block")


def paths(inventory: Inventory) -> object:
    return inventory.facts.paths("/sys/l*")


def a_glob(inventory: Inventory) -> object:
    return inventory.found("/dev/x*")


@pytest.mark.parametrize(
    ("asked", "told", "again"),
    [
        pytest.param(nothing, PART, True, id="itself"),
        pytest.param(nothing, DISK, True, id="what-it-sits-on"),
        pytest.param(nothing, f"{PART}/holder", False, id="what-sits-on-it"),
        pytest.param(nothing, f"{DISK}2", False, id="a-longer-name"),
        pytest.param(nothing, OTHER, False, id="another"),
        pytest.param(attribute_above, OTHER, False, id="asked-above-other-told"),
        pytest.param(attribute_above, DISK, True, id="asked-above"),
        pytest.param(other_device, OTHER, True, id="asked-another"),
        pytest.param(other_device, ROOT, True, id="what-another-sits-on"),
        pytest.param(below_other, f"{OTHER}/new", True, id="below-a-folder"),
        pytest.param(below_other, f"{OTHER}/new/deep", True, id="deep-below-a-folder"),
        pytest.param(below_other, f"{OTHER}2/new", False, id="below-another-folder"),
        pytest.param(a_file, OTHER, False, id="an-answer-that-stays"),
        pytest.param(members, OTHER, False, id="members-that-stay"),
    ],
)
def test_a_decision_holds_until_what_was_asked_for_it_is_told_of(
    asked: Callable[[Inventory], object], told: str, again: bool
) -> None:
    facts, memory = host(), Memory()
    decide(facts, memory, asked)
    memory.forget([told], [], facts)
    assert ("key" not in memory.part("p")) == again


@pytest.mark.parametrize("asked", [a_file, members, paths])
def test_another_answer_from_outside_makes_it_be_decided_again(
    asked: Callable[[Inventory], object],
) -> None:
    facts, memory = host(), Memory()
    decide(facts, memory, asked)
    facts.texts[ONLINE] = "0-1"
    facts.links["/sys/l2"] = "x"
    facts.add("new", "block")
    memory.forget([], [], facts)
    assert "key" not in memory.part("p")
    decide(facts, memory, asked)
    memory.forget([], [], facts)
    assert "key" in memory.part("p"), "and holds again"


def test_two_decisions_by_one_question_that_was_answered_differently() -> None:
    """The first is dropped: it was decided by what is no longer so."""
    facts, memory = host(), Memory()
    decide(facts, memory, a_file, key="first")
    facts.texts[ONLINE] = "0-1"
    decide(facts, memory, a_file, key="second")
    memory.forget([], [], facts)
    assert set(memory.part("p")) == {"second"}


@pytest.mark.parametrize(("changed", "again"), [("/dev/x*", True), ("/dev/y*", False)])
def test_a_glob_that_finds_something_else(changed: str, again: bool) -> None:
    facts, memory = host(), Memory()
    decide(facts, memory, a_glob)
    memory.forget([], [changed], facts)
    assert ("key" not in memory.part("p")) == again


def test_nothing_is_noted_when_nothing_is_decided() -> None:
    facts, memory = host(), Memory()
    inventory = decide(facts, memory, nothing)
    other_device(inventory)
    a_glob(inventory)
    memory.forget([OTHER], ["/dev/x*"], facts)
    assert "key" in memory.part("p")


def host() -> Known:
    facts = Known()
    for path in ("disk", "disk/part", "other"):
        facts.add(path, "block", attributes={"size": "1"})
    facts.texts[ONLINE] = "0"
    facts.links["/sys/l1"] = "x"
    return facts


def decide(
    facts: Known, memory: Memory, asked: Callable[[Inventory], object], key: str = "key"
) -> Inventory:
    inventory = Inventory(lambda _: Look(), facts, memory)
    part = memory.part("p")
    inventory.decide(part, key, PART, lambda: asked(inventory))
    assert key in part
    return inventory
