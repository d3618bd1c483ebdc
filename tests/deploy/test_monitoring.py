"""Alerts and dashboard: they name only what there is, and each alert is explained and tested."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any, get_args

import pytest
import yaml

from genericdp import tally
from genericdp.status.metrics import METRICS
from tests.deploy.rendering import ROOT, tool

FOLDER = ROOT / "deploy/monitoring"
RULES = yaml.safe_load((FOLDER / "rules.yaml").read_text())
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text())
PANELS = DASHBOARD["panels"]
VARIABLES = DASHBOARD["templating"]["list"]

KNOWN = {one.name: set(one.labels) for one in METRICS}
for _one in METRICS:
    if _one.kind == "histogram":
        KNOWN |= {
            f"{_one.name}_{part}": {*_one.labels, "le"} for part in ("bucket", "count", "sum")
        }
FOREIGN = {
    *("process_start_time_seconds", "process_resident_memory_bytes", "process_cpu_seconds_total"),
    *("kube_daemonset_status_desired_number_scheduled", "kube_daemonset_status_number_available"),
    *("kube_daemonset_status_updated_number_scheduled", "up", "ALERTS"),
}
"""What the client library, Prometheus and kube-state-metrics bring."""
SCRAPED = {"job", "instance", "namespace", "pod", "node", "daemonset"}
RESULTS = {
    *get_args(tally.AllocationResult),
    *get_args(tally.RegistrationResult),
    *get_args(tally.RunResult),
    *get_args(tally.ReloadResult),
}
SELECTOR = re.compile(r"\b([a-zA-Z_]+)\{([^}]*)\}")
CONDITION = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')


def dashboard_expressions() -> list[str]:
    targets = [target["expr"] for panel in PANELS for target in panel.get("targets", ())]
    return targets + [one["query"]["query"] for one in VARIABLES if one["type"] == "query"]


EXPRESSIONS = [rule["expr"] for rule in ALERTS.values()] + dashboard_expressions()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_is_one_that_there_is(expression: str) -> None:
    named = set(re.findall(r"\b(?:genericdp|process|kube)_[a-z_]+", expression))
    assert named <= KNOWN.keys() | FOREIGN
    for metric, inside in SELECTOR.findall(expression):
        for label, _, value in CONDITION.findall(inside):
            assert label in KNOWN.get(metric, SCRAPED) | SCRAPED
            if label == "state":
                assert value in {"Healthy", "Unhealthy"}
            if label == "result":
                assert set(value.split("|")) <= RESULTS


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_it_means_and_where_to_read_on(name: str) -> None:
    rule, page = ALERTS[name], (ROOT / "docs/operating.md").read_text()
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert len(rule["annotations"]["summary"]) < 160
    assert len(rule["annotations"]["description"]) > 100
    assert rule["annotations"]["runbook"] == f"docs/operating.md#alert-{name.lower()}"
    assert f"### Alert {name}\n" in page


def test_no_alert_is_explained_that_there_is_not() -> None:
    explained = re.findall(
        r"^### Alert (\w+)$", (ROOT / "docs/operating.md").read_text(), re.MULTILINE
    )
    assert explained == list(ALERTS)


def test_every_alert_is_seen_to_fire_and_not_to_fire() -> None:
    """At one time of a case it fires for one series and not for another; at one it does not yet."""
    tests = yaml.safe_load((FOLDER / "rules_test.yaml").read_text())["tests"]
    fired: set[str] = set()
    for case in tests:
        expected = [one["exp_samples"] for one in case["promql_expr_test"]]
        fired |= set(re.findall(r'alertname="(\w+)"', str(expected)))
        assert len(case["input_series"]) > 1
    assert fired == ALERTS.keys()
    assert {name for case in tests for name in re.findall(r"Genericdp\w+", case["name"])} == fired


def test_what_an_alert_asks_of_a_duration_is_the_bound_of_a_bucket() -> None:
    """Found by a new user: between 1 and 5 s each was taken for 4.96 s."""
    text = (FOLDER / "rules.yaml").read_text()
    asked = re.findall(r"histogram_quantile\(.*\) > (\S+)", text)
    assert len(asked) == text.count("histogram_quantile") > 0
    assert {float(one) for one in asked} <= {*tally.BOUNDS}


def test_what_is_generated_is_fresh() -> None:
    """``make generate`` makes it so."""
    ended = subprocess.run(
        [sys.executable, ROOT / "tools/generate_monitoring", "--check"], check=False
    )
    assert ended.returncode == 0


def test_the_operators_rules_are_the_same() -> None:
    manifest = yaml.safe_load((FOLDER / "prometheusrule.yaml").read_text())
    assert manifest["spec"] == RULES


def test_panels_have_ids_and_places_of_their_own() -> None:
    ids = [panel["id"] for panel in PANELS]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for place in (panel["gridPos"] for panel in PANELS):
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_the_dashboard_takes_its_data_from_where_one_chooses() -> None:
    def sources(value: Any) -> list[Any]:
        if isinstance(value, dict):
            own = [value["datasource"]] if "datasource" in value else []
            return own + [one for inner in value.values() for one in sources(inner)]
        return [one for inner in value for one in sources(inner)] if isinstance(value, list) else []

    assert {json.dumps(one) for one in sources(DASHBOARD)} == {
        '{"type": "prometheus", "uid": "${datasource}"}'
    }
    assert [one["name"] for one in VARIABLES] == ["datasource", "node", "resource"]


@pytest.mark.deploy
@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"],
        ["test", "rules", "rules_test.yaml"],
    ],
    ids=["check", "test"],
)
def test_promtool_is_content(arguments: list[str]) -> None:
    ended = subprocess.run(
        [tool("promtool"), *arguments], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.deploy
def test_promtool_reads_every_expression_of_the_dashboard(tmp_path: Any) -> None:
    """All in one file of rules: a start of promtool takes a second."""
    shown = [one for one in dashboard_expressions() if not one.startswith("label_values")]
    exprs = [one.replace("$__rate_interval", "5m") for one in shown]
    records = [{"record": f"panel:{i}", "expr": expr} for i, expr in enumerate(exprs)]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]}))
    ended = subprocess.run(
        [tool("promtool"), "check", "rules", path], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
