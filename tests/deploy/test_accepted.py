"""The shipped manifests, as an API server sees them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from genericdp.cli import main

from tests.deploy.apiserver import ApiServer, serving
from tests.deploy.chartvalues import VALUES
from tests.deploy.rendering import (
    KUSTOMIZE,
    Manifest,
    everything,
    kustomizations,
    of_kind,
    tool,
)
from tests.e2e.cluster.waiting import eventually
from tests.getting_started import files

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.deploy

ROOT = Path(__file__).parents[2]
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "genericdp"}}
ACCOUNT = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "genericdp", "namespace": "genericdp"},
}
PODS = [f"kustomize {name}" for name in kustomizations()]
HOST_PATHS = 'hostPath volumes (volumes "device-plugins", "dev", "sys", "udev")'
WHAT_BASELINE_SAYS = {
    "base": [HOST_PATHS],
    "policy": [HOST_PATHS],
    "tools": [HOST_PATHS],
    "privileged-probes": [HOST_PATHS, "privileged (container"],
    "selinux": [HOST_PATHS, "seLinuxOptions"],
    "host-network": ["host namespaces", HOST_PATHS, "hostPort", "probe or lifecycle host"],
}


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
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    definitions = [_definition(kind, spec) for kind, spec in OPERATOR.items()]
    with serving(tmp_path_factory.mktemp("api")) as server:
        assert server.refusals([NAMESPACE, ACCOUNT, *definitions]) == ""
        plurals = ",".join(f"{kind.lower()}s" for kind in OPERATOR)
        eventually(
            lambda: server.refusal("get", plurals, "-o", "json"),
            "".__eq__,
            what="the kinds are served",
        )
        yield server


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


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Manifest]]:
    return everything(tool("kubectl"), tool("helm"), tmp_path_factory.mktemp("components"))


@pytest.mark.parametrize(
    "name", [*PODS, "kustomize components", *(f"helm {name}" for name in VALUES)]
)
def test_every_manifest_is_taken(
    name: str, api: ApiServer, shipped: dict[str, list[Manifest]]
) -> None:
    """Those of the Prometheus operator, too."""
    assert api.refusals(shipped[name], "--dry-run=server", "--validate=strict") == ""


def test_what_users_of_dra_apply_is_taken(
    api: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The classes that are printed, with their CEL, and the pod of docs/how-to/dra.md."""
    assert main(["deviceclasses", f"--config={ROOT}/examples/configs/serial-dra.yaml"]) == 0
    classes = yaml.safe_load_all(capsys.readouterr().out)
    page = yaml.safe_load_all(files(ROOT / "docs/how-to/dra.md")["pod.yaml"])
    manifests = [*classes, {**ACCOUNT, "metadata": {"name": "default", "namespace": "default"}}]
    assert api.refusals(manifests) == ""
    assert api.refusals([*page], "--dry-run=server", "--validate=strict") == ""


def test_what_is_misspelt_is_refused(api: ApiServer, shipped: dict[str, list[Manifest]]) -> None:
    """So that the test above shows something."""
    daemonset = _changed(of_kind(shipped["kustomize base"], "DaemonSet")[0], privilegd=True)
    refused = api.refusals([daemonset], "--dry-run=server", "--validate=strict")
    assert ".spec.template.spec.privilegd: field not declared in schema" in refused


def _changed(daemonset: Manifest, **spec: Any) -> Manifest:  # as Kubernetes has it
    template = daemonset["spec"]["template"]
    changed = template | {"spec": template["spec"] | spec}
    return daemonset | {"spec": daemonset["spec"] | {"template": changed}}


@pytest.mark.parametrize("name", WHAT_BASELINE_SAYS)
def test_of_what_the_namespace_allows_the_pods_use_what_is_said(
    name: str, api: ApiServer, shipped: dict[str, list[Manifest]]
) -> None:
    """The base needs directories of the node, and nothing else that ``baseline`` refuses."""
    template = of_kind(shipped[f"kustomize {name}"], "DaemonSet")[0]["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]}
    pod["metadata"] = {"name": "one", "namespace": "genericdp"}

    def refusal() -> str:
        return api.refusals([pod], "--dry-run=server")

    # The API server itself notices the label after a moment.
    _let(api, "privileged")
    eventually(refusal, "".__eq__, what="it is taken")
    _let(api, "baseline")
    violates = 'violates PodSecurity "baseline:latest"'
    said = eventually(refusal, lambda said: violates in said, what="it is refused")
    for say in WHAT_BASELINE_SAYS[name]:
        assert say in said
    if WHAT_BASELINE_SAYS[name] == [HOST_PATHS]:
        assert said.rstrip().endswith(HOST_PATHS)


def _let(api: ApiServer, level: str) -> None:
    label = f"pod-security.kubernetes.io/enforce={level}"
    api("label", "namespace", "genericdp", "--overwrite", label)


def test_applied_again_only_what_was_edited_differs(api: ApiServer, tmp_path: Path) -> None:
    """An edit of the config is not a rollout, and what is as it was shows no difference forever."""
    directory = shutil.copytree(KUSTOMIZE / "base", tmp_path / "base")
    api("apply", "-k", str(directory))
    again = api("apply", "-k", str(directory)).splitlines()
    assert [line for line in again if not line.endswith(" unchanged")] == []
    config = directory / "config/genericdp.yaml"
    config.write_text(config.read_text().replace("replicas: 100", "replicas: 7"))
    edited = api("apply", "-k", str(directory)).splitlines()
    changed = [line for line in edited if not line.endswith(" unchanged")]
    assert changed == ["configmap/genericdp-config configured"]
