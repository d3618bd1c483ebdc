"""States of devices: where each event leads from each state, and what is news for the log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.devices.changes import changes
from genericdp.devices.decide import Decision, DeviceLists, with_states
from genericdp.devices.device import Unmade
from genericdp.devices.devicelist import Entry
from genericdp.devices.transitions import LISTED, Event, State
from genericdp.health.kinds.open import OpenCheck
from genericdp.model import Probe
from genericdp.reasons import NOT_PROBED, Code, Reason

from tests.devices import making
from tests.devices.making import node, resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.devices.decide import DeviceLists


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


GPU = [node("/dev/gpu0", (195, 0))]


def test_a_device_is_not_healthy_before_its_probes_have_results() -> None:
    probed = making.resource("gpu", "/dev/gpu0", health=(Probe(check=OpenCheck()),))
    decision, name, key = (
        making.decision([probed], GPU),
        "example.com/gpu",
        ("gpu0", GPU[0].identity),
    )

    def state(results: Mapping[str, Any], error: str = "") -> State:
        found = with_states(decision, {}, results, {name: error})
        return found.lists[name].devices["gpu0"].state

    assert state({}) is State.PROBING
    assert state({name: {key: ()}}) is State.HEALTHY
    assert state({name: {key: (probe_failed("hot"),)}}) is State.UNHEALTHY
    assert state({name: {key: ()}}, "its CDI spec cannot be written") is State.UNHEALTHY


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
