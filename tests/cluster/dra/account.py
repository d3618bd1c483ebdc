"""The daemon's service account, as ``components/dra`` makes it, for a daemon outside of a pod.

The daemon of these tests is killed and started again, so it runs next to the kubelet, with a token
as its pod would have it: bound to a pod of the node, which the admission policy requests.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

import yaml

from tests.cluster.control_plane import CERTIFICATE, kubeconfig
from tests.cluster.daemonset import NAMESPACE
from tests.cluster.dra.pods import Pod, apply, container, delete, pod
from tests.deploy.rendering import with_components
from tests.e2e.cluster.node import NODE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.cluster import Cluster

USER = f"system:serviceaccount:{NAMESPACE}:genericdp"
_NOT_APPLIED = {"ConfigMap", "DaemonSet", "NetworkPolicy"}


@contextmanager
def account(cluster: Cluster, directory: Path) -> Iterator[Path]:
    """Make it with its rights and the policy that bounds them; give a kubeconfig of it."""
    directory.mkdir()
    rendered = cluster.kubectl("kustomize", str(with_components(directory, ["dra"])))
    manifests = [
        document
        for document in yaml.safe_load_all(rendered)
        if document["kind"] not in _NOT_APPLIED
    ]
    apply(cluster, *manifests)
    sleeping = pod("daemon", container(), namespace=NAMESPACE)
    sleeping["spec"] |= {"serviceAccountName": "genericdp", "nodeName": NODE_NAME}
    apply(cluster, sleeping)
    try:
        Pod(cluster, "daemon", NAMESPACE).await_running()
        bound = ("--bound-object-kind=Pod", "--bound-object-name=daemon")
        token = cluster.kubectl("-n", NAMESPACE, "create", "token", "genericdp", *bound)
        (directory / "token").write_text(token)
        trust = {"certificate-authority": str(cluster.directory / CERTIFICATE)}
        content = kubeconfig({"tokenFile": str(directory / "token")}, trust)
        (directory / "kubeconfig").write_text(json.dumps(content))
        yield directory / "kubeconfig"
    finally:
        delete(cluster, *manifests)
