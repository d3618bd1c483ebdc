"""What is built and tested: ``python -m tests.e2e.cluster.versions`` prints it for the shell."""

from __future__ import annotations

KUBELETS = {"1.37.0": "B", "1.36.3": "A"}
"""Version → which generation of the contract it is of (REG-10, REG-9)."""
CONTAINERD = "2.4.2"

if __name__ == "__main__":
    print("containerd", CONTAINERD)
    for version in KUBELETS:
        print("kubelet", version)
