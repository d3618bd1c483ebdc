"""Alerts and dashboard: they name only what there is, and each alert is explained and tested."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest
import yaml
from genericdp import tally
from genericdp.status.metrics import METRICS

from tests.deploy.alerts import DASHBOARDS, RULES
from tests.deploy.rendering import MONITORING, ROOT, tool

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SITE = PROJECT["tool"]["genericdp"]["site"].rstrip("/")
ALERTS_FILE = MONITORING / "prometheusrule.yaml"
RULES_TEST = ROOT / "tests/deploy/rules_test.yaml"
ALL_RULES = [rule for group in RULES["groups"] for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in ALL_RULES if "alert" in rule}
RECORDED = {rule["record"] for rule in ALL_RULES if "record" in rule}

KNOWN = {each_metric.name: set(each_metric.labels) for each_metric in METRICS}
for _one in METRICS:
    if _one.kind == "histogram":
        KNOWN |= {
            f"{_one.name}_{part}": {*_one.labels, "le"} for part in ("bucket", "count", "sum")
        }
FOREIGN = {
    *("process_start_time_seconds", "process_resident_memory_bytes", "process_cpu_seconds_total"),
    *("kube_daemonset_status_desired_number_scheduled", "up", "ALERTS"),
    *("kube_daemonset_status_updated_number_scheduled", "kube_pod_info", "kube_pod_status_ready"),
    *("kube_daemonset_status_current_number_scheduled", "kube_node_spec_unschedulable"),
    "kube_node_status_condition",
}
"""What the client library, Prometheus and kube-state-metrics bring."""
RESULT_LABELS = {"result", "resource", "state", "reason"}
"""Of the recorded series."""
SCRAPED = {"job", "instance", "namespace", "pod", "node", "daemonset"}
OF_KUBERNETES = {"condition", "status", "created_by_kind", "created_by_name"}
SELECTOR = re.compile(r"\b([a-zA-Z_]+)\{([^}]*)\}")
LABEL = re.compile(r'(\w+)(?:=~|!~|!=|=)"')


def dashboard_expressions() -> list[str]:
    boards = DASHBOARDS.values()
    panels = [panel for board in boards for panel in board["panels"]]
    variables = [variable for board in boards for variable in board["templating"]["list"]]
    notes = [note for board in boards for note in board.get("annotations", {}).get("list", ())]
    return [
        *(target["expr"] for panel in panels for target in panel.get("targets", ())),
        *(note["expr"] for note in notes),
        *(variable["query"]["query"] for variable in variables if variable["type"] == "query"),
    ]


def documented_expressions() -> list[str]:
    """Give the queries that the docs have for a few nodes with another version."""
    page = (ROOT / "docs/how-to/upgrading.md").read_text()
    queries = re.findall(r"^ +\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(queries) > 1, "they are no longer a table"
    return queries


EXPRESSIONS = [
    *(rule["expr"] for rule in ALL_RULES),
    *dashboard_expressions(),
    *documented_expressions(),
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_is_one_that_there_is(expression: str) -> None:
    named = set(re.findall(r"\b(?:genericdp|process|kube)_[a-z_]+", expression))
    assert named <= KNOWN.keys() | FOREIGN
    assert set(re.findall(r"\bgenericdp:[a-z0-9_:]+", expression)) <= RECORDED
    for metric, inside in SELECTOR.findall(expression):
        known = OF_KUBERNETES if metric.startswith("kube_") else KNOWN.get(metric, RESULT_LABELS)
        assert {*LABEL.findall(inside)} <= known | SCRAPED


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_it_means_and_where_to_read_on(name: str) -> None:
    rule, page = ALERTS[name], (ROOT / "docs/how-to/monitor.md").read_text()
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert len(rule["annotations"]["summary"]) < 160
    assert len(rule["annotations"]["description"]) > 100
    url = f"{SITE}/how-to/monitor.html#alert-{name.lower()}" if SITE else None
    assert rule["annotations"].get("runbook_url") == url
    assert f"### Alert {name}\n\n*{rule['labels']['severity']}.* " in page


def test_alerts_and_chart_lead_to_where_the_project_lives_if_it_does(tmp_path: Path) -> None:
    """One setting follows the other in the same files, and that of this project is the last."""
    texts = {path: (tmp_path / path.relative_to(ROOT)) for path in (ALERTS_FILE, RULES_TEST)}
    for name in ("tools", "deploy", "docs", "schemas", "tests/deploy"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "genericdp").symlink_to(ROOT / "genericdp")
    repository = "https://git.example.com/genericdp"
    for site in (*{"https://docs.example.com/genericdp", ""} - {SITE}, SITE):
        settings = (ROOT / "pyproject.toml").read_text()
        for key, value in (("site", site), ("repository", repository)):
            settings = re.sub(rf'(?m)^{key} = ".*?"', f'{key} = "{value}"', settings)
        (tmp_path / "pyproject.toml").write_text(settings)
        subprocess.run([sys.executable, tmp_path / "tools/generate"], check=True)
        rules = yaml.safe_load(texts[ALERTS_FILE].read_text())["spec"]
        for rule in (rule for group in rules["groups"] for rule in group["rules"]):
            url = f"{site}/how-to/monitor.html#alert-{rule.get('alert', '').lower()}"
            if "alert" in rule:
                assert rule["annotations"].get("runbook_url") == (url if site else None)
        assert ("/how-to/monitor.html#" in texts[RULES_TEST].read_text()) is bool(site)
        chart = yaml.safe_load((tmp_path / "deploy/helm/genericdp/Chart.yaml").read_text())
        assert (chart["home"], chart["sources"]) == (site or repository, [repository])
    for path, made in texts.items():
        assert made.read_text() == path.read_text()


def test_no_alert_is_explained_that_there_is_not() -> None:
    explained = re.findall(
        r"^### Alert (\w+)$", (ROOT / "docs/how-to/monitor.md").read_text(), re.MULTILINE
    )
    assert explained == list(ALERTS)


def test_every_alert_is_seen_to_fire_and_not_to_fire() -> None:
    """At one time of a case it fires for one series and not for another; at one it does not yet."""
    tests = yaml.safe_load(RULES_TEST.read_text())["tests"]
    fired: set[str] = set()
    for case in tests:
        expected = [entry["exp_samples"] for entry in case["promql_expr_test"]]
        fired |= set(re.findall(r'alertname="(\w+)"', str(expected)))
        assert len(case["input_series"]) > 1
    assert fired == ALERTS.keys()
    assert {name for case in tests for name in re.findall(r"Genericdp\w+", case["name"])} == fired


def test_what_an_alert_asks_of_a_duration_is_the_bound_of_a_bucket() -> None:
    """Found by a new user: between 1 and 5 s each was taken for 4.96 s."""
    text = ALERTS_FILE.read_text()
    asked = re.findall(r"histogram_quantile\(.*\) > (\S+)", text)
    assert len(asked) == text.count("histogram_quantile") > 0
    assert {float(entry) for entry in asked} <= {*tally.BOUNDS}


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_has_ids_for_panels_and_takes_its_data_from_where_one_chooses(
    name: str,
) -> None:
    ids = [panel["id"] for panel in DASHBOARDS[name]["panels"]]
    assert len(set(ids)) == len(ids)
    text = json.dumps(DASHBOARDS[name])
    assert {*re.findall(r'"datasource": ("[^"]*"|\{[^}]*\}(?:"\})?)', text)} == {
        '{"type": "prometheus", "uid": "${datasource}"}'
    }
    variables = {variable["name"] for variable in DASHBOARDS[name]["templating"]["list"]}
    assert set(re.findall(r"\$\{?([a-z]+)", text)) == variables


def test_the_fleet_leads_to_the_dashboard_of_a_node() -> None:
    text = json.dumps(DASHBOARDS["fleet"])
    board = DASHBOARDS["dashboard"]
    assert set(re.findall(r"/d/(.*?)\?var-datasource=\S+?&var-(\w+)=", text)) == {
        (board["uid"], "node")
    }


@pytest.mark.deploy
@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"],
        ["test", "rules", "rules_test.yaml"],
    ],
    ids=["check", "test"],
)
def test_promtool_is_content(arguments: list[str], tmp_path: Path) -> None:
    """With the file that the docs make for a Prometheus without the operator."""
    (command,) = re.findall(r"`(sed .*?)`", (ROOT / "docs/how-to/monitor.md").read_text())
    for path in (ALERTS_FILE, RULES_TEST):
        shutil.copy(path, tmp_path)
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    ended = subprocess.run(
        [tool("promtool"), *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


SCRAPE_JOB = re.findall(
    r"^```yaml\n(- job_name: .*?)^```",
    (ROOT / "docs/how-to/monitor.md").read_text(),
    re.MULTILINE | re.DOTALL,
)


def test_the_scrape_job_of_the_docs_sets_what_the_alerts_use() -> None:
    ((job,),) = map(yaml.safe_load, SCRAPE_JOB)
    assert "genericdp" in job["job_name"]
    rules = {
        config.get("target_label", config.get("action")): config
        for config in job["relabel_configs"]
    }
    assert rules.keys() == {"keep", "node", "pod", "namespace", "daemonset"}
    manifest = yaml.safe_load((ROOT / "deploy/kustomize/base/daemonset.yaml").read_text())
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    assert [port["name"] for port in container["ports"]] == [rules["keep"]["regex"]]
    monitor = ROOT / "deploy/kustomize/components/monitoring/podmonitor.yaml"
    (endpoint,) = yaml.safe_load(monitor.read_text())["spec"]["podMetricsEndpoints"]
    assert endpoint["relabelings"] == [
        {"sourceLabels": rules[label]["source_labels"], "targetLabel": label}
        for label in ("node", "daemonset")
    ]


@pytest.mark.deploy
def test_promtool_takes_the_scrape_job_of_the_docs(tmp_path: Path) -> None:
    path = tmp_path / "prometheus.yaml"
    path.write_text(yaml.safe_dump({"scrape_configs": yaml.safe_load(*SCRAPE_JOB)}))
    command = [str(tool("promtool")), "check", "config", "--syntax-only", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
