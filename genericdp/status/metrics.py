"""The metrics: names, labels and meanings, from which the docs are generated, and their values."""

from __future__ import annotations

import platform
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from genericdp import __version__
from genericdp.kubelet.server import GRPC_VERSION
from genericdp.reasons import EMPTY_CAUSES, Code
from genericdp.tally import BOUNDS, Durations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    from prometheus_client.metrics_core import Metric as MetricFamily

    from genericdp.devices.devicelist import DeviceList
    from genericdp.status.state import DaemonState, ResourceState
    from genericdp.tally import ResourceTally, Tally

    Sample: TypeAlias = tuple[str, tuple[str, ...], float | Durations]
    """Name of a metric, values of its labels, value."""

PREFIX = "genericdp_"
MAX_PER_RESOURCE = 1000
"""At most this many devices of a resource have their own series."""
MAX_DEVICES = 10_000
"""The same for all resources together."""
_LES = [*map(str, BOUNDS), "+Inf"]
_PROCESS = ProcessCollector(registry=None)
_FAMILIES: dict[str, Any] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}

_GAUGES = {
    "devices resource state": "Advertised devices, by state (Healthy, Unhealthy); absent if the"
    " resource has none. Replicas are not counted.",
    "device_unhealthy resource device reason": "1 for a device that is not Healthy, with the first"
    f" reason; at most {MAX_PER_RESOURCE:,} devices of a resource and {MAX_DEVICES:,} in all, none"
    " with --no-status.",
    "device_series_left_out": "Devices that have no device_unhealthy because there are too many;"
    " absent if there are none.",
    "unhealthy resource reason": "Devices that are not Healthy, by their first reason.",
    "devices_expected resource": "The least number of Healthy devices that `expect` allows; absent"
    " without it.",
    "devices_expected_max resource": "The greatest number; absent without a maximum.",
    "devices_missing resource": "How many Healthy devices there are too few, as `expect` says;"
    " absent without it, and until each device has been probed.",
    "devices_surplus resource": "How many Healthy devices there are too many; absent like"
    " devices_missing, and without a maximum.",
    "devices_allocated resource": "Devices, not shares, that pods or claims hold, as far as the"
    " kubelet has said; absent if the kubelet is not asked, or the resource has no devices.",
    "not_offered resource reason": "Things that a selector matched and that are not in the list, by"
    " reason (see below); without those that `exclude` matches.",
    "resource_empty resource cause": "1 for a resource without devices, with the cause:"
    f" {', '.join(EMPTY_CAUSES)}; absent if it, or a resource from its name, has some.",
    "registered resource": "Whether the kubelet has the resource and its stream is open, or, with"
    " DRA, has the driver, and its ResourceSlices are published (1) or not (0).",
    "resource_contested resource": "1 while another plugin serves the resource on this node, or it"
    " is not served as servedBy says, as for a while in a rolling update; absent otherwise.",
    "claims state": "ResourceClaims that are prepared on this node, by state: prepared, or gone"
    " (the API server no longer has the claim, and the kubelet has not unprepared it: its devices"
    " are withheld); absent if DRA has served no resource.",
    "config_valid": "Whether the config on disk is active (1) or is refused (0).",
    "config_last_success_timestamp_seconds": "Unix time in seconds at which the active config"
    " was activated; 0: none is active, or only the last good one of an earlier run.",
    "config_hash_info hash": "A SHA-256 for the active config, over the names (without their"
    " directories) and contents of its files, in their order, and the content of its policy; always"
    " 1; absent if there is none.",
    "policy_hash_info hash": "The SHA-256 of the active policy's file, as from sha256sum,"
    " always 1; absent if there is no policy.",
    "descriptors_used": "File descriptors in use.",
    "descriptors_limit": "File descriptors that this process may have.",
    "build_info version python grpc": "The versions of genericdp, Python and gRPC, always 1.",
}
"""The meaning of each metric, by name and labels."""
_COUNTERS = {
    "registrations_total resource result": "Attempts to register, by result: success (the stream"
    " has opened), refused (permanently, by the kubelet), failure.",
    "stream_updates_total resource": "Lists of devices sent to the kubelet.",
    "devices_forgotten_total resource": "Devices that disappeared, and were forgotten after"
    " forgetAfterSeconds; absent until the resource has had a device.",
    "allocations_total resource result": "Allocate calls, or with DRA preparations of claims that"
    " could be read, by result: success, unusable (a device cannot be given, or its hook failed),"
    " invalid (no such device), timeout, cancelled (the kubelet disconnected), error.",
    "hook_results_total resource hook result": "Hooks run for a device (allocate, preStart,"
    " release), by result: success, failure.",
    "probe_results_total resource probe result": "Probes run, by kind and place in the resource's"
    " health (exec-0) and result: success, failure; kernelLog is followed, not run.",
    "device_events_total kind": "Events, also those about nothing that the config needs: actions of"
    " the kernel (add, remove, change, move, bind, unbind, online, offline, other), record (udev"
    " wrote one), file (an entry of a watched directory), resync (full scan at the start or after"
    " lost events).",
    "api_requests_total verb result": "Requests to the API server, for DRA, by verb and result:"
    " success, the status of HTTP, unreachable.",
    "config_reloads_total result": "Configs read, the first one included, by result: applied,"
    " unchanged, refused.",
}
_HISTOGRAMS = {
    "allocation_duration_seconds": "How long Allocate calls took, or with DRA preparations of"
    " claims, including hooks, for any resource and result.",
    "probe_duration_seconds": "How long probes took, those of all resources.",
    "discovery_duration_seconds": "Duration of scans of the host, partial after an event or full.",
}


