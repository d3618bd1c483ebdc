"""What is built and tested: ``python -m tests.e2e.cluster.versions`` prints it for the shell."""

from __future__ import annotations

KUBELETS = {"1.37.0": "B", "1.36.3": "A", "1.34.4": "A", "1.30.14": "A"}
"""Version → which generation of the contract it is of (REG-10, REG-9)."""
NEWEST = ("1.37.0", "1.36.3")
"""The first of generation B and the last of A. Only they are tested with what depends little on the
kubelet's version (marker ``kubelets``)."""
CONTAINERD = "2.4.2"

if __name__ == "__main__":
    print("containerd", CONTAINERD)
    for version in KUBELETS:
        print("kubelet", version)
