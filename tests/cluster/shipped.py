"""Installs what is shipped, changed as its users change it: the image's tag and the config."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from genericdp import __version__

from tests.cluster.daemonset import NAMESPACE
from tests.e2e.cluster.image import architecture
from tests.e2e.scenarios import FUSE, HEAD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.cluster import Cluster

ROOT = Path(__file__).parents[2]
BASE = ROOT / "deploy/kustomize/base"
OVERLAYS = ROOT / "deploy/kustomize/overlays"
CHART = ROOT / "deploy/helm/genericdp"
CONFIG_MAP = "genericdp-config"
FILE = "genericdp.yaml"
_NAME = "docker.io/library/genericdp"
OTHER_TAG = f"{__version__}-again"
"""The same image by another name: an update that changes nothing else."""


def single(*more: str) -> str:
    """Give a config of three shares of /dev/fuse and nothing else, but for more lines of it."""
    lines = (f"  - name: {FUSE}", "    match: [{path: /dev/fuse}]", "    replicas: 3", *more)
    return HEAD + "\n".join(lines) + "\n"


def load_image(cluster: Cluster, directory: Path) -> None:
    """Give the image to the node."""
    (archive,) = directory.glob(f"genericdp-{__version__}-{architecture()}.tar")
    cluster.load_image(archive)
    cluster.ctr("images", "tag", f"{_NAME}:{__version__}", f"{_NAME}:{OTHER_TAG}")


def kustomize(
    cluster: Cluster,
    config: str,
    *,
    of: Path = BASE,
    tag: str = __version__,
    files: Mapping[str, str] | None = None,
) -> None:
    """Apply a kustomization of ours that has the shipped one as its base.

    ``files`` are those of the ConfigMap genericdp-scripts, which only ``tools`` has.
    """
    directory = cluster.directory / "kustomization"
    directory.mkdir(exist_ok=True)
    maps = {CONFIG_MAP: {FILE: config}} | ({"genericdp-scripts": files} if files else {})
    for texts in maps.values():
        for name, text in texts.items():
            (directory / name).write_text(text)
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": NAMESPACE,
        "resources": [os.path.relpath(of, directory.resolve())],
        "images": [{"name": "genericdp", "newTag": tag}],
        "configMapGenerator": [
            {"name": name, "behavior": "replace", "files": list(texts)}
            for name, texts in maps.items()
        ],
        "generatorOptions": {"disableNameSuffixHash": True},
    }
    (directory / "kustomization.yaml").write_text(json.dumps(content))
    cluster.kubectl("apply", "-k", str(directory))


def remove_kustomized(cluster: Cluster) -> None:
    """Delete it with its namespace."""
    directory = str(cluster.directory / "kustomization")
    cluster.kubectl("delete", "--wait", "--timeout=300s", "-k", directory)


def install_chart(cluster: Cluster, config: str, **more: object) -> None:
    """Install the chart with a config and more as its values; it is then what the base is."""
    as_base = {"stateDir": "", "podResources": False}
    values = json.dumps({"config": yaml.safe_load(config), **as_base, **more})
    options = ("--namespace", NAMESPACE, "--create-namespace", "--values=-")
    cluster.helm("install", "genericdp", str(CHART), *options, given=values)


def remove_chart(cluster: Cluster) -> None:
    """Uninstall it and delete its namespace."""
    cluster.helm("uninstall", "genericdp", "--namespace", NAMESPACE, "--wait", "--timeout=300s")
    cluster.kubectl("delete", "namespace", NAMESPACE, "--timeout=300s")


def edit(cluster: Cluster, config: str) -> None:
    """Change the ConfigMap, as ``kubectl edit`` does."""
    patch = json.dumps({"data": {FILE: config}})
    cluster.kubectl("-n", NAMESPACE, "patch", "configmap", CONFIG_MAP, "--type=merge", "-p", patch)
