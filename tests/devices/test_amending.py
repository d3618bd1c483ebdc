"""A pass about a few things gives what one about all gives, or it leaves it to that one.

``tests/test_known.py`` compares the two on machines that change at random; here is each tie between
a device and others for which all have to be decided about.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from genericdp.devices.amending import Amended, Concerned, amend
from genericdp.devices.holders import Holders
from genericdp.devices.indexing import Standing
from genericdp.devices.inventory import FoundFile, Inventory, Look
from genericdp.devices.remembering import Memory, Notes, Question
from genericdp.devices.sysdevice import NOTHING_KNOWN
from genericdp.discovery import Discovery, discover
from genericdp.natural import natural_key
from tests.devices.making import finds, healthy, inject, node, nodes, resource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from genericdp.model import Resource


class Host:
    """Files under one's control, and passes that remember."""

    def __init__(self, resources: Iterable[Resource], files: Iterable[FoundFile]) -> None:
        self.resources, self.files = tuple(resources), tuple(files)
        self.memory = Memory()
        self.asked: dict[str, tuple[FoundFile, ...]] = {}
        self.last = self.look_at_all(previous={}, now=0.0)
        self.standing = Standing(self.last.offers, self.last.due, None)

    def _look(self, pattern: str) -> Look:
        ordered = sorted(self.files, key=lambda one: natural_key(one.path))
        found = tuple(one for one in ordered if finds(pattern, one.path))
        self.asked[pattern] = found
        return Look(files=found)

    def look_at_all(self, previous: object, now: float, memory: Memory | None = None) -> Discovery:
        return discover(
            self.resources,
            self._look,
            node_name="n",
            previous=previous,  # type: ignore[arg-type]
            now=now,
            memory=memory or self.memory,
        )

    def change(
        self, *files: FoundFile, now: float = 1.0, holders: Holders | None = None
    ) -> Amended | None:
        """Have other files there, and a pass told of the paths that differ."""
        before, self.files = self.files, files
        paths = {one.path for one in {*before} ^ {*files}}
        globs = [one for one, found in self.asked.items() if self._look(one).files != found]
        concerned = Concerned(
            paths=frozenset(paths),
            globs=frozenset(globs),
            decisions=self.memory.forget([], globs, NOTHING_KNOWN),
        )
        inventory = Inventory(self._look, NOTHING_KNOWN, self.memory)
        return amend(
            self.standing, concerned, self.resources, inventory, "n", now=now, holders=holders
        )

    def all_anew(self, now: float = 1.0) -> Discovery:
        """What a pass about everything gives."""
        return self.look_at_all(self.last.offers, now, Memory())


MANY = [node(f"/dev/thing{i}", (240, i)) for i in range(5, 99)]
A, B, C = (node(f"/dev/thing{i}", (240, i)) for i in range(3))
OTHER_A = node("/dev/thing0", (240, 9))
THINGS = resource("things", "/dev/thing*")
APART = {
    "one vanishes": ([THINGS], [A, B], [B]),
    "one comes": ([THINGS], [A, C], [A, B, C]),
    "the first one comes": ([THINGS], [], [A]),
    "one is another one now": ([THINGS], [A, B], [OTHER_A, B]),
    "one is renamed": ([THINGS], [A, B], [node("/dev/thing7", (240, 0)), B]),
    "it belongs to one resource of many": (
        [resource("rest", "/dev/rest*"), THINGS],
        [A, node("/dev/rest0", (241, 0))],
        [node("/dev/rest0", (241, 0))],
    ),
    "a node beside it vanishes": (
        [resource("r", "/dev/thing*", given=inject(nodes("/dev/x$(device.name)")))],
        [A, B, node("/dev/xthing0", (242, 0)), node("/dev/xthing1", (242, 1))],
        [A, B, node("/dev/xthing1", (242, 1))],
    ),
}
TIED = {
    "it has an id that another one has": (
        [resource("r", "/dev/thing*", id="same")],
        [A],
        [A, B],
    ),
    "it takes a node that another one has": (
        [resource("r", "/dev/thing*", given=inject(nodes("/dev/both$(node.name)")))],
        [A, node("/dev/bothn", (243, 0))],
        [A, B, node("/dev/bothn", (243, 0))],
    ),
    "another resource has it": (
        [resource("first", "/dev/first*"), THINGS],
        [node("/dev/first", (240, 1))],
        [node("/dev/first", (240, 1)), B],
    ),
    "an earlier resource takes what is another's": (
        [resource("first", "/dev/first*"), THINGS],
        [B],
        [node("/dev/first", (240, 1)), B],
    ),
    "it is there under a second name": ([THINGS], [A], [A, node("/dev/thingX", (240, 0))]),
    "one of its two names goes": ([THINGS], [A, node("/dev/thingX", (240, 0))], [A]),
    "one was refused what is free now": (
        [resource("r", "/dev/thing*", id="same"), resource("other", "/dev/other*")],
        [A, B],
        [B],
    ),
    "another resource was refused what is free now": (
        [
            resource("one", "/dev/thing*", given=inject(nodes("/dev/both$(node.name)"))),
            resource("two", "/dev/other*", given=inject(nodes("/dev/both$(node.name)"))),
        ],
        [A, node("/dev/bothn", (243, 0)), node("/dev/other", (244, 0))],
        [node("/dev/bothn", (243, 0)), node("/dev/other", (244, 0))],
    ),
    "something is excluded": (
        [resource("r", "/dev/thing*", exclude=["/dev/thing1"])],
        [A, C],
        [A, B, C],
    ),
    "it cannot be handed out": ([THINGS], [A], [A, replace(B, trouble="not to be trusted")]),
    "it was not handed out": ([THINGS], [A, replace(B, trouble="not to be trusted")], [A, B]),
    "an earlier resource has it and cannot offer it": (
        [resource("first", "/dev/first*", id="$(property.NONE)"), THINGS],
        [node("/dev/first", (240, 1))],
        [node("/dev/first", (240, 1)), B],
    ),
    "the list may be too long with it": (
        [resource("r", "/dev/thing*", replicas=10_000)],
        [A, B, C, *MANY[:2]],
        [A, B, C, *MANY[:3]],
    ),
    "very many come": (
        [THINGS],
        [A],
        [A, *MANY],
    ),
}


