"""Rules and dashboards that are shipped, and promtool, which evaluates what they select."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import yaml

from tests.deploy.rendering import MONITORING, tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

RULES = yaml.load((MONITORING / "prometheusrule.yaml").read_text(), yaml.CSafeLoader)["spec"]
DASHBOARDS = {
    name: json.loads((MONITORING / f"grafana-{name}.json").read_text())
    for name in ("dashboard", "fleet")
}


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
