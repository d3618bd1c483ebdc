"""What is shipped, as an API server sees it."""

from __future__ import annotations

import json
import shutil
import subprocess
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
APIS = (
    *("api", "apis/admissionregistration.k8s.io", "apis/apps"),
    *("apis/networking.k8s.io", "apis/rbac.authorization.k8s.io"),
)
HOST_PATHS = 'hostPath volumes (volumes "device-plugins", "dev", "sys", "udev")'
WHAT_BASELINE_SAYS = {
    "base": [HOST_PATHS],
    "policy": [HOST_PATHS],
    "tools": [HOST_PATHS],
    "privileged-probes": [HOST_PATHS, "privileged (container"],
    "selinux": [HOST_PATHS, "seLinuxOptions"],
    "host-network": ["host namespaces", HOST_PATHS, "hostPort", "probe or lifecycle host"],
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with serving(tmp_path_factory.mktemp("api")) as server:
        assert server.refusals([NAMESPACE, ACCOUNT]) == ""
        yield server


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Manifest]]:
    return everything(tool("kubectl"), tool("helm"), tmp_path_factory.mktemp("components"))


@pytest.mark.parametrize(
    "name", [*PODS, "kustomize components", *(f"helm {name}" for name in VALUES)]
)
def test_every_manifest_is_taken(
    name: str, api: ApiServer, shipped: dict[str, list[Manifest]]
) -> None:
    """But for those of the Prometheus operator, whose kinds are not Kubernetes' own."""
    ours = [m for m in shipped[name] if not m["apiVersion"].startswith("monitoring.coreos.com")]
    assert api.refusals(ours, "--dry-run=server", "--validate=strict") == ""


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
    """So that the test above tells something."""
    daemonset = _changed(of_kind(shipped["kustomize base"], "DaemonSet")[0], privilegd=True)
    refused = api.refusals([daemonset], "--dry-run=server", "--validate=strict")
    assert ".spec.template.spec.privilegd: field not declared in schema" in refused


OPERATOR = {"PodMonitor", "PrometheusRule"}


@pytest.fixture(scope="module")
def schemas(api: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The API server's own, as kubeconform looks for them; unknown fields are refused."""
    folder = tmp_path_factory.mktemp("schemas")
    for group in APIS:
        components = json.loads(api("get", "--raw", f"/openapi/v3/{group}/v1"))["components"]
        for schema in components["schemas"].values():
            if "properties" in schema:
                schema.setdefault("additionalProperties", False)
        for name, schema in components["schemas"].items():
            for of in schema.get("x-kubernetes-group-version-kind", ()):
                content = {"$ref": f"#/components/schemas/{name}", "components": components}
                suffix = "-".join(filter(None, (of["group"].partition(".")[0], of["version"])))
                path = folder / f"{of['kind'].lower()}-{suffix}.json"
                path.write_text(json.dumps(content))
    return folder


def kubeconform(schemas: Path, manifests: list[Manifest]) -> tuple[dict[str, int], str]:
    """Give how many are valid, invalid, skipped, ..., and what is wrong with them."""
    location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    command = [str(tool("kubeconform")), "-strict", "-summary", "-output=json"]
    command += [f"-skip={','.join(OPERATOR)}", f"-schema-location={location}", "-"]
    given = "\n---\n".join(map(json.dumps, manifests))
    ended = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    said = json.loads(ended.stdout)
    counts: dict[str, int] = said["summary"]
    return counts, ended.stderr + "\n".join(one["msg"] for one in said["resources"])


def test_kubeconform_finds_everything_valid(
    shipped: dict[str, list[Manifest]], schemas: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, manifests in shipped.items():
        counts, said = kubeconform(schemas, manifests)
        foreign = [one for one in manifests if one["kind"] in OPERATOR]
        assert counts == {
            "valid": len(manifests) - len(foreign),
            "invalid": 0,
            "errors": 0,
            "skipped": len(foreign),
        }, f"{name}: {said}"
    with capsys.disabled():
        kinds = " and ".join(sorted(OPERATOR))
        print(f"\nkubeconform: {kinds} are the Prometheus operator's: no schema, not looked at")


def test_kubeconform_refuses_what_is_misspelt(
    shipped: dict[str, list[Manifest]], schemas: Path
) -> None:
    daemonset = _changed(of_kind(shipped["kustomize base"], "DaemonSet")[0], privilegd=True)
    counts, said = kubeconform(schemas, [daemonset])
    assert (counts["valid"], counts["invalid"]) == (0, 1)
    assert "additional properties 'privilegd' not allowed" in said


def _changed(daemonset: Manifest, **spec: Any) -> Manifest:  # as Kubernetes has it
    template = daemonset["spec"]["template"]
    changed = template | {"spec": template["spec"] | spec}
    return daemonset | {"spec": daemonset["spec"] | {"template": changed}}


@pytest.mark.parametrize("name", WHAT_BASELINE_SAYS)
def test_of_what_the_namespace_allows_the_pods_use_what_is_said(
    name: str, api: ApiServer, shipped: dict[str, list[Manifest]]
) -> None:
    """The base needs folders of the node, and nothing else that ``baseline`` refuses."""
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
    for one in WHAT_BASELINE_SAYS[name]:
        assert one in said
    if WHAT_BASELINE_SAYS[name] == [HOST_PATHS]:
        assert said.rstrip().endswith(HOST_PATHS)


def _let(api: ApiServer, level: str) -> None:
    label = f"pod-security.kubernetes.io/enforce={level}"
    api("label", "namespace", "genericdp", "--overwrite", label)


def test_applied_again_only_what_was_edited_differs(api: ApiServer, tmp_path: Path) -> None:
    """An edit of the config is no rollout, and what is as it was shows no difference forever."""
    folder = shutil.copytree(KUSTOMIZE / "base", tmp_path / "base")
    api("apply", "-k", str(folder))
    again = api("apply", "-k", str(folder)).splitlines()
    assert [line for line in again if not line.endswith(" unchanged")] == []
    config = folder / "config/genericdp.yaml"
    config.write_text(config.read_text().replace("replicas: 100", "replicas: 7"))
    edited = api("apply", "-k", str(folder)).splitlines()
    changed = [line for line in edited if not line.endswith(" unchanged")]
    assert changed == ["configmap/genericdp-config configured"]
