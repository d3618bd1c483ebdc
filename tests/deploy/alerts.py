"""Alerts on what a daemon really says: its own metrics, read by Prometheus' own rules."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from typing import TYPE_CHECKING

import yaml
from prometheus_client.parser import text_string_to_metric_families as parsed

from tests.deploy.rendering import MONITORING, tool

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

RULES = yaml.load((MONITORING / "prometheusrule.yaml").read_text(), yaml.CSafeLoader)["spec"]
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
    directory: Path, bodies: Sequence[str], expected: Collection[str], *, around: Sequence[str] = ()
) -> str:
    """Return what promtool says if other alerts than these fire after two hours; else nothing.

    ``around`` is what others say all the time: series that are 1.
    """
    (directory / "rules.yaml").write_text(yaml.safe_dump(RULES))
    firing = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": "115m",
        "exp_samples": [
            {"labels": f'{{alertname="{entry}"}}', "value": 1} for entry in sorted(expected)
        ],
    }
    others = [{"series": name, "values": "1x120"} for name in around]
    case = {"input_series": [*series(bodies), *others], "promql_expr_test": [firing]}
    content = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [case]}
    (directory / "test.yaml").write_text(yaml.safe_dump(content))
    command = [str(tool("promtool")), "test", "rules", str(directory / "test.yaml")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.stdout + ended.stderr if ended.returncode else ""
