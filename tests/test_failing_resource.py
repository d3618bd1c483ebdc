"""An exception while one resource is decided concerns that resource alone."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from genericdp.devices.changes import changes
from genericdp.devices.decide import Decision, decide
from genericdp.devices.inventory import Look, natural_key
from genericdp.host.cache import HostCache, Stale
from genericdp.model import ValueKind, ValueSource
from genericdp.template import parse
from tests.devices.known import Known
from tests.devices.making import finds, inject, node, nodes, resource
from tests.fixtures.make_tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from genericdp.devices.changes import Change
    from genericdp.devices.devicelist import DeviceList
    from genericdp.devices.inventory import FoundFile
    from genericdp.model import Resource


class BrokenError(Exception):
    """What no code of ours expects."""


def tty(number: int) -> FoundFile:
    return node(f"/dev/tty{number}", (4, number))


def looking(*files: FoundFile, broken: str = "") -> Callable[[str], Look]:
    """Return a look at these files; one at the glob ``broken`` raises."""

    def look(pattern: str) -> Look:
        if pattern == broken:
            raise BrokenError(f"no code expects {pattern}")
        found = (one for one in files if finds(pattern, one.path))
        return Look(files=tuple(sorted(found, key=lambda one: natural_key(one.path))))

    return look


def decided(
    resources: list[Resource],
    look: Callable[[str], Look],
    previous: Mapping[str, DeviceList] | None = None,
    facts: Known | None = None,
) -> Decision:
    host = facts or Known()
    host.look = look
    return decide(resources, host, node_name="n", previous=previous or {}, now=0.0)


def ids(found: Decision, name: str) -> list[str]:
    return [i for i, one in found.lists[f"example.com/{name}"].devices.items() if one.is_healthy]


FAILING = resource("failing", "/dev/tty[12]")
LATER = resource("later", "/dev/tty*")
NAMED = replace(
    FAILING,
    name="example.com/$(device.name)",
    names=("example.com/tty*",),
    name_template=parse("example.com/$(device.name)"),
)


def test_it_keeps_its_list_and_the_others_go_on() -> None:
    before = decided([FAILING, LATER], looking(*map(tty, range(1, 5))))
    assert (ids(before, "failing"), ids(before, "later")) == (["tty1", "tty2"], ["tty3", "tty4"])
    files = (tty(1), tty(2), tty(3), tty(5))
    after = decided([FAILING, LATER], looking(*files, broken="/dev/tty[12]"), before.lists)
    assert after.lists["example.com/failing"].devices == before.lists["example.com/failing"].devices
    assert ids(after, "later") == ["tty3", "tty5"]
    assert after.failures.keys() == {"example.com/failing"}
    (told,) = after.lists["example.com/failing"].not_offered
    assert told.text == (
        "it cannot be decided what is offered: BrokenError('no code expects /dev/tty[12]');"
        " what was offered stays as it was"
    )
    again = decided([FAILING, LATER], looking(*files), after.lists)
    assert (again.failures, again.lists["example.com/failing"].undecided) == ({}, None)
    assert again.lists["example.com/failing"].not_offered == ()


def test_what_has_resulted_from_its_name_stays_too() -> None:
    before = decided([NAMED, LATER], looking(*map(tty, range(1, 5))))
    after = decided(
        [NAMED, LATER], looking(*map(tty, range(1, 5)), broken="/dev/tty[12]"), before.lists
    )
    for name in ("tty1", "tty2"):
        assert ids(after, name) == ids(before, name) == [name]
    assert ids(after, "later") == ["tty3", "tty4"]
    lines = [one for one in changes(before.lists, after) if one.level == logging.ERROR]
    assert {one.resource for one in lines} == {
        NAMED.name, "example.com/tty1", "example.com/tty2"
    }  # fmt: skip


def test_what_had_resulted_from_a_name_may_fail_as_a_resource_of_the_next_config() -> None:
    before = decided([NAMED], looking(tty(1), tty(2)))
    own = resource("tty1", "/dev/tty1")
    after = decided([own], looking(tty(1), tty(2), broken="/dev/tty1"), before.lists)
    assert after.failures.keys() == {"example.com/tty1"}
    assert ids(after, "tty1") == ids(before, "tty1") == ["tty1"]


def test_a_name_that_has_resulted_just_before_it_failed_is_no_resource() -> None:
    named = replace(NAMED, inject=inject(nodes("/dev/x$(device.name)")))
    files = (tty(1), tty(2), tty(4), node("/dev/xtty1", (5, 1)))
    after = decided([named, LATER], looking(*files, broken="/dev/xtty2"))
    assert after.lists.keys() == {named.name, LATER.name}
    assert after.failures.keys() == {named.name}
    assert [one.resource for one in changes({}, after) if one.level == logging.ERROR] == [
        named.name
    ]
    again = decided([named, LATER], looking(*files), after.lists)
    assert ids(again, "tty1") == ["tty1"]


def test_candidates_that_it_had_refused_stay_its_own() -> None:
    """They have no device in its list, yet a later resource may not take them."""
    picky = replace(FAILING, inject=inject(nodes("/dev/none/$(property.NO)")))
    before = decided([picky, LATER], looking(tty(1), tty(3)))
    assert before.lists["example.com/failing"].devices == {}
    after = decided([picky, LATER], looking(tty(1), tty(3), broken="/dev/tty[12]"), before.lists)
    assert ids(after, "later") == ["tty3"]


def test_nobody_gets_a_node_that_it_has_given() -> None:
    giving = replace(FAILING, inject=inject(nodes("$(device.path)"), nodes("/dev/x$(device.name)")))
    extra = node("/dev/xtty1", (5, 1))
    wanting = resource("wanting", "/dev/xtty*")
    before = decided([giving], looking(tty(1), extra))
    assert ids(before, "failing") == ["tty1"]
    look = looking(tty(1), extra, broken="/dev/tty[12]")
    after = decided([wanting, giving], look, before.lists)
    assert ids(after, "wanting") == []
    (refused,) = after.lists["example.com/wanting"].not_offered
    assert refused.text.startswith(
        "its node /dev/xtty1 belongs to device tty1 of example.com/failing"
    )


def test_before_its_first_decision_nobody_gets_what_it_might_take() -> None:
    look = looking(*map(tty, range(1, 4)), broken="/dev/tty[12]")
    found = decided([FAILING, LATER], look)
    assert (found.lists["example.com/failing"].devices, ids(found, "later")) == ({}, ["tty3"])
    assert {one.text for one in found.lists["example.com/later"].not_offered} == {
        "may belong to resource example.com/failing, which comes first in the config and cannot be"
        " decided"
    }
    first = decided([LATER, FAILING], look)
    assert ids(first, "later") == ["tty1", "tty2", "tty3"], "it comes first: all is its own"
    again = decided([FAILING, LATER], look, found.lists)
    assert ids(again, "later") == ["tty3"], "it has still never been decided"


def test_a_link_to_what_it_might_take_is_no_way_around() -> None:
    link = node("/dev/by-id/one", (4, 1), target="/dev/tty1")
    look = looking(tty(1), link, broken="/dev/tty[12]")
    found = decided([FAILING, resource("later", "/dev/by-id/*")], look)
    assert ids(found, "later") == []


def test_what_it_might_take_is_not_brought_along_with_something_else_either() -> None:
    pair = replace(
        resource("later", "/dev/tty3"),
        inject=inject(nodes("$(device.path)"), nodes("/dev/tty$(property.NO:-1)")),
    )
    found = decided([FAILING, pair], looking(tty(1), tty(3), broken="/dev/tty[12]"))
    assert ids(found, "later") == []


class BrokenFacts(Known):
    """A host on which one attribute cannot be asked for."""

    def attribute(self, syspath: str, name: str) -> str | None:
        if name == "broken":
            raise BrokenError(syspath)
        return super().attribute(syspath, name)


def test_only_what_it_cannot_be_asked_about_is_withheld() -> None:
    """A selector by a value that raises for its candidates: they are withheld, others are not."""
    value = ValueSource(kind=ValueKind.TEXT, source=parse("$(attribute.broken)"))
    facts = BrokenFacts()
    disks = [facts.add(f"pci/{name}", "block", number=(8, i)) for i, name in enumerate("ab")]
    files = [
        node(one.device_file, (8, i), syspath=one.syspath, block=True)
        for i, one in enumerate(disks)
    ]
    failing = replace(
        FAILING,
        values={"v": value},
        match=(replace(resource("x", "/dev/a").match[0], values={"v": ("1",)}),),
    )
    found = decided([failing, resource("later", "/dev/*")], looking(*files), facts=facts)
    assert found.failures.keys() == {"example.com/failing"}
    assert ids(found, "later") == ["b"]


def test_it_is_told_once_and_when_it_is_over(short_folder: Path) -> None:
    tree = Tree(short_folder)
    tree.node("tty1", "4:1")
    tree.node("tty3", "4:3")
    broken = True

    class BrokenHost(HostCache):
        def look(self, pattern: str) -> Look | None:
            if broken and pattern == "/dev/tty[12]":
                raise BrokenError("odd")
            return super().look(pattern)

    host = BrokenHost(tree.root)
    logged: list[Change] = []
    lists: dict[str, DeviceList] = {}

    def reconcile() -> Decision:
        nonlocal lists
        host.forget(Stale())
        found = decide((FAILING, LATER), host, node_name="n", previous=lists, now=0.0)
        logged.extend(changes(lists, found))
        lists = found.lists
        return found

    for _ in range(2):
        assert ids(reconcile(), "later") == ["tty3"]
    (told,) = [one for one in logged if one.level == logging.ERROR]
    assert told.text.startswith("it cannot be decided what is offered: BrokenError('odd');")
    assert (told.resource, repr(told.error)) == ("example.com/failing", "BrokenError('odd')")
    broken = False
    found = reconcile()
    assert (ids(found, "failing"), ids(found, "later")) == (["tty1"], ["tty3"])
    again = "it can be decided again what is offered"
    assert [one.resource for one in logged if one.text == again] == ["example.com/failing"]


NUMBERS = st.sets(st.integers(1, 6), max_size=6)


@given(
    globs=st.lists(
        st.sampled_from(["/dev/tty[12]", "/dev/tty[2-4]", "/dev/tty?"]), min_size=2, max_size=4
    ),
    failing=st.integers(0, 3),
    before=NUMBERS,
    after=NUMBERS,
)
def test_the_others_get_what_they_would_if_it_had_just_kept_its_list(
    globs: list[str], failing: int, before: set[int], after: set[int]
) -> None:
    own = "/dev/tty[56]"
    resources = [resource(f"r{i}", one) for i, one in enumerate(globs)]
    resources.insert(min(failing, len(resources)), resource("failing", own))
    first = decided(resources, looking(*map(tty, before)))
    kept = {5, 6} & before
    steady = decided(resources, looking(*map(tty, (after - {5, 6}) | kept)), first.lists)
    look = looking(*map(tty, (after - {5, 6}) | kept), broken=own)
    found = decided(resources, look, first.lists)
    assert found.failures.keys() == {"example.com/failing"}
    for name, offer in steady.lists.items():
        if name != "example.com/failing":
            assert found.lists[name] == offer
    assert found.lists["example.com/failing"].devices == first.lists["example.com/failing"].devices
