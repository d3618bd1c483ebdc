"""The commands of a control plane for one node, and the files that they read."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from tests.cluster.network import NODE_ADDRESS
from tests.e2e.cluster.node import NODE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

API = "https://127.0.0.1:6443"
ADMIN = "of-the-admin"
"""The token of one who may do everything."""
_ETCD = "http://127.0.0.1:2379"
# Token → user and group.
_USERS = {
    ADMIN: ("admin", "system:masters"),
    "of-the-controllers": ("system:kube-controller-manager", "system:masters"),
    "of-the-scheduler": ("system:kube-scheduler", "system:masters"),
    "of-the-node": (f"system:node:{NODE_NAME}", "system:nodes"),
}


def write_files(folder: Path) -> None:
    """Write the users, a kubeconfig for each, and the key that tokens are signed with."""
    rows = (f'{token},{user},{user},"{group}"\n' for token, (user, group) in _USERS.items())
    (folder / "users.csv").write_text("".join(rows))
    for token in _USERS:
        (folder / f"{token}.kubeconfig").write_text(json.dumps(_kubeconfig(token)))
    key = ("ecparam", "-name", "prime256v1", "-genkey", "-noout")
    subprocess.run(["openssl", *key, "-out", str(folder / "accounts.key")], check=True)


def _kubeconfig(token: str) -> dict[str, object]:
    # The server makes its own certificate, anew for each cluster.
    server = {"server": API, "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": server}],
        "users": [{"name": "me", "user": {"token": token}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "current-context": "here",
    }


def etcd(folder: Path) -> Iterator[str]:
    """Give the arguments of etcd, which need not survive a power cut."""
    yield f"--data-dir={folder}/etcd"
    yield "--unsafe-no-fsync"
    yield from (f"--listen-client-urls={_ETCD}", f"--advertise-client-urls={_ETCD}")
    yield "--listen-peer-urls=http://127.0.0.1:2380"


def api_server(folder: Path) -> Iterator[str]:
    """Give the arguments of kube-apiserver: what may be asked of it is as in any cluster."""
    yield f"--etcd-servers={_ETCD}"
    yield from ("--bind-address=127.0.0.1", f"--advertise-address={NODE_ADDRESS}")
    yield f"--cert-dir={folder}/certificates-of-the-api"
    yield f"--token-auth-file={folder}/users.csv"
    yield from ("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction")
    yield "--allow-privileged"  # as kubeadm and all others have it
    yield "--service-cluster-ip-range=198.18.90.0/24"
    yield "--service-account-issuer=https://kubernetes.default.svc"
    yield f"--service-account-key-file={folder}/accounts.key"
    yield f"--service-account-signing-key-file={folder}/accounts.key"
    yield from ("--kubelet-preferred-address-types=InternalIP", "--endpoint-reconciler-type=none")


def controller_manager(folder: Path) -> Iterator[str]:
    """Give the arguments of kube-controller-manager."""
    yield f"--kubeconfig={folder}/of-the-controllers.kubeconfig"
    yield from ("--leader-elect=false", "--bind-address=127.0.0.1")
    yield f"--service-account-private-key-file={folder}/accounts.key"


def scheduler(folder: Path) -> Iterator[str]:
    """Give the arguments of kube-scheduler."""
    yield f"--kubeconfig={folder}/of-the-scheduler.kubeconfig"
    yield from ("--leader-elect=false", "--bind-address=127.0.0.1")


def kubelet(folder: Path) -> dict[str, str]:
    """Give the arguments that join a kubelet to the cluster."""
    return {"--kubeconfig": f"{folder}/of-the-node.kubeconfig", "--node-ip": NODE_ADDRESS}
