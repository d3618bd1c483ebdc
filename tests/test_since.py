"""Since when devices are as they are."""

from __future__ import annotations

from dataclasses import replace

from genericdp.devices.device import Device
from genericdp.devices.offers import Offer, Offered
from genericdp.since import Since
from tests.devices.making import plain


def device(name: str) -> Device:
    path = f"/dev/{name}"
    return Device(id=name, key=path, path=path, identity=plain(path).identity)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def offer(**unhealthy: str) -> Offer:
    return Offer(
        offered={
            name: Offered(device=device(name), unhealthy=reason)
            for name, reason in unhealthy.items()
        }
    )


def test_what_never_changes_is_so_since_the_first_look() -> None:
    since, first = Since(Clock()), {"r": offer(a="", b="lost")}
    since.note({}, first)
    later = {"r": offer(a="", b="lost, and cold")}
    since.note(first, later)
    assert (since.of("r", "a"), since.of("r", "b")) == (1.0, 1.0)


def test_what_flips_or_comes_is_so_since_then() -> None:
    since, first = Since(Clock()), {"r": offer(a="", b="")}
    since.note({}, first)
    second = {"r": offer(a="lost", b="", c="")}
    since.note(first, second)
    assert [since.of("r", one) for one in "abc"] == [2.0, 1.0, 2.0]


def test_what_is_gone_is_forgotten_and_new_when_it_returns() -> None:
    since, first, second = Since(Clock()), {"r": offer(a="")}, {"r": offer(a="", b="")}
    since.note({}, first)
    since.note(first, second)
    since.note(second, first)
    since.note(first, second)
    assert since.of("r", "b") == 4.0
    since.note(second, {})
    assert since.of("r", "b") is None
    assert since.of("never", "b") is None


def test_of_named_devices_only_those_are_looked_at() -> None:
    since, first = Since(Clock()), {"r": offer(a="", b="")}
    since.note({}, first)
    before = first["r"]
    sick = replace(before.offered["a"], unhealthy="cold")
    after = replace(before, offered={**before.offered, "a": sick})
    since.note_of("r", before, after, ["a", "gone"])
    assert (since.of("r", "a"), since.of("r", "b")) == (2.0, 1.0)
