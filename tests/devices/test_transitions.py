"""States of devices: where each event leads from each state, and what is news for the log."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.devices.changes import changes
from genericdp.devices.decide import Decision, DeviceLists, decide, with_states
from genericdp.devices.device import Unmade
from genericdp.devices.devicelist import MAX_LIST_BYTES, Entry
from genericdp.devices.inventory import Look
from genericdp.devices.transitions import LISTED, Event, State
from genericdp.health.kinds.file import FileCheck
from genericdp.model import Probe
from genericdp.reasons import NOT_PROBED, Code, Reason
from genericdp.template import parse

from tests.devices import making
from tests.devices.known import Known
from tests.devices.making import finds, inject, node, nodes, resource, selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.inventory import FoundFile


NAME = "example.com/video"
CAM = [node(f"/dev/video{number}", (81, number)) for number in range(2)]
VIDEO = resource(
    "video",
    "/dev/video*",
    group_by=parse("cam"),
    forget_after_seconds=300,
    health=(Probe(check=FileCheck(path=parse("/x"), equals=parse("1"))),),
)
EXCLUDING = replace(VIDEO, exclude=(selector("/dev/video*"),))
LACKING = replace(VIDEO, inject=inject(nodes("$(device.path)"), nodes("/dev/ctl")))
WELL = {NAME: {("cam", CAM[0].identity): ()}}
HOT = Reason(Code.PROBE_FAILED, "file: hot", "file")
FAILING = {NAME: {("cam", CAM[0].identity): (HOT,)}}


@dataclass(frozen=True)
class World:
    """A host with one camera, as a config sees it."""

    video: Any = VIDEO
    files: tuple[FoundFile, ...] = (CAM[0],)
    health: Mapping[str, Any] = field(default_factory=lambda: WELL)
    spec_errors: Mapping[str, str] = field(default_factory=dict)
    size: int = 1

    def lists(self, previous: DeviceLists, now: float) -> DeviceLists:
        """Decide."""
        known = Known()
        known.look = lambda pattern: Look(
            files=tuple(file for file in self.files if finds(pattern, file.path))
        )
        decision = decide(
            (self.video,),
            known,
            node_name="n",
            previous=previous,
            now=now,
            entry_bytes=lambda *_: self.size,
        )
        return with_states(decision, previous, self.health, self.spec_errors).lists


BEFORE: dict[State, tuple[World, ...]] = {
    State.NOT_OFFERED: (World(EXCLUDING),),
    State.WAITING: (World(files=()), World()),
    State.PROBING: (World(health={}),),
    State.HEALTHY: (World(),),
    State.UNHEALTHY: (World(LACKING),),
    State.MISSING: (World(), World(files=())),
}
"""Reconciles that lead to each state, the last one a moment ago."""

SOON, LATER = 0.1, 1000.0
NOW: dict[Event, tuple[World, float]] = {
    Event.SETTLING: (World(files=tuple(CAM)), SOON),
    Event.MADE: (World(), 1.0),
    Event.REFUSED: (World(EXCLUDING), SOON),
    Event.GONE: (World(files=()), SOON),
    Event.FORGOTTEN: (World(files=()), LATER),
    Event.INCOMPLETE: (World(LACKING), 1.0),
    Event.LEFT_OUT: (World(size=MAX_LIST_BYTES + 1), 1.0),
    Event.SPEC_FAILED: (World(spec_errors={NAME: "the disk is full"}), 1.0),
    Event.NOT_PROBED: (World(health={}), 1.0),
    Event.FAILING: (World(health=FAILING), 1.0),
}
"""What the next reconcile finds, and how many seconds later that is."""

OUT, WAIT, PROBE, GOOD, BAD, LOST = State
AFTER: dict[Event, tuple[State | None, ...]] = {
    Event.SETTLING: (WAIT, WAIT, GOOD, GOOD, GOOD, LOST),
    Event.MADE: (WAIT, GOOD, GOOD, GOOD, GOOD, LOST),
    Event.REFUSED: (OUT, OUT, LOST, LOST, LOST, LOST),
    Event.GONE: (None, None, LOST, LOST, LOST, LOST),
    Event.FORGOTTEN: (None, None, LOST, LOST, LOST, None),
    Event.INCOMPLETE: (WAIT, BAD, BAD, BAD, BAD, LOST),
    Event.LEFT_OUT: (WAIT, OUT, OUT, OUT, OUT, WAIT),
    Event.SPEC_FAILED: (WAIT, BAD, BAD, BAD, BAD, LOST),
    Event.NOT_PROBED: (WAIT, PROBE, PROBE, PROBE, PROBE, LOST),
    Event.FAILING: (WAIT, BAD, BAD, BAD, BAD, LOST),
}
"""The state after that, from each state; None: there is not an entry any more.

