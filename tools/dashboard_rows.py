"""What the dashboard shows: the queries, and the panels of each row."""

from typing import NamedTuple


class Panel(NamedTuple):
    """What differs from panel to panel."""

    kind: str
    width: int
    """Of 24."""
    title: str
    expr: str
    legend: str = ""
    extra: str = ""
    """The unit of a timeseries, the columns of a table; of a stat whether it may turn red."""


NODE = 'node=~"$node"'
BOTH = f'{NODE}, resource=~"$resource"'
OURS = f'job=~".*genericdp.*", {NODE}'
"""Metrics that each process has, so the job's name tells ours."""
WHERE = "{{node}} {{resource}}"
FAILED = f'genericdp_allocations_total{{{BOTH}, result!~"success|cancelled"}}'
NODES = (
    f'(count(count by (node) (genericdp_build_info{{{NODE}, node!=""}})) or vector(0))'
    f' + (count(genericdp_build_info{{{NODE}, node=""}}) or vector(0))'
)
"""During an update a node has two; without Kubernetes a host has no such label."""


def quantile(metric: str, by: str, labels: str = BOTH) -> str:
    """Give how long all but one of a hundred take at most."""
    rate = f"rate(genericdp_{metric}_duration_seconds_bucket{{{labels}}}[$__rate_interval])"
    return f"histogram_quantile(0.99, sum by (le, {by}) ({rate}))"


def most(expr: str) -> str:
    """Give the highest only: of thousands of nodes nobody reads all."""
    return f"topk(20, {expr})"


def rate(metric: str, by: str, labels: str = BOTH) -> str:
    """Give how many there are in a second."""
    return f"sum by ({by}) (rate(genericdp_{metric}{{{labels}}}[$__rate_interval]))"


ROWS: dict[str, list[Panel]] = {
    "Overview": [
        Panel("stat", 4, "Nodes", NODES),
        Panel("stat", 4, "Healthy devices", f'sum(genericdp_devices{{{BOTH}, state="Healthy"}})'),
        Panel(
            "stat",
            4,
            "Unhealthy devices",
            f'sum(genericdp_devices{{{BOTH}, state="Unhealthy"}})',
            extra="red from 1",
        ),
        Panel(
            "stat",
            4,
            "Resources not registered",
            f"sum(genericdp_registered{{{BOTH}}} == bool 0)",
            extra="red from 1",
        ),
        Panel(
            "stat",
            4,
            "Nodes that refuse their config",
            f"sum(genericdp_config_valid{{{NODE}}} == bool 0)",
            extra="red from 1",
        ),
        Panel("stat", 4, "Pods refused, 24 h", f"sum(increase({FAILED}[24h]))", extra="red from 1"),
    ],
    "Devices": [
        Panel(
            "timeseries",
            12,
            "Devices by state",
            f"sum by (resource, state) (genericdp_devices{{{BOTH}}})",
            "{{resource}} {{state}}",
        ),
        Panel(
            "table",
            12,
            "Unhealthy now",
            f"genericdp_device_healthy{{{BOTH}}} == 0",
            extra="node resource device",
        ),
        Panel(
            "timeseries",
            12,
            "Matched, but not offered",
            most(f"sum by (node, resource) (genericdp_not_offered{{{BOTH}}}) > 0"),
            WHERE,
        ),
        Panel(
            "timeseries",
            12,
            "Events of devices",
            rate("device_events_total", "kind", NODE),
            "{{kind}}",
            extra="ops",
        ),
    ],
    "Pods": [
        Panel(
            "timeseries",
            8,
            "Allocations",
            rate("allocations_total", "resource, result"),
            "{{resource}} {{result}}",
            extra="ops",
        ),
        Panel(
            "timeseries",
            8,
            "How long an allocation takes, p99",
            quantile("allocation", "resource"),
            "{{resource}}",
            extra="s",
        ),
        Panel(
            "timeseries",
            8,
            "Hooks",
            rate("hook_results_total", "resource, hook, result"),
            "{{resource}} {{hook}} {{result}}",
            extra="ops",
        ),
    ],
    "Kubelet": [
        Panel(
            "state-timeline",
            12,
            "Not registered",
            most(f"min by (node, resource) (genericdp_registered{{{BOTH}}}) == 0"),
            WHERE,
        ),
        Panel(
            "state-timeline",
            12,
            "Served by somebody else, too",
            most(f"1 - (max by (node, resource) (genericdp_resource_contested{{{BOTH}}}) == 1)"),
            WHERE,
        ),
        Panel(
            "timeseries",
            12,
            "Registrations",
            rate("registrations_total", "resource, result"),
            "{{resource}} {{result}}",
            extra="ops",
        ),
        Panel(
            "timeseries",
            12,
            "Lists sent",
            rate("stream_updates_total", "resource"),
            "{{resource}}",
            extra="ops",
        ),
    ],
    "Probes": [
        Panel(
            "timeseries",
            12,
            "Results",
            rate("probe_results_total", "resource, probe, result"),
            "{{resource}} {{probe}} {{result}}",
            extra="ops",
        ),
        Panel(
            "timeseries",
            12,
            "How long a probe takes, p99",
            quantile("probe", "resource, probe"),
            "{{resource}} {{probe}}",
            extra="s",
        ),
    ],
    "Config": [
        Panel(
            "table",
            8,
            "In force",
            f"genericdp_config_hash_info{{{NODE}}}",
            extra="node instance hash",
        ),
        Panel(
            "state-timeline",
            8,
            "The config on disk is refused",
            most(f"min by (node, instance) (genericdp_config_valid{{{NODE}}}) == 0"),
            "{{node}}",
        ),
        Panel(
            "timeseries",
            8,
            "Configs read",
            rate("config_reloads_total", "result", NODE),
            "{{result}}",
            extra="ops",
        ),
    ],
    "Daemon": [
        Panel(
            "timeseries",
            6,
            "Resident memory",
            most(f"process_resident_memory_bytes{{{OURS}}}"),
            "{{node}}",
            extra="bytes",
        ),
        Panel(
            "timeseries",
            6,
            "CPU",
            most(f"rate(process_cpu_seconds_total{{{OURS}}}[$__rate_interval])"),
            "{{node}}",
            extra="percentunit",
        ),
        Panel(
            "timeseries",
            6,
            "Descriptors, of those it may have",
            most(f"genericdp_descriptors_used{{{NODE}}} / genericdp_descriptors_limit{{{NODE}}}"),
            "{{node}}",
            extra="percentunit",
        ),
        Panel(
            "timeseries",
            6,
            "How long a look at the node takes, p99",
            most(quantile("discovery", "node", NODE)),
            "{{node}}",
            extra="s",
        ),
    ],
}
