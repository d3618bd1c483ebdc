"""An exception while one resource is decided concerns that resource alone."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from genericdp.devices.changes import changes
from genericdp.devices.decide import Decision, decide
from genericdp.devices.inventory import Look, natural_key
from genericdp.model import ValueKind, ValueSource
from genericdp.template import parse
from hypothesis import given
from hypothesis import strategies as st

from tests.devices.known import Known
from tests.devices.making import finds, inject, node, nodes, resource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.devicelist import DeviceList
    from genericdp.devices.inventory import FoundFile
    from genericdp.model import Resource

GLOB = "/dev/tty[12]"


class BrokenError(Exception):
    """An error that our code does not expect."""


def ttys(numbers: Collection[int]) -> list[FoundFile]:
    return [node(f"/dev/tty{number}", (4, number)) for number in sorted(numbers)]


def looking(files: Sequence[FoundFile], broken: str = "") -> Callable[[str], Look]:
    """Return a read these files; one at the glob ``broken`` raises."""

    def look(pattern: str) -> Look:
        if pattern == broken:
            raise BrokenError(f"no code expects {pattern}")
        found = (file for file in files if finds(pattern, file.path))
        return Look(files=tuple(sorted(found, key=lambda file: natural_key(file.path))))

    return look


def decided(
    resources: Sequence[Resource],
    files: Sequence[FoundFile],
    previous: Mapping[str, DeviceList] | None = None,
    *,
    broken: str = "",
    facts: Known | None = None,
) -> Decision:
    host = facts or Known()
    host.look = looking(files, broken)
    return decide(resources, host, node_name="n", previous=previous or {}, now=0.0)


def ids(found: Decision, name: str) -> list[str]:
    entries = found.lists[f"example.com/{name}"].devices
    return [its_id for its_id, entry in entries.items() if entry.is_healthy]


FAILING = resource("failing", GLOB)
LATER = resource("later", "/dev/tty*")
NAMED = replace(
    FAILING,
    name="example.com/$(device.name)",
    names=("example.com/tty*",),
    name_template=parse("example.com/$(device.name)"),
)
PICKY = replace(FAILING, inject=inject(nodes("/dev/none/$(property.NO)")))
"""Has no device in its list, for what a container should get is missing."""
GIVING = replace(FAILING, inject=inject(nodes("$(device.path)"), nodes("/dev/x$(device.name)")))
BRINGING = resource(
    "later",
    "/dev/tty3",
    given=inject(nodes("$(device.path)"), nodes("/dev/tty$(property.NO:-1)")),
)
OF_LINKS = resource("later", "/dev/by-id/*")
LINK = node("/dev/by-id/one", (4, 1), target="/dev/tty1")
EXTRA = node("/dev/xtty1", (5, 1))
NEVER: tuple[tuple[Resource, ...], list[FoundFile]] = ((), [])
"""Nothing has been decided before."""


@pytest.mark.parametrize(
    ("before", "resources", "files", "offered"),
    [
        (
            ((FAILING, LATER), ttys({1, 2, 3, 4})),
            (FAILING, LATER),
            ttys({1, 2, 3, 5}),
            {"failing": ["tty1", "tty2"], "later": ["tty3", "tty5"]},
        ),
        (
            ((NAMED, LATER), ttys({1, 2, 3, 4})),
            (NAMED, LATER),
            ttys({1, 2, 3, 4}),
            {"tty1": ["tty1"], "tty2": ["tty2"], "later": ["tty3", "tty4"]},
        ),
        (
            ((NAMED,), ttys({1, 2})),
            (resource("tty1", GLOB),),
            ttys({1, 2}),
            {"tty1": ["tty1"]},
        ),
        (
            ((PICKY, LATER), ttys({1, 3})),
            (PICKY, LATER),
            ttys({1, 3}),
            {"failing": [], "later": ["tty3"]},
        ),
        (
            ((GIVING,), [*ttys({1}), EXTRA]),
            (resource("wanting", "/dev/xtty*"), GIVING),
            [*ttys({1}), EXTRA],
            {"failing": ["tty1"], "wanting": []},
        ),
        (NEVER, (FAILING, LATER), ttys({1, 2, 3}), {"failing": [], "later": ["tty3"]}),
        (NEVER, (LATER, FAILING), ttys({1, 2, 3}), {"later": ["tty1", "tty2", "tty3"]}),
        (NEVER, (FAILING, OF_LINKS), [*ttys({1}), LINK], {"later": []}),
        (NEVER, (FAILING, BRINGING), ttys({1, 3}), {"later": []}),
    ],
    ids=[
        "it keeps its list and the others go on",
        "what has resulted from its name stays too",
        "what had resulted from a name may fail as a resource of the next config",
        "candidates that it had refused stay its own",
        "no one gets a node that it has given",
        "before its first decision no one gets what it might take",
        "what comes before it is offered",
        "a link to what it might take is not a way around",
        "what it might take is not brought along with something else either",
    ],
)
def test_a_resource_that_fails_concerns_nobody_else(
    before: tuple[tuple[Resource, ...], list[FoundFile]],
    resources: tuple[Resource, ...],
    files: list[FoundFile],
    offered: dict[str, list[str]],
) -> None:
    first = decided(*before)
    found = decided(resources, files, first.lists, broken=GLOB)
    (failed,) = found.failures
    assert failed in {
        each_resource.name for each_resource in resources if each_resource.name != LATER.name
    }
    assert {name: ids(found, name) for name in offered} == offered
    again = decided(resources, files, found.lists, broken=GLOB)
    assert {name: ids(again, name) for name in offered} == offered, "also for the second time"


def errors(before: DeviceLists, found: Decision) -> set[str]:
    return {change.resource for change in changes(before, found) if change.level == logging.ERROR}


def test_it_is_told_once_and_when_it_is_over() -> None:
    files = ttys({1, 2, 3})
    before = decided([FAILING, LATER], files)
    broken = decided([FAILING, LATER], files, before.lists, broken=GLOB)
    still = decided([FAILING, LATER], files, broken.lists, broken=GLOB)
    over = decided([FAILING, LATER], files, still.lists)
    (values,) = [
        each_change
        for each_change in changes(before.lists, broken)
        if each_change.level == logging.ERROR
    ]
    assert (values.resource, type(values.error)) == (FAILING.name, BrokenError)
    assert list(changes(broken.lists, still)) == []
    assert [change.resource for change in changes(still.lists, over)] == [FAILING.name]
    assert (over.failures, over.lists[FAILING.name].undecided) == ({}, None)
    assert over.lists[FAILING.name].not_offered == ()


def test_what_results_from_a_name_is_told_of_unless_it_has_resulted_just_before() -> None:
    before = decided([NAMED, LATER], ttys({1, 2}))
    after = decided([NAMED, LATER], ttys({1, 2}), before.lists, broken=GLOB)
    assert errors(before.lists, after) == {NAMED.name, "example.com/tty1", "example.com/tty2"}
    named = replace(NAMED, inject=inject(nodes("/dev/x$(device.name)")))
    files = [*ttys({1, 2, 4}), EXTRA]
    found = decided([named, LATER], files, broken="/dev/xtty2")
    assert found.lists.keys() == {named.name, LATER.name}
    assert errors({}, found) == {named.name}
    assert ids(decided([named, LATER], files, found.lists), "tty1") == ["tty1"]


class BrokenFacts(Known):
    """A host on which one attribute cannot be requested."""

    def attribute(self, syspath: str, name: str) -> str | None:
        if name == "broken":
            raise BrokenError(syspath)
        return super().attribute(syspath, name)


def test_only_what_it_cannot_be_asked_about_is_withheld() -> None:
    """A selector by a value that raises for its candidates: they are withheld, others are not."""
    facts = BrokenFacts()
    disks = [facts.add(f"pci/{name}", "block", number=(8, i)) for i, name in enumerate("ab")]
    files = [
        node(disk.device_file, (8, i), syspath=disk.syspath, block=True)
        for i, disk in enumerate(disks)
    ]
    failing = replace(
        FAILING,
        values={"v": ValueSource(kind=ValueKind.TEXT, source=parse("$(attribute.broken)"))},
        match=(replace(resource("x", "/dev/a").match[0], values={"v": ("1",)}),),
    )
    found = decided([failing, resource("later", "/dev/*")], files, facts=facts)
    assert found.failures.keys() == {FAILING.name}
    assert ids(found, "later") == ["b"]


NUMBERS = st.sets(st.integers(1, 6), max_size=6)


@given(
    globs=st.lists(st.sampled_from([GLOB, "/dev/tty[2-4]", "/dev/tty?"]), min_size=2, max_size=4),
    failing=st.integers(0, 3),
    before=NUMBERS,
    after=NUMBERS,
)
def test_the_others_get_what_they_would_if_it_had_just_kept_its_list(
    globs: list[str], failing: int, before: set[int], after: set[int]
) -> None:
    own = "/dev/tty[56]"
    resources = [resource(f"r{number}", glob) for number, glob in enumerate(globs)]
    resources.insert(min(failing, len(resources)), resource("failing", own))
    first = decided(resources, ttys(before))
    files = ttys((after - {5, 6}) | ({5, 6} & before))
    steady = decided(resources, files, first.lists)
    found = decided(resources, files, first.lists, broken=own)
    assert found.failures.keys() == {FAILING.name}
    for name, offer in steady.lists.items():
        if name != FAILING.name:
            assert found.lists[name] == offer
    assert found.lists[FAILING.name].devices == first.lists[FAILING.name].devices