A group that comes, or comes back, waits first, whatever else is true of it.
"""


def state_of(lists: DeviceLists) -> State | None:
    """Return the state of the camera; what it is in the list counts before what it may become."""
    listed = lists[NAME]
    return next((entry.state for entry in (*listed.devices.values(), *listed.not_offered)), None)


@pytest.mark.parametrize(
    ("before", "event", "after"),
    [
        (before, event, after)
        for event, states in AFTER.items()
        for before, after in zip(State, states, strict=True)
    ],
)
def test_a_reconcile_leads_from_each_state_where_the_event_leads(
    before: State, event: Event, after: State | None
) -> None:
    lists: DeviceLists = {}
    for now, world in enumerate(BEFORE[before], start=1):
        lists = world.lists(lists, float(now))
    assert state_of(lists) is before
    world, seconds = NOW[event]
    lists = world.lists(lists, len(BEFORE[before]) + seconds)
    assert state_of(lists) is after
    for entry in lists[NAME].entries:
        assert entry.is_healthy is not bool(entry.reasons)


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", State)
def test_each_event_is_defined_in_each_state(state: State, event: Event) -> None:
    former, reason = Reason(Code.LACKS_VALUE, "former"), Reason(Code.GONE, "why")
    unmade = Unmade(path="/dev/a", key="a")
    before = Entry(
        device=unmade, state=state, reasons=() if state is State.HEALTHY else (former,), since=1.0
    )
    after = before.after(event, reason)
    assert after.is_healthy is not bool(after.reasons)
    assert after == before or after.reasons in {(), (reason,)}
    if event is not Event.MADE:
        assert after.is_healthy <= before.is_healthy, "only what is made is Healthy"
        assert (after.state in LISTED) <= (state in LISTED), "only what is made is listed"
    if state in LISTED and event not in {Event.FORGOTTEN, Event.LEFT_OUT}:
        assert (after.state in LISTED) or state is State.MISSING, (
            "the kubelet takes what leaves the list for Healthy (LAW-10)"
        )
    if event in {Event.SPEC_FAILED, Event.NOT_PROBED, Event.FAILING}:
        expected = state in {State.PROBING, State.HEALTHY}
        assert (after != before) is expected, "what lacks something is not asked how it is"


def test_since_tells_how_long_a_device_has_been_in_its_state() -> None:
    moments = [(World(health={}), 1.0), (World(), 2.0), (World(), 3.0), (World(files=()), 4.0)]
    lists: DeviceLists = {}
    found = []
    for world, now in [*moments, (World(files=()), 5.0)]:
        lists = world.lists(lists, now)
        found.append(lists[NAME].devices["cam"].since)
    assert found == [1.0, 2.0, 2.0, 4.0, 4.0]


GPU = [node("/dev/gpu0", (195, 0))]


def test_the_reason_of_a_missing_node_has_at_most_2000_characters() -> None:
    long = f"/dev/{'x' * 60_000}"
    given = inject(nodes(long), nodes("/dev/other"))
    lists = making.decide([resource("gpu", "/dev/gpu0", given=given)], GPU)
    assert lists["example.com/gpu"].devices["gpu0"].text == f"{long[:1999]}…"
    lists = making.decide([resource("gpu", "/dev/gpu0", given=given)], GPU, lists)
    assert len(lists["example.com/gpu"].devices["gpu0"].text) == 2000


def failing(*reasons: Reason) -> DeviceLists:
    listed = making.decide([resource("gpu", "/dev/gpu0")], GPU)["example.com/gpu"]
    entry = listed.devices["gpu0"]
    if reasons:
        event = Event.NOT_PROBED if NOT_PROBED in reasons else Event.FAILING
        entry = entry.after(event, *reasons)
    return {"example.com/gpu": replace(listed, entries=(entry,))}


def probe_failed(text: str, subject: str = "file") -> Reason:
    return Reason(Code.PROBE_FAILED, f"{subject}: {text}", subject)


@pytest.mark.parametrize(
    ("former", "now", "news"),
    [
        (probe_failed("it has 91 C"), probe_failed("it has 95 C"), ""),
        (probe_failed("cold"), probe_failed("hot"), ""),
        (probe_failed("hot"), probe_failed("hot", "open"), "is now Unhealthy because: open: hot"),
        (probe_failed("hot"), Reason(Code.GONE, "gone"), "is now Unhealthy because: gone"),
        (NOT_PROBED, probe_failed("hot"), "is Unhealthy: file: hot"),
    ],
)
def test_what_is_news_is_a_code_or_what_it_is_about_never_a_text(
    former: Reason, now: Reason, news: str
) -> None:
    said = [change.text for change in changes(failing(former), Decision(lists=failing(now)))]
    assert [text for text in said if text.startswith("device")] == (
        [f"device gpu0 {news}"] if news else []
    )


def test_what_a_probe_prints_is_never_taken_for_a_state_of_genericdp() -> None:
    """A command may print any of our own sentences."""
    for text in ("not probed yet", "list full: 1 of 2", "excluded by the config"):
        assert failing(probe_failed(text))["example.com/gpu"].is_probed
        said = [
            change.text
            for change in changes(failing(), Decision(lists=failing(probe_failed(text))))
        ]
        assert said[-1] == f"device gpu0 is Unhealthy: file: {text}"


def test_every_code_is_explained() -> None:
    assert all(code.meaning.endswith(".") for code in Code)
