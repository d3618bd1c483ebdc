"""Alerts on what a daemon really says: its own metrics, read by Prometheus' own rules."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from genericdp.config.files import Loaded
from genericdp.config.reload import ConfigState
from genericdp.host.descriptors import Supply
from genericdp.model import Expectation
from genericdp.status.metrics import exposition
from genericdp.tally import Tally
from prometheus_client.parser import text_string_to_metric_families as parsed

from tests.deploy.alerts import DASHBOARDS, RULES, differs
from tests.status.states import REFUSED, declared, device, devices, resource, state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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
        made.happened("change")
        entry.updates += 1
        made.reloads["unchanged"] += 1
    if not is_well:
        entry.registrations["success"] += times
        entry.registrations["failure"] += times
    return made


def series(*states: DaemonState, is_well: bool) -> list[dict[str, str]]:
    """Return two hours of scrapes, a minute apart, that change as the second state differs from
    the first one, if there are two, and in which all is counted.
    """
    values: dict[str, list[float]] = defaultdict(list)
    for times, status in ((1, states[0]), (2, states[-1])):
        counted = tally(times=times, is_well=is_well)
        for family in parsed(exposition(status, counted, each_device=True).decode()):
            for sample in family.samples:
                labels = "".join(f', {name}="{value}"' for name, value in sample.labels.items())
                name = f'{sample.name}{{job="genericdp/genericdp", node="edge-1"{labels}}}'
                values[name].append(sample.value)
    return [
        {"series": name, "values": f"{first:g}+{last - first:g}x120"}
        for name, (first, last) in values.items()
        if name.startswith("genericdp_")
    ]


def constant(around: Mapping[str, float]) -> list[dict[str, str]]:
    return [{"series": name, "values": f"{value:g}x120"} for name, value in around.items()]


def mistakes(directory: Path, inputs: Sequence[dict[str, str]], expected: set[str]) -> str:
    """Return what promtool says if other alerts than these fire after two hours; else nothing."""
    samples = [{"labels": f'{{alertname="{entry}"}}', "value": 1.0} for entry in sorted(expected)]
    firing = 'count by (alertname) (max without (prometheus_replica) (ALERTS{alertstate="firing"}))'
    return differs(directory, inputs, {firing: samples})


def test_nothing_fires_where_all_is_well(tmp_path: Path) -> None:
    assert mistakes(tmp_path, series(WELL, is_well=True), set()) == ""


def test_a_daemon_without_a_config_is_told_of(tmp_path: Path) -> None:
    """Found by a new user: nothing of it was critical, for there were not resources."""
    config = ConfigState(refused=REFUSED, differs_since=2.0)
    status = replace(WELL, config=config, resources=())
    expected = {"GenericdpServesNothing", "GenericdpConfigRefusedOnMany"}
    assert mistakes(tmp_path, series(status, is_well=True), expected) == ""


EVERY = {
    rule["alert"] for group in RULES["groups"] for rule in group["rules"] if "alert" in rule
} - (ELSEWHERE | BETWEEN | CHANGING | EMPTY)


OF = 'namespace="g", daemonset="genericdp"'
POD = 'namespace="g", pod="genericdp-1"'
AROUND = {
    'kube_node_spec_unschedulable{node="edge-1"}': 0,
    'kube_node_status_condition{node="edge-1", condition="Ready", status="true"}': 1,
    f'kube_pod_info{{created_by_kind="DaemonSet", created_by_name="genericdp", {POD}, '
    'node="edge-1"}': 1,
    f'kube_pod_status_ready{{condition="true", {POD}}}': 1,
    f'up{{job="genericdp/genericdp", {OF}, pod="genericdp-1", node="edge-1"}}': 0,
    f"kube_daemonset_status_desired_number_scheduled{{{OF}}}": 3,
    f"kube_daemonset_status_current_number_scheduled{{{OF}}}": 2,
    f"kube_daemonset_status_updated_number_scheduled{{{OF}}}": 1,
    'up{job="genericdp-hosts", instance="host-1"}': 0,
    'up{job="genericdp-hosts", instance="host-2"}': 1,
}
"""A ready pod that is not scraped, a rollout that stands still, and one of two hosts is down."""


def test_everything_fires_where_nothing_is_well_and_two_replicas_are_told_of_as_one(
    tmp_path: Path,
) -> None:
    """A label or a bucket that is called otherwise would keep an alert silent forever.

    A ruler that sees both replicas of Prometheus has each series twice. A rule that this confuses
    has no result.
    """
    expected = EVERY | ELSEWHERE - {"GenericdpDownOnMany"}
    inputs = [
        {**entry, "series": f'{entry["series"][:-1]}, prometheus_replica="{replica}"}}'}
        for entry in (*series(ILL, is_well=False), *constant(AROUND))
        for replica in "ab"
    ]
    assert mistakes(tmp_path, inputs, expected) == ""


def test_nothing_fires_of_a_node_that_is_cordoned(tmp_path: Path) -> None:
    """While a node is repaired, it can have every fault there is."""
    cordoned = {'kube_node_spec_unschedulable{node="edge-1"}': 1}
    inputs = [*series(ILL, is_well=False), *constant(cordoned)]
    assert mistakes(tmp_path, inputs, set()) == ""


def test_every_panel_shows_something_of_what_is_wrong(tmp_path: Path) -> None:
    """A metric or a recorded series that is called otherwise leaves a panel empty forever."""
    more = (
        replace(ILL, resources=(*ILL.resources, resource("example.com/more-each-day", count=n)))
        for n in (6, 7)
    )
    process = '{job="genericdp/genericdp", node="edge-1"}'
    pod = 'namespace="g", pod="genericdp-2"'
    around = AROUND | {
        f"process_resident_memory_bytes{process}": 3e7,
        f"process_cpu_seconds_total{process}": 9,
        f'kube_pod_info{{created_by_kind="DaemonSet", created_by_name="genericdp", {pod}, '
        'node="edge-2"}': 1,
        f'kube_pod_status_ready{{condition="true", {pod}}}': 0,
    }
    values = {"$__rate_interval": "5m", "$before": "30m"}
    panels = [panel for board in DASHBOARDS.values() for panel in board["panels"]]
    lists = [board.get("annotations", {}).get("list", ()) for board in DASHBOARDS.values()]
    asked, noted = (
        [re.sub(r"\$\w+", lambda name: values.get(name[0], ".*"), e["expr"]) for e in entries]
        for entries in (
            [target for panel in panels for target in panel.get("targets", ())],
            [note for notes in lists for note in notes],
        )
    )
    assert len(asked) > 40
    shown = [entry.removesuffix(" or vector(0)") for entry in asked]
    shown += [f"{entry} or vector(0)" for entry in noted]  # of what has changed: nothing has
    some = [{"labels": "{}", "value": 1.0}]
    queries = {f"count({expression}) > bool 0": some for expression in shown}
    inputs = [*series(*more, is_well=False), *constant(around)]
    assert differs(tmp_path, inputs, queries) == ""


def test_a_resource_of_which_every_device_is_lost_differs_from_before(tmp_path: Path) -> None:
    """Its series end when a resource has no device left."""
    (asked,) = (
        panel["targets"][0]["expr"]
        for panel in DASHBOARDS["fleet"]["panels"]
        if panel["title"].endswith("less those before")
    )
    labels = f'{{{OF}, node="edge-1", state="Healthy", resource="example.com/%s"}}'
    values = {"lost": "8x100 stale", "same": "8x120", "fewer": "8x100 6x20", "new": "_x100 4x20"}
    inputs = [
        {"series": f"genericdp_devices{labels % name}", "values": entry}
        for name, entry in values.items()
    ]
    expected = [
        {"labels": f'{{daemonset="genericdp", resource="example.com/{name}"}}', "value": value}
        for name, value in {"lost": -8.0, "fewer": -2.0, "new": 4.0}.items()
    ]
    query = asked.replace("$before", "30m").replace("$daemonset", ".*").replace("$resource", ".*")
    assert differs(tmp_path, inputs, {query: expected}) == ""
