"""The metrics that there are: names, labels, meanings; docs/metrics.md is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]

PREFIX = "genericdp_"
MOST_OF_RESOURCE = 1000
"""Of one resource so many devices have a series of their own,"""
MOST_DEVICES = 10_000
"""and so many in all."""


@dataclass(frozen=True, slots=True)
class Described:
    """A metric."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str


_TABLE: tuple[tuple[str, Kind, str, str], ...] = (
    (
        "devices",
        "gauge",
        "resource state",
        "Devices in the list that the kubelet gets, by state (Healthy, Unhealthy);"
        " of one with replicas, the shares are not counted.",
    ),
    (
        "device_healthy",
        "gauge",
        "resource device",
        f"Whether a device is Healthy (1) or not (0); at most {MOST_OF_RESOURCE:,} devices of a"
        f" resource and {MOST_DEVICES:,} in all, none with --no-status.",
    ),
    (
        "device_series_left_out",
        "gauge",
        "",
        "Devices that have no device_healthy because there are too many.",
    ),
    (
        "not_offered",
        "gauge",
        "resource",
        "Things that a selector matched and that are not in the list.",
    ),
    (
        "registered",
        "gauge",
        "resource",
        "Whether the kubelet has the resource and its stream is open (1) or not (0).",
    ),
    (
        "resource_contested",
        "gauge",
        "resource",
        "Whether somebody else serves the resource on this node (1) or not (0);"
        " 1 for a while in a rolling update.",
    ),
    (
        "registrations_total",
        "counter",
        "resource result",
        "Attempts to register, by result: success (the stream has opened), refused (by the"
        " kubelet, for what stays so), failure.",
    ),
    (
        "stream_updates_total",
        "counter",
        "resource",
        "Lists of devices sent to the kubelet.",
    ),
    (
        "allocations_total",
        "counter",
        "resource result",
        "Allocate calls, by result: success, unusable (a device cannot be given, or its hook"
        " failed), invalid (asked for what is not there), timeout, cancelled (the kubelet went"
        " away), error.",
    ),
    (
        "allocation_duration_seconds",
        "histogram",
        "resource",
        "How long Allocate calls took, hooks included, whatever their result.",
    ),
    (
        "hook_results_total",
        "counter",
        "resource hook result",
        "Hooks run for a device (allocate, preStart), by result: success, failure.",
    ),
    (
        "probe_results_total",
        "counter",
        "resource probe result",
        "Probes run, by kind and place in the resource's health (exec-0) and result: success,"
        " failure; kernelLog is followed, not run.",
    ),
    (
        "probe_duration_seconds",
        "histogram",
        "resource probe",
        "How long probes took.",
    ),
    (
        "discovery_duration_seconds",
        "histogram",
        "",
        "How long looks at the host took, after an event or in full.",
    ),
    (
        "device_events_total",
        "counter",
        "kind",
        "Events that called for a look: actions of the kernel (add, remove, change, move, bind,"
        " unbind, online, offline, other), record (udev wrote one), file (an entry of a"
        " watched folder), resync (all is looked at: listening began, or events were lost).",
    ),
    (
        "config_valid",
        "gauge",
        "",
        "Whether the config on disk is the one in force (1) or is refused (0).",
    ),
    (
        "config_reloads_total",
        "counter",
        "result",
        "Configs read, the first one included, by result: applied, unchanged, refused.",
    ),
    (
        "config_last_success_timestamp_seconds",
        "gauge",
        "",
        "When the config in force was put in force, in seconds since 1970;"
        " 0: none was, or only the last good one of an earlier run.",
    ),
    (
        "config_hash_info",
        "gauge",
        "hash",
        "A SHA-256 for the config in force, over the names (without their folders) and contents of"
        " its files, in their order, and the content of its policy; always 1; absent: there is"
        " none.",
    ),
    (
        "policy_hash_info",
        "gauge",
        "hash",
        "The SHA-256 of the policy's file in force, as sha256sum gives it, always 1; absent: no"
        " policy bounds the config.",
    ),
    (
        "descriptors_used",
        "gauge",
        "",
        "File descriptors in use, counted every 10 s.",
    ),
    (
        "descriptors_limit",
        "gauge",
        "",
        "File descriptors that this process may have.",
    ),
    (
        "build_info",
        "gauge",
        "version python grpc",
        "The versions of genericdp, Python and gRPC, always 1.",
    ),
)

METRICS = tuple(
    Described(PREFIX + name, kind, tuple(labels.split()), meaning)
    for name, kind, labels, meaning in _TABLE
)
