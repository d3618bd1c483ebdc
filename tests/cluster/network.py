"""The network of a cluster of one machine: an address for the node, and one for each pod."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from tests.e2e.cluster.sweep import LINK

if TYPE_CHECKING:
    from pathlib import Path

# Of the range for tests of network devices (RFC 2544), which no other machine uses.
NODE_ADDRESS = "198.18.89.1"
"""A node has to have one that is not loopback's; no one but this machine reaches it."""
SERVICES = "198.18.90.0/24"
SERVICE_ADDRESS = "198.18.90.1"
"""Of the Service ``kubernetes``, which is the first of them; no one but this machine reaches it."""
_PODS = "198.18.88.0/24"


def give_addresses() -> None:
    """Make an interface with the addresses of node and API server; `sweep` removes it."""
    peer = f"{LINK[:12]}-p"  # names of interfaces have 15 characters at most
    for words in (
        f"link add {LINK} type veth peer name {peer}",
        f"address add {NODE_ADDRESS}/32 dev {LINK}",
        f"address add {SERVICE_ADDRESS}/32 dev {LINK}",
        f"link set {LINK} up",
        f"link set {peer} up",
    ):
        subprocess.run(["ip", *words.split()], check=True)


def configure_plugins(directory: Path, files_of_plugins: Path) -> None:
    """Write what containerd reads: each pod is linked to the machine, to no other pod."""
    addresses = {
        "type": "host-local",
        "dataDir": str(files_of_plugins),
        "ranges": [[{"subnet": _PODS}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    network = {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{"type": "ptp", "ipam": addresses}],
    }
    (directory / "network.conflist").write_text(json.dumps(network))
