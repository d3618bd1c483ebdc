"""genericdp.status.metrics, as Prometheus' own parsers read it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from genericdp.config.loaded import ConfigState
from genericdp.host.descriptors import Supply
from genericdp.status.catalogue import METRICS, MOST_DEVICES, MOST_OF_RESOURCE, PREFIX
from genericdp.status.metrics import exposition
from genericdp.status.model import DeviceStatus, NotOfferedStatus, ResourceStatus, Status
from genericdp.tally import Labels, Tally

if TYPE_CHECKING:
    from prometheus_client import Metric

NAME = "example.com/a"
IN_FORCE = ConfigState(
    digest="ab" * 32, since=1500.0, policy="/etc/p.yaml", policy_digest="cd" * 32
)
DESIGNED = """
    devices{resource,state} device_healthy{resource,device} allocations_total{resource,result}
    allocation_duration_seconds{resource} registrations_total{resource,result}
    registered{resource} stream_updates_total{resource} discovery_duration_seconds{}
    device_events_total{kind} probe_results_total{resource,probe,result}
    probe_duration_seconds{resource,probe} hook_results_total{resource,hook,result}
    config_valid{} config_reloads_total{result} config_last_success_timestamp_seconds{}
    config_hash_info{hash} build_info{version,python,grpc}
"""
LABELS = {one.name.removesuffix("_total"): one.labels for one in METRICS}
EVERY_PROBE = Labels(probes={0: "exec-0"}, hooks=("allocate", "preStart"))


def devices(count: int) -> tuple[DeviceStatus, ...]:
    return tuple(DeviceStatus(id=f"d{i}", healthy=i != 1) for i in range(count))


def resource(name: str = NAME, *, count: int = 2) -> ResourceStatus:
    return ResourceStatus(
        name=name,
        registered=True,
        contested="somebody",
        devices=devices(count),
        not_offered=(NotOfferedStatus(path="/dev/x", reason="odd"),),
    )


def status(*resources: ResourceStatus, config: ConfigState | None = None) -> Status:
    return Status(
        version="1.2.3",
        node="node-1",
        time=2000.0,
        started=1000.0,
        kubelet_folder="/k",
        kubelet_present=True,
        config=config or IN_FORCE,
        descriptors=Supply(used=30, most=1024),
        resources=resources,
    )


@pytest.fixture
def tally() -> Tally:
    tally = Tally()
    tally.keep({NAME: EVERY_PROBE})
    return tally


def families(tally: Tally, of: Status, *, each_device: bool = True) -> dict[str, Metric]:
    body, content_type = exposition(tally, of, each_device=each_device)
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    return {one.name: one for one in text_string_to_metric_families(body.decode())}


def values(metrics: dict[str, Metric]) -> dict[str, float]:
    """Each sample that is not of a histogram's bucket, as ``name{label,…}``."""
    return {
        f"{one.name.removeprefix(PREFIX)}{{{','.join(map(one.labels.__getitem__, labels))}}}": (
            one.value
        )
        for metric in metrics.values()
        for labels in [LABELS.get(metric.name, ())]
        for one in metric.samples
        if not one.name.endswith("_bucket")
    }


def test_every_metric_is_there_with_its_type_labels_and_meaning(tally: Tally) -> None:
    found = families(tally, status(resource()))
    for one in METRICS:
        metric = found.pop(one.name.removesuffix("_total"))
        assert metric.type == one.kind
        assert metric.documentation == one.meaning
        assert metric.samples, one.name
        for sample in metric.samples:
            assert sample.labels.keys() - {"le"} == set(one.labels)
    # No other is, but those of any process: the library's own registry has python_… as well.
    assert {name.partition("_")[0] for name in found} == {"process"}
    signatures = {f"{one.name.removeprefix(PREFIX)}{{{','.join(one.labels)}}}" for one in METRICS}
    assert set(DESIGNED.split()) <= signatures


@pytest.mark.parametrize("one", METRICS, ids=lambda one: one.name)
def test_names_are_as_promtool_wants_them(one: object) -> None:
    name, kind = one.name, one.kind  # type: ignore[attr-defined]
    assert name.endswith("_total") == (kind == "counter")
    assert not name.endswith(("_count", "_sum", "_bucket"))
    assert not {"gauge", "counter", "histogram", "milliseconds", "ms"} & {*name.split("_")}
    assert kind != "histogram" or name.endswith("_seconds")
    assert not {"le", "quantile"} & {*one.labels}  # type: ignore[attr-defined]