@pytest.mark.parametrize("name", APART)
def test_what_concerns_no_other_device_is_decided_about_alone(name: str) -> None:
    resources, before, after = APART[name]
    host = Host(resources, before)
    amended = host.change(*after)
    assert amended is not None
    assert amended.offers == host.all_anew().offers
    for one, offer in host.all_anew().offers.items():
        assert list(amended.offers[one].offered) == list(offer.offered)
    assert set(amended.changed) == {
        one for one in amended.offers if amended.offers[one] != host.last.offers[one]
    }


@pytest.mark.parametrize("name", TIED)
def test_what_may_concern_another_device_is_left_to_a_pass_about_all(name: str) -> None:
    resources, before, after = TIED[name]
    host = Host(resources, before)
    assert host.change(*after) is None
    # Nothing was remembered that would mislead it.
    now = host.look_at_all(host.last.offers, 1.0)
    assert now.offers == host.all_anew().offers


def test_several_changes_one_after_the_other_end_at_what_a_pass_about_all_gives() -> None:
    host = Host([THINGS], [A, B, C])
    for files in ([B, C], [C], [A, C], [OTHER_A, B, C], [A, B]):
        amended = host.change(*files)
        assert amended is not None
        assert amended.offers == host.look_at_all(host.standing.offers, 1.0, Memory()).offers
        indexes = host.standing.indexes
        host.standing = Standing(amended.offers, amended.due, None, indexes)


def test_what_one_has_given_up_another_one_may_take() -> None:
    """The index follows: else the second would be left to a pass about all for ever."""
    host = Host([THINGS], [A])
    gone = host.change()
    assert gone is not None
    host.standing = Standing(gone.offers, None, None, host.standing.indexes)
    later = host.change(node("/dev/thing5", (240, 5)), now=2.0)
    assert later is not None
    assert healthy(later.offers, "things") == ["thing5"]


def test_time_that_changes_a_list_is_left_to_a_pass_about_all() -> None:
    host = Host([THINGS], [A, B])
    gone = host.change(B)
    assert gone is not None
    assert gone.due is not None
    host.standing = Standing(gone.offers, gone.due, None, host.standing.indexes)
    assert host.change(B, C, now=gone.due) is None


def test_news_of_who_holds_what_is_left_to_a_pass_about_all() -> None:
    assert Host([THINGS], [A, B]).change(B, holders=Holders()) is None


def test_nothing_concerned_leaves_the_very_same_offers() -> None:
    host = Host([THINGS], [A, B])
    amended = host.change(A, B)
    assert amended is not None
    assert amended.changed == {}
    assert all(amended.offers[one] is offer for one, offer in host.last.offers.items())


def test_what_was_dropped_while_others_were_decided_is_told_the_next_time() -> None:
    """When a link turns within a pass, what its first answer decided is decided again."""
    memory = Memory()
    part = memory.part("made", "r")
    question = Question("target", "/link")
    memory.keep(part, "one", "by a", Notes("/dev/one", questions={question: "a"}))
    memory.keep(part, "two", "by b", Notes("/dev/two", questions={question: "b"}))
    assert dict(part) == {"two": "by b"}
    turned = Turned("b")
    assert memory.forget([], [], turned) == ((part.name, "one"),)  # type: ignore[arg-type]
    assert memory.forget([], [], turned) == ()  # type: ignore[arg-type]


class Turned:
    """Facts of one link."""

    def __init__(self, to: str) -> None:
        self._to = to

    def target(self, _path: str) -> str:
        return self._to
