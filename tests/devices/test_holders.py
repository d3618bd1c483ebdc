"""When a vanished device may be forgotten, by what pods hold."""

from __future__ import annotations

from math import inf

import pytest

from genericdp.devices.devicelist import NOTHING, AllocatedDevices, DeviceList
from genericdp.kubelet.podresources import next_question
from tests.devices.making import decide, node, resource, unhealthy

TTY = node("/dev/ttyUSB0", (188, 0))
SERIAL = resource("x", "/dev/ttyUSB*", forget_after_seconds=300)
NAME = SERIAL.name


def vanished(at: float) -> dict[str, DeviceList]:
    return decide([SERIAL], [], decide([SERIAL], [TTY]), now=at)


@pytest.mark.parametrize(
    ("asked_at", "held", "stays"),
    [
        (-inf, [], True),  # nobody has been asked
        (304.9, [], True),  # before its time: somebody may have got it since
        (305.0, [], False),
        (305.0, ["ttyUSB0"], True),
        (305.0, ["ttyUSB1"], False),
    ],
)
def test_a_device_is_forgotten_once_no_pod_holds_it(
    asked_at: float, held: list[str], stays: bool
) -> None:
    """LAW-10, PRS-1: a kubelet takes one that is missing from the list for healthy."""
    devices = {NAME: frozenset(held), "other/x": frozenset(["ttyUSB0"])}
    allocated = AllocatedDevices(asked_at=asked_at, devices=devices)
    before = vanished(at=5.0)
    assert unhealthy(decide([SERIAL], [], before, now=304.9, allocated=allocated), "x")
    after = decide([SERIAL], [], before, now=306.0, allocated=allocated)
    assert bool(unhealthy(after, "x")) is stays


def test_without_anybody_to_ask_it_is_forgotten_in_time() -> None:
    assert decide([SERIAL], [], vanished(at=5.0), now=305.0)[NAME].devices == {}


@pytest.mark.parametrize(
    ("offers", "last_asked", "moment"),
    [
        ({NAME: NOTHING}, -inf, None),
        (vanished(at=5.0), -inf, 305.0),
        (vanished(at=5.0), 300.0, 310.0),
        (vanished(at=5.0), 400.0, 410.0),
        ({"leaving/x": vanished(at=5.0)[NAME]}, -inf, None),
    ],
)
def test_the_kubelet_is_asked_when_a_device_is_to_be_forgotten_and_at_a_calm_pace(
    offers: dict[str, DeviceList], last_asked: float, moment: float | None
) -> None:
    assert next_question(offers, {NAME: SERIAL}, last_asked + 10) == moment


def test_before_the_first_answer_anything_may_be_held() -> None:
    assert not AllocatedDevices().have_let_go(NAME, "ttyUSB0", 0.0)
