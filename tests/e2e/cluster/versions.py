"""The versions that are built and tested.

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
CLUSTERS = ("1.37.0", "1.36.3", "1.34.4")
"""Of a whole cluster: its kubelet, kubectl and control plane. The first is tested unless VERSIONS
says otherwise."""
ETCD = "3.7.3"
HELM = "3.22.0"
PROMTOOL = "0.313.5"
ACTIONLINT = "1.7.12"
SYFT = "1.50.0"


def chosen() -> tuple[str, ...]:
    """Give the kubelets that the environment's KUBELETS requests: ``all``, or their versions."""
    return _chosen("KUBELETS", tuple(KUBELETS), USUAL)


def clusters() -> tuple[str, ...]:
    """Give the clusters that the environment's VERSIONS requests: ``all``, or their versions."""
    return _chosen("VERSIONS", CLUSTERS, CLUSTERS[:1])


def _chosen(variable: str, known: tuple[str, ...], usual: tuple[str, ...]) -> tuple[str, ...]:
    wanted = tuple(os.environ.get(variable, "").replace(",", " ").split()) or usual
    if wanted == ("all",):
        return known
    if unknown := [version for version in wanted if version not in known]:
        raise SystemExit(f"{variable}: {unknown[0]} is not one of {', '.join(known)}")
    return wanted


def parts(suite: str) -> list[tuple[str, str]]:
    """Give name and version of what the tests of ``e2e``, ``cluster`` or ``deploy`` run."""
    api = [("etcd", ETCD), ("helm", HELM)]
    if suite == "deploy":
        return [
            ("control-plane", CLUSTERS[0]),
            *api,
            ("promtool", PROMTOOL),
            ("actionlint", ACTIONLINT),
            ("syft", SYFT),
        ]
    if suite == "cluster":
        both = [(name, each) for each in clusters() for name in ("kubelet", "control-plane")]
        return [("containerd", CONTAINERD), *both, *api]
    return [("containerd", CONTAINERD), *(("kubelet", version) for version in chosen())]


if __name__ == "__main__":
    for part in dict.fromkeys(part for suite in sys.argv[1:] for part in parts(suite)):
        print(*part)
