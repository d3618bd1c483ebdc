"""The shipped manifests, as an API server sees them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from genericdp.cli import main

from tests.deploy.rendering import CHART, ROOT, Manifest, only, render_helm, with_components
from tests.e2e.cluster.waiting import eventually
from tests.getting_started import files

if TYPE_CHECKING:
    from pathlib import Path

    from tests.deploy.apiserver import ApiServer

pytestmark = pytest.mark.deploy

KIT = ROOT / "examples/driver"
TRIED = ("--dry-run=server", "--validate=strict")

# What we use of the Prometheus operator's kinds, and not a field more.
TEXT: dict[str, Any] = {"type": "string"}
TEXTS: dict[str, Any] = {"type": "object", "additionalProperties": TEXT}


def _object(**properties: Any) -> dict[str, Any]:  # as JSON Schema has them
    return {"type": "object", "properties": properties}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


RELABELING = _object(sourceLabels=_list(TEXT), targetLabel=TEXT, regex=TEXT, action=TEXT)
RELABELINGS = dict.fromkeys(("relabelings", "metricRelabelings"), _list(RELABELING))
ENDPOINT = _object(port=TEXT, path=TEXT, interval=TEXT, **RELABELINGS)
RULE = _object(alert=TEXT, record=TEXT, expr=TEXT, labels=TEXTS, annotations=TEXTS, **{"for": TEXT})
OPERATOR = {
    "PodMonitor": _object(selector=_object(matchLabels=TEXTS), podMetricsEndpoints=_list(ENDPOINT)),
    "PrometheusRule": _object(groups=_list(_object(name=TEXT, interval=TEXT, rules=_list(RULE)))),
}


@pytest.fixture(scope="module")
def operator(api: ApiServer) -> ApiServer:
    """Have the server know the kinds of the Prometheus operator."""
    assert api.refusals([_definition(kind, spec) for kind, spec in OPERATOR.items()]) == ""
    plurals = ",".join(f"{kind.lower()}s" for kind in OPERATOR)
    eventually(lambda: api.refusal("get", plurals, "-o", "json"), "".__eq__, what=plurals)
    return api


def _definition(kind: str, spec: dict[str, Any]) -> Manifest:
    group, plural = "monitoring.coreos.com", f"{kind.lower()}s"
    schema = {"openAPIV3Schema": _object(spec=spec)}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def test_every_manifest_is_taken_and_what_is_misspelled_is_not(
    operator: ApiServer, shipped: dict[str, list[Manifest]]
) -> None:
    """Those of the Prometheus operator, too."""
    refused = {name: operator.refusals(made, *TRIED) for name, made in shipped.items()}
    assert {name: said for name, said in refused.items() if said} == {}
    daemonset = only(shipped["kustomize base"], "DaemonSet")
    misspelled = {**daemonset, "spec": daemonset["spec"] | {"templat": {}}}
    assert ".spec.templat: field not declared" in operator.refusals([misspelled], *TRIED)


def test_what_users_of_dra_apply_is_taken(
    api: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The classes that are printed, with their CEL, and the pod of docs/how-to/dra.md."""
    assert main(["deviceclasses", f"--config={ROOT}/examples/configs/serial-dra.yaml"]) == 0
    assert api.refusals([*yaml.safe_load_all(capsys.readouterr().out)]) == ""
    page = yaml.safe_load_all(files(ROOT / "docs/how-to/dra.md")["pod.yaml"])
    assert api.refusals([*page], *TRIED) == ""


def test_the_driver_kit_and_the_pod_of_its_users_are_taken(api: ApiServer, tmp_path: Path) -> None:
    chart = shutil.copytree(KIT, tmp_path / "driver")
    shutil.copytree(CHART, chart / "charts/genericdp")
    assert api.refusals(render_helm(chart=chart), "--validate=strict") == ""
    pod = yaml.safe_load_all((KIT / "pod.yaml").read_text())
    assert api.refusals([*pod], *TRIED) == ""


def test_applied_again_only_what_was_edited_differs(api: ApiServer, tmp_path: Path) -> None:
    """An edit of the config is not a rollout, and what is as it was shows no difference forever."""
    directory = with_components(tmp_path, ["dra"])
    api("apply", "-k", str(directory))
    assert changed(api, directory) == []
    edited = {"name": "genericdp-config", "behavior": "merge", "literals": ["more.yaml="]}
    with (directory / "kustomization.yaml").open("a") as file:
        yaml.safe_dump(
            {
                "configMapGenerator": [edited],
                "generatorOptions": {"disableNameSuffixHash": True},
            },
            file,
        )
    assert changed(api, directory) == ["configmap/genericdp-config configured"]


def changed(api: ApiServer, directory: Path) -> list[str]:
    lines = api("apply", "-k", str(directory)).splitlines()
    return [line for line in lines if not line.endswith(" unchanged")]
