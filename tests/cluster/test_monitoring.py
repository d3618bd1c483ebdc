"""What is shipped for the Prometheus operator, where its kinds are known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.deploy.chartvalues import VALUES
from tests.deploy.rendering import render_helm, render_kustomize, tool, with_components
from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.cluster import Cluster

pytestmark = pytest.mark.cluster
_NAMESPACE = "trying"
"""There is nothing in it: what is installed is neither compared with nor merged."""

# What we use of the Prometheus operator's kinds, and not a field more.
_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS: dict[str, Any] = {"type": "object", "additionalProperties": _TEXT}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_RELABELING = _object(sourceLabels=_list(_TEXT), targetLabel=_TEXT)
_ENDPOINT = _object(port=_TEXT, path=_TEXT, interval=_TEXT, relabelings=_list(_RELABELING))
_RULE = _object(alert=_TEXT, expr=_TEXT, labels=_TEXTS, annotations=_TEXTS, **{"for": _TEXT})
_KINDS = {
    "PodMonitor": _object(
        selector=_object(matchLabels=_TEXTS), podMetricsEndpoints=_list(_ENDPOINT)
    ),
    "PrometheusRule": _object(groups=_list(_object(name=_TEXT, rules=_list(_RULE)))),
}


@pytest.fixture(scope="module")
def empty_namespace(cluster: Cluster) -> Iterator[None]:
    """Make it, and the operator's kinds known to the API server."""
    cluster.kubectl("create", "namespace", _NAMESPACE)
    definitions = [_definition(kind, spec) for kind, spec in _KINDS.items()]
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": definitions})
    cluster.kubectl("apply", "-f", "-", given=given)
    names = [f"crd/{one['metadata']['name']}" for one in definitions]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=180s", *names)
    # Established, they are not known to all parts of the API server yet.
    kinds = ",".join(f"{kind.lower()}s" for kind in _KINDS)
    eventually(
        lambda: cluster.kubectl("-n", _NAMESPACE, "get", kinds, check=False),
        lambda said: "No resources found" in said,
        what="the kinds are served",
    )
    yield
    cluster.kubectl("delete", f"namespace/{_NAMESPACE}", *names)


def _definition(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    group, plural = "monitoring.coreos.com", f"{kind.lower()}s"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _object(spec=spec)},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }


def _takes(cluster: Cluster, manifests: list[dict[str, Any]]) -> None:
    """Have them checked, every field of them, and nothing made."""
    for one in manifests:
        if one["kind"] == "Namespace":
            one["metadata"]["name"] += "-of-nobody"
        else:
            assert one["metadata"]["namespace"] == "genericdp"
            one["metadata"]["namespace"] = _NAMESPACE
    words = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
    said = cluster.kubectl(*words, given=yaml.safe_dump_all(manifests), check=False)
    made = [line for line in said.splitlines() if line.endswith("created (server dry run)")]
    assert len(made) == len(manifests), said
    assert "Warning" not in said


def test_the_api_server_takes_what_kustomize_makes_for_the_operator(
    cluster: Cluster, empty_namespace: None, tmp_path: Path
) -> None:
    folder = with_components(tmp_path, ["monitoring"])
    _takes(cluster, render_kustomize(tool("kubectl"), folder))


def test_the_api_server_takes_what_the_chart_makes_for_the_operator(
    cluster: Cluster, empty_namespace: None
) -> None:
    _takes(cluster, render_helm(tool("helm"), VALUES["monitoring"]))
