"""What is told of a few devices is what a look at all offers would tell."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from genericdp.devices.offers import Offer, Offered
from genericdp.listing import listing
from genericdp.since import Since
from genericdp.taking import told
from tests.devices.making import decide, node, resource

if TYPE_CHECKING:
    from genericdp.devices.assembling import Offers
    from genericdp.listing import Listing

NAME = "example.com/things"
THINGS = resource("things", "/dev/thing*")
OFFERS = decide([THINGS], [node(f"/dev/thing{i}", (240, i)) for i in range(12)])
GONE = Offered(device=OFFERS[NAME].offered["thing3"].device, unhealthy="gone", gone_since=1.0)
ON_A_NODE = replace(OFFERS[NAME].offered["thing3"].device, numa_nodes=(1,))


def with_(**offered: Offered) -> Offers:
    return {NAME: Offer(offered={**OFFERS[NAME].offered, **offered})}


def take(
    before: Offers, offers: Offers, changed: dict[str, frozenset[str]]
) -> tuple[dict[str, Listing], float | None, float | None]:
    ticks = iter(range(100))
    since = Since(lambda: float(next(ticks)))
    since.note({}, before)
    known = {NAME: listing(before[NAME])}
    lists, _ = told(before, offers, known, frozenset(), since, changed)
    return lists, since.of(NAME, "thing3"), since.of(NAME, "thing4")


CHANGES = {
    "one falls": with_(thing3=GONE),
    "two fall": with_(thing3=GONE, thing4=replace(GONE, unhealthy="gone too")),
    "one has another reason": with_(thing3=replace(GONE, unhealthy="really gone")),
    "one comes": with_(thing12=OFFERS[NAME].offered["thing3"]),
    "one leaves": {
        NAME: Offer(offered={k: v for k, v in OFFERS[NAME].offered.items() if k != "thing3"})
    },
    "one has a NUMA node": with_(thing3=Offered(device=ON_A_NODE)),
}


@pytest.mark.parametrize("before", [OFFERS, with_(thing3=GONE)], ids=["well", "one is gone"])
@pytest.mark.parametrize("name", CHANGES)
def test_lists_times_and_log_are_the_same(
    name: str, before: Offers, caplog: pytest.LogCaptureFixture
) -> None:
    offers = CHANGES[name]
    was, now = before[NAME].offered, offers[NAME].offered
    ids = frozenset(one for one in was.keys() | now.keys() if was.get(one) is not now.get(one))
    with caplog.at_level(logging.DEBUG):
        of_few = take(before, offers, {NAME: ids})
        log_of_few = caplog.messages
        caplog.clear()
        assert of_few == take(before, offers, {})
        assert log_of_few == caplog.messages
    assert (of_few[0][NAME].whole == listing(before[NAME]).whole) == (
        {one: bool(it.unhealthy) for one, it in was.items()}
        == {one: bool(it.unhealthy) for one, it in now.items()}
    )
