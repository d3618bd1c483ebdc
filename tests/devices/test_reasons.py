"""Reasons why a device is Unhealthy: how long they may be, and which are news for the log."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from genericdp.devices.changes import changes
from genericdp.devices.decide import Decision, DeviceLists
from tests.devices.making import decide, inject, node, nodes, resource

NAME = "example.com/gpu"
GPU = node("/dev/gpu0", (195, 0))


def test_the_reason_of_a_missing_node_has_at_most_2000_characters() -> None:
    long = f"/dev/{'x' * 60_000}"
    given = inject(nodes(long), nodes("/dev/other"))
    lists = decide([resource("gpu", "/dev/gpu0", given=given)], [GPU])
    assert lists[NAME].devices["gpu0"].unhealthy == f"{long[:1999]}…"
    lists = decide([resource("gpu", "/dev/gpu0", given=given)], [GPU], lists)
    assert len(lists[NAME].devices["gpu0"].unhealthy) == 2000


def failing(reason: str) -> DeviceLists:
    listed = decide([resource("gpu", "/dev/gpu0")], [GPU])[NAME]
    return {
        NAME: replace(listed, devices={"gpu0": replace(listed.devices["gpu0"], failing=reason)})
    }


@pytest.mark.parametrize(
    ("former", "reason", "is_news"),
    [
        ("it has 91 C", "it has 95 C", False),
        ("state 0x1f", "state 0xbeef2", False),
        ("state ab1cd", "state 9", False),
        ("91", "hot", True),
        ("it is bad", "it is dead", True),
        ("cafe", "babe", True),
        ("a" * 300_000 + "g1", "a" * 300_000 + "g2", False),
        ("a" * 300_000, "a" * 300_001, True),
    ],
)
def test_other_digits_are_no_news(former: str, reason: str, *, is_news: bool) -> None:
    begun = time.process_time()
    said = [one.text for one in changes(failing(former), Decision(lists=failing(reason)))]
    assert time.process_time() - begun < 5  # the daemon's loop does this: never quadratic
    assert said == ([f"device gpu0 is now Unhealthy because: {reason}"] if is_news else [])
