"""Reasons why a device is Unhealthy: how long they may be, and what is news for the log."""

from __future__ import annotations

from dataclasses import replace

import pytest
from genericdp.devices.changes import changes
from genericdp.devices.decide import Decision, DeviceLists
from genericdp.devices.transitions import Event
from genericdp.reasons import NOT_PROBED, Code, Reason

from tests.devices.making import decide, inject, node, nodes, resource

NAME = "example.com/gpu"
GPU = node("/dev/gpu0", (195, 0))


def test_the_reason_of_a_missing_node_has_at_most_2000_characters() -> None:
    long = f"/dev/{'x' * 60_000}"
    given = inject(nodes(long), nodes("/dev/other"))
    lists = decide([resource("gpu", "/dev/gpu0", given=given)], [GPU])
    assert lists[NAME].devices["gpu0"].text == f"{long[:1999]}…"
    lists = decide([resource("gpu", "/dev/gpu0", given=given)], [GPU], lists)
    assert len(lists[NAME].devices["gpu0"].text) == 2000


def failing(*reasons: Reason) -> DeviceLists:
    listed = decide([resource("gpu", "/dev/gpu0")], [GPU])[NAME]
    entry = listed.devices["gpu0"]
    if reasons:
        event = Event.NOT_PROBED if NOT_PROBED in reasons else Event.FAILING
        entry = entry.after(event, *reasons)
    return {NAME: replace(listed, entries=(entry,))}


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
    assert [line for line in said if line.startswith("device")] == (
        [f"device gpu0 {news}"] if news else []
    )


def test_what_a_probe_prints_is_never_taken_for_a_state_of_genericdp() -> None:
    """A command may print any of our own sentences."""
    for text in ("not probed yet", "list full: 1 of 2", "excluded by the config"):
        assert failing(probe_failed(text))[NAME].is_probed
        said = [
            change.text
            for change in changes(failing(), Decision(lists=failing(probe_failed(text))))
        ]
        assert said[-1] == f"device gpu0 is Unhealthy: file: {text}"


def test_every_code_is_explained() -> None:
    assert all(code.meaning.endswith(".") for code in Code)
