"""Every manifest that is shipped, as kustomize and Helm make it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.deploy.chartvalues import VALUES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROOT = Path(__file__).parents[2]
KUSTOMIZE = ROOT / "deploy/kustomize"
CHART = ROOT / "deploy/helm/genericdp"
MONITORING = CHART / "monitoring"

Manifest = dict[str, Any]


def found_tool(name: str) -> Path | None:
    """Look for a compiled tool in the cache of the cluster tests, else on PATH."""
    below = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(os.environ.get("GENERICDP_E2E_CACHE") or below / "genericdp-cluster")
    cached = sorted(path for path in cache.glob(f"*/{name}") if os.access(path, os.X_OK))
    on_path = shutil.which(name)
    return cached[-1] if cached else Path(on_path) if on_path else None


def tool(name: str) -> Path:
    """Give the tool, or skip the test that needs it."""
    found = found_tool(name)
    if found is None:
        pytest.skip(f"no {name}: tests/e2e/cluster/build compiles it, or put one on PATH")
    return found


def kustomizations() -> dict[str, Path]:
    """Give the directory of everything that can be applied by itself: base and overlays."""
    overlays = sorted(path.parent for path in KUSTOMIZE.glob("overlays/*/kustomization.yaml"))
    return {"base": KUSTOMIZE / "base"} | {directory.name: directory for directory in overlays}


def components() -> dict[str, Path]:
    """Give each component's directory; ``with_components`` makes something to apply of them."""
    directories = sorted(path.parent for path in KUSTOMIZE.glob("components/*/kustomization.yaml"))
    return {directory.name: directory for directory in directories}


def with_components(directory: Path, names: Iterable[str]) -> Path:
    """Write a kustomization of the base with these components, as a user would."""

    def reference(path: Path) -> str:
        return os.path.relpath(path.resolve(), directory.resolve())

    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": "genericdp",
        "resources": [reference(KUSTOMIZE / "base")],
        "components": [reference(components()[name]) for name in names],
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return directory


def render_kustomize(kubectl: Path, directory: Path) -> list[Manifest]:
    """Give what ``kubectl apply -k`` would send."""
    return _manifests([str(kubectl), "kustomize", str(directory)])


def render_helm(
    helm: Path,
    values: Mapping[str, Any] | None = None,
    *,
    arguments: Sequence[str] = (),
    chart: Path = CHART,
) -> list[Manifest]:
    """Give what ``helm install genericdp`` would send with these values."""
    command = [str(helm), "template", "genericdp", str(chart), "--namespace", "genericdp"]
    # A helm that was built without a release's version takes the cluster for an old one.
    command += ["--kube-version", "1.37.0", "--values", "-", *arguments]
    # As JSON: PyYAML leaves strings bare that Helm would read as numbers (1e10).
    return _manifests(command, json.dumps(dict(values or {})))


def everything(kubectl: Path, helm: Path, directory: Path) -> dict[str, list[Manifest]]:
    """Give all that is shipped, by what makes it; ``directory`` is one to write to.

    What only a cluster with the Prometheus operator takes is of the group monitoring.coreos.com.
    """
    made = {
        f"kustomize {name}": render_kustomize(kubectl, path)
        for name, path in kustomizations().items()
    }
    together = with_components(directory, components())
    made["kustomize components"] = render_kustomize(kubectl, together)
    return made | {f"helm {name}": render_helm(helm, values) for name, values in VALUES.items()}


class RenderingError(Exception):
    """The error of the tool."""


class _Strict(yaml.SafeLoader):
    """As the tools behind Helm read: a key that stands there twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise RenderingError(f"{twice} twice at{node.start_mark}")
        return super().construct_mapping(node, deep)


def _manifests(command: list[str], given: str = "") -> list[Manifest]:
    ended = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RenderingError(ended.stderr)
    assert ended.stderr == "", "it warns"
    return [manifest for manifest in yaml.load_all(ended.stdout, _Strict) if manifest]


def only(manifests: Iterable[Manifest], kind: str) -> Manifest:
    """Give the one manifest of that kind."""
    (manifest,) = of_kind(manifests, kind)
    return manifest


def of_kind(manifests: Iterable[Manifest], kind: str) -> list[Manifest]:
    """Give all manifests of that kind."""
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def pod_spec(daemonset: Manifest) -> Manifest:
    """Give the pod of a DaemonSet."""
    spec: Manifest = daemonset["spec"]["template"]["spec"]
    return spec


def daemon(daemonset: Manifest) -> Manifest:
    """Give the container that runs genericdp."""
    (container,) = (
        container
        for container in pod_spec(daemonset)["containers"]
        if container["name"] == "genericdp"
    )
    return dict(container)


def host_paths(daemonset: Manifest) -> dict[str, str]:
    """Give each directory of the node that the daemon gets: ro or rw; at the same path."""
    paths = {
        volume["name"]: volume["hostPath"]["path"]
        for volume in pod_spec(daemonset)["volumes"]
        if "hostPath" in volume
    }
    mounts = [mount for mount in daemon(daemonset)["volumeMounts"] if mount["name"] in paths]
    assert {mount["name"]: mount["mountPath"] for mount in mounts} == paths
    return {mount["mountPath"]: "ro" if mount.get("readOnly", False) else "rw" for mount in mounts}
