"""What is built and tested.

``python -m tests.e2e.cluster.versions SUITE...`` prints names and versions for the shell.
"""

from __future__ import annotations

import os
import sys

KUBELETS = {"1.37.0": "B", "1.36.3": "A", "1.34.4": "A", "1.30.14": "A"}
"""Version → which generation of the contract it is of (REG-10, REG-9)."""
NEWEST = ("1.37.0", "1.36.3")
"""The first of generation B and the last of A. Only they are tested with what depends little on the
kubelet's version (marker ``kubelets``)."""
USUAL = ("1.37.0", "1.30.14")
"""The newest and the oldest: what is tested unless KUBELETS says otherwise."""
CONTAINERD = "2.4.2"
CLUSTER = "1.37.0"
"""Of the whole cluster: its kubelet, kubectl and control plane."""
ETCD = "3.7.3"
HELM = "3.22.0"
PROMTOOL = "0.313.5"
ACTIONLINT = "1.7.12"
KUBECONFORM = "0.8.0"
SYFT = "1.50.0"


def chosen() -> tuple[str, ...]:
    """Give the kubelets that the environment's KUBELETS asks for: ``all``, or their versions."""
    wanted = os.environ.get("KUBELETS", "").replace(",", " ").split() or list(USUAL)
    if wanted == ["all"]:
        return tuple(KUBELETS)
    if unknown := [version for version in wanted if version not in KUBELETS]:
        raise SystemExit(f"KUBELETS: {unknown[0]} is none of {', '.join(KUBELETS)}")
    return tuple(wanted)


def parts(suite: str) -> list[tuple[str, str]]:
    """Give name and version of what the tests of ``e2e``, ``cluster`` or ``deploy`` run."""
    api = [("control-plane", CLUSTER), ("etcd", ETCD), ("helm", HELM)]
    if suite == "deploy":
        return [
            *api,
            ("promtool", PROMTOOL),
            ("actionlint", ACTIONLINT),
            ("kubeconform", KUBECONFORM),
            ("syft", SYFT),
        ]
    if suite == "cluster":
        return [("containerd", CONTAINERD), ("kubelet", CLUSTER), *api]
    return [("containerd", CONTAINERD), *(("kubelet", version) for version in chosen())]


if __name__ == "__main__":
    for part in dict.fromkeys(part for suite in sys.argv[1:] for part in parts(suite)):
        print(*part)
