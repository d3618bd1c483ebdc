"""Labels, annotations and selectors: those of the chart with those of its values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from genericdp import __version__

from tests.deploy.chartvalues import VALUES
from tests.deploy.rendering import (
    everything,
    of_kind,
    only,
    pod_spec,
    render_helm,
    tool,
)

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
    assert daemonset["spec"]["selector"]["matchLabels"].items() < labels.items()


NAME, INSTANCE, VERSION, COMPONENT, PART_OF, MANAGED_BY = (
    f"app.kubernetes.io/{name}"
    for name in ("name", "instance", "version", "component", "part-of", "managed-by")
)


@pytest.mark.parametrize(
    ("tag", "label"),
    [
        ("", __version__),
        ("0.2.0-rc.1", "0.2.0-rc.1"),
        ("7", "7"),
        ("_built_", "built"),
        ("a" * 62 + "." + "b" * 65, "a" * 62),
        (f"0.2.0@sha256:{'0' * 64}", "0.2.0"),
    ],
    ids=["none", "version", "number", "ends", "long", "digest"],
)
def test_the_version_is_that_of_the_image_as_a_label_may_have_it(
    tag: str, label: str, helm: Path
) -> None:
    """Found by an operator: after an update of the image it was still that of the chart."""
    daemonset = only(render_helm(helm, {"image": {"tag": tag}}), "DaemonSet")
    assert daemonset["metadata"]["labels"][VERSION] == label
    assert daemonset["spec"]["template"]["metadata"]["labels"][VERSION] == label


def test_everything_has_the_recommended_labels_and_selectors_only_what_stays(
    helm: Path, tmp_path: Path
) -> None:
    """The selector of a DaemonSet cannot be changed, so an update must not change it."""
    for name, manifests in everything(tool("kubectl"), helm, tmp_path).items():
        for manifest in manifests:
            labels = manifest["metadata"]["labels"]
            assert labels.keys() >= {NAME, INSTANCE, COMPONENT, PART_OF}, manifest
        for daemonset in of_kind(manifests, "DaemonSet"):
            labels, spec = daemonset["metadata"]["labels"], daemonset["spec"]
            assert labels[MANAGED_BY] == ("Helm" if name.startswith("helm") else "kustomize")
            assert labels[VERSION] == __version__
            selector, pod = spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]
            assert selector.items() < pod.items()
            assert selector.keys() <= {NAME, INSTANCE, "genericdp.io/group"}
            assert pod.keys() >= {NAME, INSTANCE, VERSION, COMPONENT, PART_OF}
            assert pod[VERSION] == ("mine" if name == "helm overlapping" else __version__)
