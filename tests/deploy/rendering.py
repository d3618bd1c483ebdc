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
from genericdp import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT = Path(__file__).parents[2]
KUSTOMIZE = ROOT / "deploy/kustomize"
CHART = ROOT / "deploy/helm/genericdp"
MONITORING = CHART / "monitoring"

Manifest = dict[str, Any]

ENTRIES: list[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("becomes.yaml").read_text().replace("VERSION", __version__)
)
"""What is rendered, and what it has to become: the file says how to read it."""
VALUES: dict[str, Manifest] = {
    entry["name"]: entry["values"] for entry in ENTRIES if "name" in entry
}


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


def render_kustomize(directory: Path) -> list[Manifest]:
    """Give what ``kubectl apply -k`` would send."""
    return _manifests([str(tool("kubectl")), "kustomize", str(directory)])


def render_helm(values: Mapping[str, Any] | None = None, *, chart: Path = CHART) -> list[Manifest]:
    """Give what ``helm install genericdp`` would send with these values."""
    command = [str(tool("helm")), "template", "genericdp", str(chart), "--namespace=genericdp"]
    # A helm that was built without a release's version takes the cluster for an old one.
    command += ["--kube-version=1.37.0", "--values=-"]
    # As JSON: PyYAML leaves strings bare that Helm would read as numbers (1e10).
    return _manifests(command, json.dumps(dict(values or {})))


def title(entry: Manifest) -> str:
    """Say what an entry is about."""
    if "overlay" in entry:
        return f"kustomize {entry['overlay']}"
    if "components" in entry:
        return f"components {' '.join(entry['components'])}"
    return f"helm {entry.get('name') or json.dumps(entry['values'])[:60]}"


def render(entry: Manifest, directory: Path) -> list[Manifest]:
    """Render an entry; ``directory`` is one to write to."""
    if "values" in entry:
        return render_helm(entry["values"])
    if "components" in entry:
        return render_kustomize(with_components(directory, entry["components"]))
    overlay = entry["overlay"]
    return render_kustomize(KUSTOMIZE / (overlay if overlay == "base" else f"overlays/{overlay}"))


def everything(directory: Path) -> dict[str, list[Manifest]]:
    """Give all that is shipped, and the chart with all values that have a name."""
    shipped = [entry for entry in ENTRIES if "values" not in entry or "name" in entry]
    return {title(entry): render(entry, directory) for entry in shipped}


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
