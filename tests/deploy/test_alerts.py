"""Alerts on what a daemon really says: its own metrics, read by Prometheus' own rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from genericdp.config.files import Loaded
from genericdp.config.reload import ConfigState
from genericdp.host.descriptors import Supply
from genericdp.model import Expectation
from genericdp.status.metrics import exposition
from genericdp.tally import Tally

from tests.deploy.alerts import RULES, mistakes
from tests.status.states import REFUSED, declared, device, devices, resource, state

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from genericdp.status.state import DaemonState

pytestmark = pytest.mark.deploy

NAME = "example.com/serial"
ELSEWHERE = {
    *("GenericdpDown", "GenericdpDownOnMany", "GenericdpMissingOnNodes", "GenericdpUpdateStuck"),
    "GenericdpNotScraped",
}
"""By what Prometheus and kube-state-metrics say."""
BETWEEN = {"GenericdpRestarting", "GenericdpConfigDiffers", "GenericdpDevicesMissingOnMany"}
"""By more than one process."""
CHANGING = {"GenericdpDevicesFlapping", "GenericdpDeviceForgotten"}
"""By what changes meanwhile, and by what has no ``expect``."""

EMPTY = {"GenericdpServesNothing"}
"""By a daemon that has no resources."""

WELL = state(
    resource(NAME, devices=devices(device(0), device(1)), contested=""),
    config=ConfigState(loaded=Loaded(digest="ab"), since=1.0),
)
ILL = state(
    resource(
        NAME,
        registered=False,
        reason="refused",
        devices=replace(
            devices(device(0, reason="gone"), not_offered={"/dev/a1": "its id is that of …"}),
            owned=frozenset(),
            expect=Expectation(min=8, max=8),
        ),
    ),
    resource(
        "example.com/more",
        contested="",
        devices=replace(
            devices(device(0), device(1), device(2, reason="gone")),
            owned=frozenset(),
            expect=Expectation(max=1),
        ),
    ),
    config=ConfigState(loaded=Loaded(digest="ab"), since=1.0, refused=REFUSED, differs_since=2.0),
    descriptors=Supply(used=1000, most=1024),
    claims={"prepared": 0, "gone": 1},
)


def tally(*, times: int, is_well: bool) -> Tally:
    """Give what was counted after this many of everything."""
    made = Tally()
    made.keep({NAME: declared(NAME)})
    entry, seconds = made.of(NAME), 0.01 if is_well else 4.9
    for _ in range(times):
        entry.allocated("success" if is_well else "unusable", seconds)
        entry.probed(0, ok=is_well, seconds=seconds)
        entry.hooked("preStart", ok=is_well)
        made.discovery.add(seconds)
    if not is_well:
        entry.registrations["success"] += times
        entry.registrations["failure"] += times
    return made


def fires(
    directory: Path,
    status: DaemonState,
    expected: set[str],
    *,
    is_well: bool,
    around: Sequence[str] = (),
) -> str:
    """Let promtool compare; gives what it says if others fire."""
    bodies = [
        exposition(status, tally(times=times, is_well=is_well), each_device=True).decode()
        for times in (1, 2)
    ]
    return mistakes(directory, bodies, expected, around=around)


def test_nothing_fires_where_all_is_well(tmp_path: Path) -> None:
    assert fires(tmp_path, WELL, set(), is_well=True) == ""


def test_a_daemon_without_a_config_is_told_of(tmp_path: Path) -> None:
    """Found by a new user: nothing of it was critical, for there were not resources."""
    config = ConfigState(refused=REFUSED, differs_since=2.0)
    status = replace(WELL, config=config, resources=())
    expected = {"GenericdpServesNothing", "GenericdpConfigRefusedOnMany"}
    assert fires(tmp_path, status, expected, is_well=True) == ""


def test_everything_fires_where_nothing_is(tmp_path: Path) -> None:
    """A label or a bucket that is called otherwise would keep an alert silent forever."""
    rules = [rule for group in RULES["groups"] for rule in group["rules"]]
    every = {rule["alert"] for rule in rules if "alert" in rule}
    expected = every - ELSEWHERE - BETWEEN - CHANGING - EMPTY
    assert fires(tmp_path, ILL, expected, is_well=False) == ""


def test_nothing_fires_of_a_node_that_is_cordoned(tmp_path: Path) -> None:
    """While a node is repaired, it can have every fault there is."""
    cordoned = ['kube_node_spec_unschedulable{node="edge-1"}']
    assert fires(tmp_path, ILL, set(), is_well=False, around=cordoned) == ""