@dataclass(frozen=True, slots=True)
class Metric:
    """The definition of a metric."""

    name: str
    kind: str
    """``gauge``, ``counter`` or ``histogram``."""
    labels: tuple[str, ...]
    meaning: str


_FROM_THE_START = frozenset({"devices_forgotten_total"})
"""Counters that are shown before they count anything."""
_SHOWN_ONCE_COUNTED = frozenset(key.split()[0] for key in _COUNTERS) - _FROM_THE_START
"""A node of a fleet exports nothing for what it neither has nor did."""

METRICS = tuple(
    Metric(PREFIX + name, kind, tuple(labels), meaning)
    for kind, table in (("gauge", _GAUGES), ("counter", _COUNTERS), ("histogram", _HISTOGRAMS))
    for key, meaning in table.items()
    for name, *labels in [key.split()]
)


def exposition(state: DaemonState, tally: Tally, *, each_device: bool) -> bytes:
    """Return the body of ``/metrics``.

    This is slow for ten thousand devices: call it in a thread. ``each_device`` includes the series
    that name devices.
    """
    return generate_latest(_MetricsCollector(_samples(state, tally, each_device=each_device)))


class _MetricsCollector(Collector):
    """Collects each metric with its samples, in the order of METRICS, and those of the process."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterable[MetricFamily]:
        """Return the metrics."""
        families: dict[str, Any] = {
            metric.name: _FAMILIES[metric.kind](metric.name, metric.meaning, labels=metric.labels)
            for metric in METRICS
        }
        for name, labels, value in self._samples:
            if isinstance(value, Durations):
                if not any(value.counts):
                    continue
                buckets = list(zip(_LES, map(float, accumulate(value.counts)), strict=True))
                families[PREFIX + name].add_metric(labels, buckets, value.seconds)
            elif value or name not in _SHOWN_ONCE_COUNTED:
                families[PREFIX + name].add_metric(labels, value)
        return (*families.values(), *_PROCESS.collect())


def _samples(state: DaemonState, tally: Tally, *, each_device: bool) -> Iterator[Sample]:
    yield from _of_process(state, tally)
    room, left_out = MAX_DEVICES, 0
    for resource in state.resources:
        name, listed = resource.resource.name, tuple(resource.devices.devices.values())
        yield from _of_resource(resource)
        if each_device:
            unhealthy = [entry for entry in listed if not entry.is_healthy]
            shown = unhealthy[: min(room, MAX_PER_RESOURCE)]
            room, left_out = room - len(shown), left_out + len(unhealthy) - len(shown)
            for entry in shown:
                yield "device_unhealthy", (name, entry.device.id, entry.code), 1
        # A new resource is counted from its first reconcile on.
        if (counted := tally.resources.get(name)) is not None:
            yield from _of_tally(name, counted)
    if left_out:
        yield "device_series_left_out", (), left_out


def _of_process(state: DaemonState, tally: Tally) -> Iterator[Sample]:
    config, loaded = state.config, state.config.loaded
    yield "config_valid", (), loaded is not None and config.refused is None
    own = not config.from_state_dir
    yield "config_last_success_timestamp_seconds", (), (config.since or 0.0) * own
    if loaded is not None:
        yield "config_hash_info", (loaded.digest,), 1
        if loaded.policy is not None:
            yield "policy_hash_info", (loaded.policy.sha256,), 1
    yield "descriptors_used", (), state.descriptors.used
    yield "descriptors_limit", (), state.descriptors.most
    yield "build_info", (__version__, platform.python_version(), GRPC_VERSION), 1
    yield "discovery_duration_seconds", (), tally.discovery
    yield "allocation_duration_seconds", (), tally.allocation_seconds
    yield "probe_duration_seconds", (), tally.probe_seconds
    for claim_state, count in state.claims.items():
        yield "claims", (claim_state,), count
    for request, count in tally.requests.items():
        yield "api_requests_total", request, count
    for kind, count in tally.events.items():
        yield "device_events_total", (kind,), count
    for result, count in tally.reloads.items():
        yield "config_reloads_total", (result,), count


def _of_resource(state: ResourceState) -> Iterator[Sample]:
    name, devices = state.resource.name, state.devices
    listed = devices.devices.values()
    if listed:
        unhealthy = [entry for entry in listed if not entry.is_healthy]
        yield "devices", (name, "Healthy"), len(listed) - len(unhealthy)
        yield "devices", (name, "Unhealthy"), len(unhealthy)
        for code, number in Counter(entry.code for entry in unhealthy).items():
            yield "unhealthy", (name, code), number
        if state.allocated is not None:
            yield "devices_allocated", (name,), state.allocated
    yield from _of_expectation(name, devices)
    for code, number in Counter(entry.code for entry in devices.not_offered).items():
        if code is not Code.EXCLUDED:
            yield "not_offered", (name, code), number
    if cause := devices.why_empty[1]:
        yield "resource_empty", (name, cause), 1
    yield "registered", (name,), state.registered
    if state.contested:
        yield "resource_contested", (name,), 1


def _of_expectation(name: str, devices: DeviceList) -> Iterator[Sample]:
    if devices.expect is None:
        return
    yield "devices_expected", (name,), devices.expect.min
    if devices.expect.max is not None:
        yield "devices_expected_max", (name,), devices.expect.max
    if (off_by := devices.off_by) is not None:
        yield "devices_missing", (name,), max(0, -off_by)
        if devices.expect.max is not None:
            yield "devices_surplus", (name,), max(0, off_by)


def _of_tally(name: str, counted: ResourceTally) -> Iterator[Sample]:
    for result, count in counted.registrations.items():
        yield "registrations_total", (name, result), count
    yield "stream_updates_total", (name,), counted.updates
    if counted.forgotten is not None:
        yield "devices_forgotten_total", (name,), counted.forgotten
    for result, count in counted.allocations.items():
        yield "allocations_total", (name, result), count
    for hook, results in counted.hooks.items():
        for result, count in results.items():
            yield "hook_results_total", (name, hook, result), count
    for probe in counted.probes.values():
        for result, count in probe.results.items():
            yield "probe_results_total", (name, probe.name, result), count
