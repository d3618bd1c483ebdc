from __future__ import annotations

import logging
from itertools import pairwise
from typing import TYPE_CHECKING

from genericdp.devices.device import NotOffered
from genericdp.devices.judging import judged
from genericdp.devices.offers import Offer
from genericdp.health.thresholds import NOT_PROBED
from genericdp.telling import MOST_LINES, tell_changes, tell_health, tell_shared_ids
from tests.devices.making import decide, node, resource

if TYPE_CHECKING:
    import pytest

    from genericdp.devices.assembling import Offers

R = resource("r", "/dev/a*")
NAME = "example.com/r"


def offers(*numbers: int, before: Offers | None = None) -> Offers:
    return decide([R], [node(f"/dev/a{n}", (1, n)) for n in numbers], before)


def lines(caplog: pytest.LogCaptureFixture, before: Offers, now: Offers) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.INFO):
        tell_changes(before, now)
    return caplog.messages


def test_only_what_has_changed_is_told(caplog: pytest.LogCaptureFixture) -> None:
    two = offers(1, 2)
    assert lines(caplog, {}, two) == ["2 of 2 devices healthy"]
    assert lines(caplog, two, offers(1, 2, before=two)) == []
    one = offers(1, before=two)
    assert lines(caplog, two, one) == ["device a2 is Unhealthy: /dev/a2 does not exist"]
    assert lines(caplog, one, offers(1, before=one)) == []


def test_one_device_that_makes_the_difference_has_one_line_that_carries_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    steps = [offers(1, 2)]
    for numbers in ((1,), (1, 2), (1, 2, 3)):
        steps.append(offers(*numbers, before=steps[-1]))
    steps.append(
        {NAME: Offer(offered={k: v for k, v in steps[-1][NAME].offered.items() if k != "a1"})}
    )
    told = []
    for before, now in pairwise(steps):
        told += lines(caplog, before, now)
        (record,) = (vars(one) for one in caplog.records)
        assert record["resource"] == NAME
        assert f"device {record['device']} " in told[-1]
    assert told == [
        "device a2 is Unhealthy: /dev/a2 does not exist",
        "device a2 is Healthy again",
        "device a3 is new",
        "device a1 has left the list",
    ]


def test_what_changes_and_leaves_the_numbers_as_they_were_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Comes back where numbers are compared: one that rises, or is new, makes up for another."""
    second, first = [offers(number, before=offers(1, 2)) for number in (1, 2)]
    assert lines(caplog, second, first) == [
        "1 of 2 devices healthy",
        "device a2 is Healthy again",
        "device a1 is Unhealthy: /dev/a1 does not exist",
    ]
    assert lines(caplog, offers(1), offers(3)) == [
        "1 of 1 devices healthy",
        "device a3 is new",
        "device a1 has left the list",
    ]
    told = lines(caplog, offers(*range(200)), offers(*range(200, 400)))
    assert len(told) == 1 + 2 * (MOST_LINES + 1)
    assert told[-1] == "100 more devices have left the list"


def test_one_whose_first_result_comes_with_a_pass_is_not_healthy_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    base = offers(1, 2)[NAME]
    waiting = judged(base, {"a1": NOT_PROBED}, base)
    both = judged(base, {"a1": NOT_PROBED, "a2": NOT_PROBED}, base)
    assert lines(caplog, {NAME: waiting}, {NAME: base}) == ["device a1 is Healthy"]
    assert lines(caplog, {NAME: both}, {NAME: base}) == ["2 of 2 devices healthy"]
    assert lines(caplog, {NAME: base}, {NAME: waiting}) == ["1 of 2 devices healthy"]


def test_what_several_devices_did_is_counted_and_those_are_named_that_flipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    base = offers(*range(MOST_LINES + 2))[NAME]
    ids = list(base.offered)
    down = judged(base, dict.fromkeys(ids, "broken"), base)
    with caplog.at_level(logging.INFO):
        tell_health(NAME, down, base, ids)
    assert caplog.messages[:2] == ["102 of 102 devices healthy", "device a0 is Healthy again"]
    assert caplog.messages[-1] == "2 more devices are Healthy again"
    assert len(caplog.messages) == 1 + MOST_LINES + 1


def test_a_resource_without_devices_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    assert lines(caplog, {}, offers()) == ["0 of 0 devices healthy"]
    assert lines(caplog, offers(), offers()) == []


def test_of_very_many_only_the_number_is_told(caplog: pytest.LogCaptureFixture) -> None:
    many = offers(*range(MOST_LINES + 5))
    told = lines(caplog, many, offers(before=many))
    assert len(told) == 1 + MOST_LINES + 1
    assert told[-1] == "5 more devices are Unhealthy"
    refused = tuple(
        NotOffered(resource=NAME, path=f"/dev/{n}", key=str(n), reason="odd")
        for n in range(MOST_LINES + 3)
    )
    told = lines(caplog, {}, {NAME: Offer(offered={}, not_offered=refused)})
    assert told[-2:] == [f"/dev/{MOST_LINES - 1} is not offered: odd", "3 more are not offered"]


def test_shared_ids_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """LAW-4: kubelets up to 1.36 mix them up."""
    both = decide(
        [R, resource("s", "/dev/x/a*")], [node("/dev/a1", (1, 1)), node("/dev/x/a1", (1, 2))]
    )
    both["example.com/s"] = both[NAME]
    warned = tell_shared_ids(both, frozenset())
    assert warned == {"a1"}
    assert len(caplog.messages) == 1
    assert tell_shared_ids(both, warned) == warned
    assert len(caplog.messages) == 1
    assert tell_shared_ids(offers(1), warned) == frozenset()


def test_a_reason_is_told_when_it_is_news_and_not_for_other_digits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    base = offers(1, 2)[NAME]
    reasons = [
        NOT_PROBED,
        "",
        "file: is 91, more than 90",
        "file: is 95, more than 90",
        "exec: exited with 3: no such card",
        "",
    ]
    told, before = [], base
    for reason in reasons:
        now = judged(base, {"a1": reason} if reason else {}, before)
        caplog.clear()
        with caplog.at_level(logging.INFO):
            tell_health(NAME, before, now, ["a1"])
        told.append(caplog.messages)
        before = now
    assert told == [
        ["1 of 2 devices healthy"],
        ["device a1 is Healthy"],
        ["device a1 is Unhealthy: file: is 91, more than 90"],
        [],
        ["device a1 is now Unhealthy because: exec: exited with 3: no such card"],
        ["device a1 is Healthy again"],
    ]
