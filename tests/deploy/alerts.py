"""Alerts on what a daemon really says: its own metrics, read by Prometheus' own rules."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING

import yaml
from prometheus_client.parser import text_string_to_metric_families as parsed

from tests.deploy.rendering import MONITORING, tool

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

RULES = yaml.load((MONITORING / "prometheusrule.yaml").read_text(), yaml.CSafeLoader)["spec"]
DASHBOARDS = {
    name: json.loads((MONITORING / f"grafana-{name}.json").read_text())
    for name in ("dashboard", "fleet")
}
_WHERE = 'job="genericdp/genericdp", node="edge-1"'


def series(bodies: Sequence[str]) -> list[dict[str, str]]:
    """Return two hours of scrapes, a minute apart, that begin with the first of one or two answers
    of ``/metrics`` and change each time as the second differs from it.
    """
    values: dict[str, list[float]] = defaultdict(list)
    for body in bodies:
        for family in parsed(body):
            for sample in family.samples:
                labels = ", ".join(f'{name}="{value}"' for name, value in sample.labels.items())
                name = f"{sample.name}{{{_WHERE}{', ' * bool(labels)}{labels}}}"
                values[name].append(sample.value)
    return [
        {"series": name, "values": f"{found[0]:g}+{found[-1] - found[0]:g}x120"}
        for name, found in values.items()
        if name.startswith("genericdp_")
    ]


def mistakes(
    directory: Path,
    bodies: Sequence[str],
    expected: Collection[str],
    *,
    around: Mapping[str, float] = MappingProxyType({}),
    replicas: Collection[str] = (),
) -> str:
    """Return what promtool says if other alerts than these fire after two hours; else nothing.

    ``around`` is what others say all the time. With ``replicas`` of Prometheus each series is there
    once for each of them.
    """
    samples = [{"labels": f'{{alertname="{entry}"}}', "value": 1.0} for entry in sorted(expected)]
    firing = 'count by (alertname) (max without (prometheus_replica) (ALERTS{alertstate="firing"}))'
    inputs = [*series(bodies), *_others(around)]
    if replicas:
        inputs = [
            {**entry, "series": f'{entry["series"][:-1]}, prometheus_replica="{replica}"}}'}
            for entry in inputs
            for replica in replicas
        ]
    return differs(directory, inputs, {firing: samples})


def without_result(
    directory: Path,
    bodies: Sequence[str],
    expressions: Collection[str],
    *,
    around: Mapping[str, float],
) -> str:
    """Return what promtool says of expressions that select nothing after two hours."""
    results = [{"labels": "{}", "value": 1.0}]
    queries = {f"count({expression}) > bool 0": results for expression in expressions}
    return differs(directory, [*series(bodies), *_others(around)], queries)


def _others(around: Mapping[str, float]) -> list[dict[str, str]]:
    return [{"series": name, "values": f"{value:g}x120"} for name, value in around.items()]


def differs(
    directory: Path,
    inputs: Sequence[Mapping[str, str]],
    queries: Mapping[str, Sequence[Mapping[str, object]]],
) -> str:
    """Return what promtool says if queries give anything else after two hours; else nothing."""
    (directory / "rules.yaml").write_text(yaml.safe_dump(RULES))
    case = {
        "input_series": inputs,
        "promql_expr_test": [
            {"expr": query, "eval_time": "115m", "exp_samples": samples}
            for query, samples in queries.items()
        ],
    }
    content = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [case]}
    (directory / "test.yaml").write_text(yaml.safe_dump(content))
    command = [str(tool("promtool")), "test", "rules", str(directory / "test.yaml")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.stdout + ended.stderr if ended.returncode else ""
