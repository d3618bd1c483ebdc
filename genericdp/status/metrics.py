"""The metrics, as Prometheus reads them."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from genericdp.kubelet.channels import GRPC_VERSION
from genericdp.status.catalogue import METRICS, MOST_DEVICES, MOST_OF_RESOURCE, PREFIX
from genericdp.tally import BOUNDS, Durations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    from prometheus_client.metrics_core import Metric

    from genericdp.status.model import ResourceStatus, Status
    from genericdp.tally import ResourceTally, Tally

    Sample: TypeAlias = tuple[str, tuple[str, ...], float | Durations]
    """Name of a metric, values of its labels, value."""

OPENMETRICS = "application/openmetrics-text"
_OPENMETRICS_VERSION = "1.0.0"
_LES = [*map(str, BOUNDS), "+Inf"]
_PROCESS = ProcessCollector(registry=None)


def exposition(
    tally: Tally, status: Status, *, openmetrics: bool = False, each_device: bool = True
) -> tuple[bytes, str]:
    """Return body and content type of an answer, as OpenMetrics or in the older format.

    For ten thousand devices it takes its time: in a thread, with a copy of the tally.
    ``each_device``: also the series that name devices.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Values(_samples(tally, status, each_device=each_device)))
    registry.register(_PROCESS)
    if openmetrics:
        body: bytes = generate_openmetrics(registry, version=_OPENMETRICS_VERSION)  # type: ignore[no-untyped-call]
        return body, f"{OPENMETRICS}; version={_OPENMETRICS_VERSION}; charset=utf-8"
    return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4


class _Values(Collector):
    """Yield each metric with its samples, in the order of the table."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        numbers: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        durations: dict[str, HistogramMetricFamily] = {}
        for one in METRICS:
            name, meaning, labels = one.name, one.meaning, one.labels
            match one.kind:
                case "counter":
                    numbers[name] = CounterMetricFamily(name, meaning, labels=labels)
                case "gauge":
                    numbers[name] = GaugeMetricFamily(name, meaning, labels=labels)
                case "histogram":
                    durations[name] = HistogramMetricFamily(name, meaning, labels=labels)
        for name, labels, value in self._samples:
            if isinstance(value, Durations):
                buckets = list(zip(_LES, map(float, value.cumulative), strict=True))
                durations[PREFIX + name].add_metric(labels, buckets, value.seconds)
            else:
                numbers[PREFIX + name].add_metric(labels, value)
        return [*numbers.values(), *durations.values()]


def _samples(tally: Tally, status: Status, *, each_device: bool) -> Iterator[Sample]:
    yield from _of_process(tally, status)
    room, left_out = MOST_DEVICES, 0
    for resource in status.resources:
        yield from _of_state(resource)
        if each_device:
            shown = resource.devices[: min(room, MOST_OF_RESOURCE)]
            room, left_out = room - len(shown), left_out + len(resource.devices) - len(shown)
            for one in shown:
                yield "device_healthy", (resource.name, one.id), one.healthy
        # One that has just been added is counted from its first reconcile on.
        if (counted := tally.resources.get(resource.name)) is not None:
            yield from _of_counts(resource.name, counted)
    yield "device_series_left_out", (), left_out


def _of_process(tally: Tally, status: Status) -> Iterator[Sample]:
    config = status.config
    yield "config_valid", (), config.in_force and config.differs_since is None
    own = not config.from_state_dir
    yield "config_last_success_timestamp_seconds", (), (config.since or 0.0) * own
    if config.in_force:
        yield "config_hash_info", (config.digest,), 1
    if config.policy_digest:
        yield "policy_hash_info", (config.policy_digest,), 1
    if status.descriptors is not None:
        yield "descriptors_used", (), status.descriptors.used
        yield "descriptors_limit", (), status.descriptors.most
    yield "build_info", (status.version, platform.python_version(), GRPC_VERSION), 1
    yield "discovery_duration_seconds", (), tally.discovery
    for kind, count in tally.events.items():
        yield "device_events_total", (kind,), count
    for result, count in tally.reloads.items():
        yield "config_reloads_total", (result,), count


def _of_state(resource: ResourceStatus) -> Iterator[Sample]:
    name, healthy = resource.name, sum(one.healthy for one in resource.devices)
    yield "devices", (name, "Healthy"), healthy
    yield "devices", (name, "Unhealthy"), len(resource.devices) - healthy
    yield "not_offered", (name,), len(resource.not_offered)
    yield "registered", (name,), resource.registered
    yield "resource_contested", (name,), bool(resource.contested)


def _of_counts(name: str, counted: ResourceTally) -> Iterator[Sample]:
    for registration, count in counted.registrations.items():
        yield "registrations_total", (name, registration), count
    yield "stream_updates_total", (name,), counted.updates
    for allocation, count in counted.allocations.items():
        yield "allocations_total", (name, allocation), count
    yield "allocation_duration_seconds", (name,), counted.allocation_seconds
    for hook, results in counted.hooks.items():
        for result, count in results.items():
            yield "hook_results_total", (name, hook, result), count
    for probe in counted.probes.values():
        for result, count in probe.results.items():
            yield "probe_results_total", (name, probe.label, result), count
        yield "probe_duration_seconds", (name, probe.label), probe.seconds
