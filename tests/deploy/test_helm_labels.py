"""Labels, annotations and selectors: those of the chart with those of its values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.deploy.chartvalues import VALUES
from tests.deploy.rendering import only, pod_spec, render_helm, tool

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.deploy


@pytest.fixture
def helm() -> Path:
    return tool("helm")


def test_what_a_value_says_again_stands_there_once(helm: Path) -> None:
    """Strict readers refuse a key that is there twice; ``render_helm`` is one of them."""
    made = render_helm(helm, VALUES["overlapping"])
    daemonset = only(made, "DaemonSet")
    assert pod_spec(daemonset)["nodeSelector"] == {"kubernetes.io/os": "linux"}
    pod = daemonset["spec"]["template"]["metadata"]
    assert pod["annotations"] == {"kubectl.kubernetes.io/default-container": "other"}
    assert pod["labels"].items() > daemonset["spec"]["selector"]["matchLabels"].items()
    for kind in ("PodMonitor", "PrometheusRule"):
        labels = only(made, kind)["metadata"]["labels"]
        assert (labels["app.kubernetes.io/name"], labels["team"]) == ("mine", "42")
        assert labels["app.kubernetes.io/managed-by"] == "Helm"


def test_names_that_look_like_numbers_stay_texts(helm: Path) -> None:
    config = VALUES["groups"]["nodeGroups"]["others"]
    values = {"nameOverride": "7", "nodeGroups": {"42": config}}
    daemonset = only(render_helm(helm, values), "DaemonSet")
    labels = daemonset["spec"]["template"]["metadata"]["labels"]
    assert labels["genericdp.io/group"] == "42"
    assert labels["app.kubernetes.io/name"] == "7"
    assert daemonset["spec"]["selector"]["matchLabels"] == labels
