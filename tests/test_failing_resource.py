"""An exception while one resource is decided concerns that resource alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import pytest
from genericdp.devices.changes import changes
from genericdp.devices.decide import Decision, decide
from genericdp.devices.devicelist import DeviceList
from genericdp.devices.inventory import FoundFile, Look, natural_key
from genericdp.model import Resource
from genericdp.template import parse
from hypothesis import given
from hypothesis import strategies as st

from tests.devices.known import Known
from tests.devices.making import finds, inject, node, nodes, resource

GLOB = "/dev/tty[12]"


class BrokenError(Exception):
    """An exception that no code of ours expects."""


def ttys(numbers: Collection[int]) -> list[FoundFile]:
    return [node(f"/dev/tty{number}", (4, number)) for number in sorted(numbers)]


def looking(files: Sequence[FoundFile], broken: str = "") -> Callable[[str], Look]:
    """Return a scan of these files; that of the glob ``broken`` raises."""

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
) -> Decision:
    host = Known(look=looking(files, broken))
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
GIVING = replace(FAILING, inject=inject(nodes("$(device.path)"), nodes("/dev/x$(device.name)")))
BRINGING = resource(
    "later", "/dev/tty3", given=inject(nodes("$(device.path)"), nodes("/dev/tty$(property.NO:-1)"))
)
OF_LINKS = resource("later", "/dev/by-id/*")
LINK = node("/dev/by-id/one", (4, 1), target="/dev/tty1")
EXTRA = node("/dev/xtty1", (5, 1))
FOUR, THREE = ttys({1, 2, 3, 4}), ttys({1, 2, 3})
CASES: dict[str, tuple[tuple[Resource, ...], tuple[Resource, ...], list[FoundFile], object]] = {
    "what has resulted from its name stays, too":
        ((NAMED, LATER), (NAMED, LATER), FOUR,
         {"tty1": ["tty1"], "tty2": ["tty2"], "later": ["tty3", "tty4"]}),
    "no resource gets a node that it has given":
        ((GIVING,), (resource("wanting", "/dev/xtty*"), GIVING), [*ttys({1}), EXTRA],
         {"failing": ["tty1"], "wanting": []}),
    "before its first decision no resource gets what it might match":
        ((), (FAILING, LATER), THREE, {"failing": [], "later": ["tty3"]}),
    "a link to what it might match is withheld, too":
        ((), (FAILING, OF_LINKS), [*ttys({1}), LINK], {"failing": [], "later": []}),
    "what it might match is not brought along with something else either":
        ((), (FAILING, BRINGING), ttys({1, 3}), {"failing": [], "later": []}),
}  # fmt: skip
"""Resources before, if anything was decided, and when a resource fails; files; devices."""


@pytest.mark.parametrize("case", CASES)
def test_a_resource_that_fails_concerns_no_other(case: str) -> None:
    before, resources, files, offered = CASES[case]
    previous = decided(before, files).lists
    for _ in range(2):
        found = decided(resources, files, previous, broken=GLOB)
        (failed,) = found.failures
        assert failed in {known.name for known in resources if known.name != LATER.name}
        names = [name.removeprefix("example.com/") for name in found.lists]
        assert {name: ids(found, name) for name in names if "$" not in name} == offered
        previous = found.lists


def test_nobody_lacks_what_a_resource_that_fails_at_the_end_would_have_got() -> None:
    """Its list is too late to decide: the others have lost tty2 to it by then."""

    def weigh(device_id: str, _nodes: Sequence[int]) -> int:
        if device_id == "tty2" and not failed:
            failed.append(device_id)
            raise BrokenError(device_id)
        return 0

    failed: list[str] = []
    before = decided([FAILING, LATER], ttys({1, 3})).lists
    host = Known(look=looking(ttys({1, 2, 3})))
    found = decide(
        [FAILING, LATER], host, node_name="n", previous=before, now=0.0, entry_bytes=weigh
    )
    assert found.failures.keys() == {FAILING.name}
    assert (ids(found, "failing"), ids(found, "later")) == (["tty1"], ["tty2", "tty3"])


def test_it_is_told_once_and_when_it_is_over() -> None:
    files = ttys({1, 2, 3})
    before = decided([FAILING, LATER], files)
    broken = decided([FAILING, LATER], files, before.lists, broken=GLOB)
    still = decided([FAILING, LATER], files, broken.lists, broken=GLOB)
    over = decided([FAILING, LATER], files, still.lists)
    begun = changes(before.lists, broken)
    (change,) = [change for change in begun if change.level == logging.ERROR]
    assert (change.resource, type(change.error)) == (FAILING.name, BrokenError)
    assert list(changes(broken.lists, still)) == []
    assert [change.resource for change in changes(still.lists, over)] == [FAILING.name]
    assert (over.failures, over.lists[FAILING.name].undecided) == ({}, None)
    assert over.lists[FAILING.name].not_offered == ()


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
