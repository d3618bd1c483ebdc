"""Alerts on what a daemon really says: its own metrics, read by Prometheus' own rules."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import yaml
from genericdp.config.files import Loaded
from genericdp.config.reload import ConfigState
from genericdp.host.descriptors import Supply
from genericdp.status.metrics import exposition
from genericdp.tally import Tally
from prometheus_client.parser import text_string_to_metric_families as parsed

from tests.deploy.rendering import MONITORING, tool
from tests.status.states import REFUSED, declared, device, devices, resource, state

if TYPE_CHECKING:
    from pathlib import Path

    from genericdp.status.state import DaemonState

pytestmark = pytest.mark.deploy

RULES = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())["spec"]
NAME = "example.com/serial"
ELSEWHERE = {
    *("GenericdpDown", "GenericdpDownOnMany", "GenericdpMissingOnNodes", "GenericdpUpdateStuck"),
}
"""By what Prometheus and kube-state-metrics say."""
BETWEEN = {"GenericdpRestarting", "GenericdpConfigDiffers"}
"""By more than one process."""

EMPTY = {"GenericdpServesNothing"}
"""By a daemon that has no resources."""

WELL = state(
    resource(NAME, devices=devices(device(0), device(1)), contested=""),
    config=ConfigState(loaded=Loaded(digest="ab"), since=1.0),
)
ILL = state(
    resource(
        NAME,
        registered=False,
        reason="refused",
        devices=devices(device(0, reason="gone"), not_offered={"/dev/a1": "its id is that of …"}),
    ),
    config=ConfigState(loaded=Loaded(digest="ab"), since=1.0, refused=REFUSED, differs_since=2.0),
    descriptors=Supply(used=1000, most=1024),
    claims={"prepared": 0, "gone": 1},
)


def tally(*, times: int, is_well: bool) -> Tally:
    """Give what was counted after this many of everything."""
    made = Tally()
    made.keep({NAME: declared(NAME)})
    entry, seconds = made.of(NAME), 0.01 if is_well else 4.9
    for _ in range(times):
        entry.allocated("success" if is_well else "unusable", seconds)
        entry.probed(0, ok=is_well, seconds=seconds)
        entry.hooked("allocate", ok=is_well)
        made.discovery.add(seconds)
    if not is_well:
        entry.registrations["success"] += times
        entry.registrations["failure"] += times
    return made


def series(status: DaemonState, *, is_well: bool) -> list[dict[str, str]]:
    """Give two hours of scrapes, a minute apart, in which all counts grow."""
    values: dict[str, list[float]] = defaultdict(list)
    for times in (0, 1):
        body = exposition(status, tally(times=times, is_well=is_well), each_device=True)
        for family in parsed(body.decode()):
            for sample in family.samples:
                labels = ", ".join(f'{name}="{value}"' for name, value in sample.labels.items())
                where = 'job="genericdp/genericdp", node="edge-1"'
                values[f"{sample.name}{{{where}{', ' * bool(labels)}{labels}}}"].append(
                    sample.value
                )
    return [
        {"series": name, "values": f"{first:g}+{last - first:g}x120"}
        for name, (first, last) in values.items()
        if name.startswith("genericdp_")
    ]


def fires(directory: Path, status: DaemonState, expected: set[str], *, is_well: bool) -> str:
    """Let promtool compare; gives what it says if others fire."""
    (directory / "rules.yaml").write_text(yaml.safe_dump(RULES))
    firing = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": "115m",
        "exp_samples": [
            {"labels": f'{{alertname="{entry}"}}', "value": 1} for entry in sorted(expected)
        ],
    }
    case = {"input_series": series(status, is_well=is_well), "promql_expr_test": [firing]}
    content = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [case]}
    (directory / "test.yaml").write_text(yaml.safe_dump(content))
    command = [str(tool("promtool")), "test", "rules", str(directory / "test.yaml")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.stdout + ended.stderr if ended.returncode else ""


def test_nothing_fires_where_all_is_well(tmp_path: Path) -> None:
    assert fires(tmp_path, WELL, set(), is_well=True) == ""


def test_a_daemon_without_a_config_is_told_of(tmp_path: Path) -> None:
    """Found by a new user: nothing of it was critical, for there were not resources."""
    config = ConfigState(refused=REFUSED, differs_since=2.0)
    status = replace(WELL, config=config, resources=())
    expected = {"GenericdpServesNothing", "GenericdpConfigRefused", "GenericdpConfigRefusedOnMany"}
    assert fires(tmp_path, status, expected, is_well=True) == ""


def test_everything_fires_where_nothing_is(tmp_path: Path) -> None:
    """A label or a bucket that is called otherwise would keep an alert silent forever."""
    every = {rule["alert"] for group in RULES["groups"] for rule in group["rules"]}
    assert fires(tmp_path, ILL, every - ELSEWHERE - BETWEEN - EMPTY, is_well=False) == ""
