"""The commands of a control plane for one node, and the files that they read."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from tests.cluster.network import NODE_ADDRESS, SERVICE_ADDRESS, SERVICES
from tests.e2e.cluster.node import NODE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

API = f"https://{SERVICE_ADDRESS}"
CERTIFICATE = "certificates-of-the-api/apiserver.crt"
"""What clients trust, in the cluster's directory."""
AUDIT_LOG = "audit.log"
"""Has a line for each request about what dynamic resource allocation is made of."""
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
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "resources": [{"group": "resource.k8s.io"}]},
        {"level": "None"},
    ],
}


def write_files(directory: Path) -> None:
    """Write the users, a kubeconfig for each, and the key that tokens are signed with."""
    (directory / "audit-policy.json").write_text(json.dumps(_AUDIT_POLICY))
    rows = (f'{token},{user},{user},"{group}"\n' for token, (user, group) in _USERS.items())
    (directory / "users.csv").write_text("".join(rows))
    for token in _USERS:
        # The server makes its own certificate, again for each cluster.
        trust = {"insecure-skip-tls-verify": True}
        content = kubeconfig({"token": token}, trust)
        (directory / f"{token}.kubeconfig").write_text(json.dumps(content))
    key = ("ecparam", "-name", "prime256v1", "-genkey", "-noout")
    subprocess.run(["openssl", *key, "-out", str(directory / "accounts.key")], check=True)


def kubeconfig(user: Mapping[str, object], trust: Mapping[str, object]) -> dict[str, object]:
    """Give the content of one: who it is for, and whom that one trusts."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": API, **trust}}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "current-context": "here",
    }


def etcd(directory: Path) -> Iterator[str]:
    """Give the arguments of etcd, which need not survive a power cut."""
    yield f"--data-dir={directory}/etcd"
    yield "--unsafe-no-fsync"
    yield from (f"--listen-client-urls={_ETCD}", f"--advertise-client-urls={_ETCD}")
    yield "--listen-peer-urls=http://127.0.0.1:2380"


def api_server(directory: Path) -> Iterator[str]:
    """Give the arguments of kube-apiserver: what may be asked of it is as in any cluster."""
    yield f"--etcd-servers={_ETCD}"
    # For pods, at the address of its Service, which is in its certificate: no proxy translates it.
    yield from (f"--bind-address={SERVICE_ADDRESS}", "--secure-port=443")
    yield f"--advertise-address={NODE_ADDRESS}"
    yield f"--cert-dir={(directory / CERTIFICATE).parent}"
    yield f"--audit-policy-file={directory}/audit-policy.json"
    yield f"--audit-log-path={directory / AUDIT_LOG}"
    yield f"--token-auth-file={directory}/users.csv"
    yield from ("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction")
    yield "--allow-privileged"  # as kubeadm and all others have it
    yield f"--service-cluster-ip-range={SERVICES}"
    yield "--service-account-issuer=https://kubernetes.default.svc"
    yield f"--service-account-key-file={directory}/accounts.key"
    yield f"--service-account-signing-key-file={directory}/accounts.key"
    yield from ("--kubelet-preferred-address-types=InternalIP", "--endpoint-reconciler-type=none")


def controller_manager(directory: Path) -> Iterator[str]:
    """Give the arguments of kube-controller-manager."""
    yield f"--kubeconfig={directory}/of-the-controllers.kubeconfig"
    yield from ("--leader-elect=false", "--bind-address=127.0.0.1")
    yield f"--service-account-private-key-file={directory}/accounts.key"
    yield f"--root-ca-file={directory / CERTIFICATE}"


def scheduler(directory: Path) -> Iterator[str]:
    """Give the arguments of kube-scheduler."""
    yield f"--kubeconfig={directory}/of-the-scheduler.kubeconfig"
    yield from ("--leader-elect=false", "--bind-address=127.0.0.1")


def kubelet(directory: Path) -> dict[str, str]:
    """Give the arguments that join a kubelet to the cluster."""
    return {"--kubeconfig": f"{directory}/of-the-node.kubeconfig", "--node-ip": NODE_ADDRESS}