def test_what_was_counted_is_shown(tally: Tally) -> None:
    one = tally.of(NAME)
    one.allocated("success", 0.0007)
    one.allocated("unusable", 0.3)
    one.registrations["refused"] += 2
    one.updates += 3
    one.probed(0, ok=False, seconds=0.02)
    one.hooked("preStart", ok=True)
    tally.happened("add")
    tally.reloads["refused"] += 1
    found = families(tally, status(resource()))
    shown = values(found)
    expected = {
        f"devices{{{NAME},Healthy}}": 1,
        f"devices{{{NAME},Unhealthy}}": 1,
        f"device_healthy{{{NAME},d0}}": 1,
        f"device_healthy{{{NAME},d1}}": 0,
        f"registered{{{NAME}}}": 1,
        f"resource_contested{{{NAME}}}": 1,
        f"not_offered{{{NAME}}}": 1,
        f"allocations_total{{{NAME},success}}": 1,
        f"allocations_total{{{NAME},unusable}}": 1,
        f"allocations_total{{{NAME},timeout}}": 0,
        f"allocation_duration_seconds_count{{{NAME}}}": 2,
        f"allocation_duration_seconds_sum{{{NAME}}}": pytest.approx(0.3007),
        f"registrations_total{{{NAME},refused}}": 2,
        f"stream_updates_total{{{NAME}}}": 3,
        f"probe_results_total{{{NAME},exec-0,failure}}": 1,
        f"probe_duration_seconds_count{{{NAME},exec-0}}": 1,
        f"hook_results_total{{{NAME},preStart,success}}": 1,
        f"hook_results_total{{{NAME},preStart,failure}}": 0,
        "device_events_total{add}": 1,
        "config_reloads_total{refused}": 1,
        "config_valid{}": 1,
        "config_last_success_timestamp_seconds{}": 1500,
        f"config_hash_info{{{'ab' * 32}}}": 1,
        "descriptors_used{}": 30,
        "descriptors_limit{}": 1024,
    }
    assert {name: shown.get(name) for name in expected} == expected
    buckets = {
        one.labels["le"]: one.value
        for one in found["genericdp_allocation_duration_seconds"].samples
        if "le" in one.labels
    }
    assert (buckets["0.001"], buckets["0.25"], buckets["1.0"], buckets["+Inf"]) == (1, 1, 2, 2)


def test_whether_a_policy_bounds_the_config_is_shown(tally: Tally) -> None:
    bounded = ConfigState(digest="a", since=5.0, policy="/etc/p.yaml", policy_digest="5a")
    found = values(families(tally, status(config=bounded)))
    assert (found["policy_hash_info{5a}"], found["config_hash_info{a}"]) == (1, 1)
    unbounded = families(tally, status(config=ConfigState(digest="a", since=5.0)))
    assert unbounded["genericdp_policy_hash_info"].samples == []


@pytest.mark.parametrize(
    ("config", "valid", "since", "hashes"),
    [
        pytest.param(ConfigState(), 0, 0, 0, id="none"),
        pytest.param(ConfigState(digest="a", since=5.0), 1, 5, 1, id="in-force"),
        pytest.param(
            ConfigState(digest="a", since=5.0, differs_since=7.0), 0, 5, 1, id="refused-on-disk"
        ),
        pytest.param(
            ConfigState(digest="a", since=5.0, differs_since=5.0, from_state_dir=True),
            0,
            0,
            1,
            id="last-good-one-of-an-earlier-run",
        ),
    ],
)
def test_how_the_config_stands_is_shown(
    tally: Tally, config: ConfigState, valid: int, since: float, hashes: int
) -> None:
    found = families(tally, status(config=config))
    shown = values(found)
    assert shown["config_valid{}"] == valid
    assert shown["config_last_success_timestamp_seconds{}"] == since
    assert len(found["genericdp_config_hash_info"].samples) == hashes


def test_of_very_many_devices_some_have_no_series_and_that_is_told(tally: Tally) -> None:
    more = [resource(f"example.com/{i}", count=MOST_OF_RESOURCE + 5) for i in range(11)]
    found = families(tally, status(*more))
    assert len(found["genericdp_device_healthy"].samples) == MOST_DEVICES
    shown = values(found)
    assert shown["device_series_left_out{}"] == 11 * (MOST_OF_RESOURCE + 5) - MOST_DEVICES
    assert shown["devices{example.com/10,Healthy}"] == MOST_OF_RESOURCE + 4
    few = families(tally, status(*more), each_device=False)
    assert few["genericdp_device_healthy"].samples == []


def test_a_resource_that_is_not_of_this_node_has_no_series(tally: Tally) -> None:
    found = families(tally, status(resource("example.com/new")))
    told = {
        one.labels["resource"]
        for metric in found.values()
        for one in metric.samples
        if "resource" in one.labels
    }
    assert told == {"example.com/new"}


def test_open_metrics_are_read_by_their_own_parser(tally: Tally) -> None:
    body, content_type = exposition(tally, status(resource()), openmetrics=True)
    assert content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    parsed = openmetrics.text_string_to_metric_families(body.decode())  # type: ignore[no-untyped-call]
    found = {one.name for one in parsed}
    assert {one.name.removesuffix("_total") for one in METRICS} <= found


def test_whatever_an_id_holds_is_read_as_it_is(tally: Tally) -> None:
    odd = 'a"} 1\n# \\{<script>'
    one = replace(resource(), devices=(DeviceStatus(id=odd, healthy=True),))
    (sample,) = families(tally, status(one))["genericdp_device_healthy"].samples
    assert sample.labels["device"] == odd


def test_the_daemon_imports_none_of_it() -> None:
    """Without --listen nobody pays for metrics."""
    names = "genericdp.cli.run, genericdp.supervisor, genericdp.reloading.reloader"
    unwanted = "prometheus_client", "h11", "http.server", "genericdp.status.metrics"
    code = f"import sys, {names}; sys.exit(any(one in sys.modules for one in {unwanted}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
