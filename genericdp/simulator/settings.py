"""Which kubelet is simulated: its generation, its clocks, and what goes wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Generation(StrEnum):
    """How the kubelet tells two plugins of one resource apart."""

    A = "A"
    """Up to 1.36: by the resource's name alone, with the mistakes of REG-9."""
    B = "B"
    """From 1.37: by name and socket path, with those of REG-10."""


class Cleanup(StrEnum):
    """What a starting kubelet removes from its folder, the checkpoint excepted (KST-2)."""

    ALL_NONDIRS = "all-nondirs"
    """Up to 1.32: all that is no directory, symlinks to directories included."""
    SOCKETS = "sockets"
    """Later: only sockets, and symlinks to them."""


class TopologyPolicy(StrEnum):
    """What ``topologyManagerPolicy`` of a kubelet may be; the scope is ``container``."""

    NONE = "none"
    """Devices come from anywhere."""
    BEST_EFFORT = "best-effort"
    """From as few NUMA nodes as can be, and in any case the pod runs."""
    RESTRICTED = "restricted"
    """Pods that would not get theirs from as few nodes as possible are refused."""
    SINGLE_NUMA_NODE = "single-numa-node"
    """Pods that would not get theirs from one node are refused."""


MOST_NUMA_NODES = 8
"""With more of them a kubelet starts under no policy but ``none``: it tries all their sets."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Topology:
    """The machine and how its kubelet aligns devices."""

    policy: TopologyPolicy = TopologyPolicy.NONE
    numa_nodes: tuple[int, ...] = (0,)
    """Those that the kubelet knows; more than MOST_NUMA_NODES it takes without a policy alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """The kubelet's clocks, as they are; tests shrink them."""

    dial_seconds: float = 10.0
    """How long Register tries to connect to the plugin."""
    node_refresh_seconds: float = 10.0
    """How often the Node object is brought up to date, plus up to 4 %."""
    grace_seconds: float = 300.0
    """How long the devices of a plugin that went away still count as capacity."""
    prestart_seconds: float = 30.0
    """How long PreStartContainer may take."""


@dataclass(kw_only=True, slots=True)
class Faults:
    """What goes wrong, switched on and off while the kubelet runs; nothing by default."""

    register_delay_seconds: float = 0.0
    """Register waits so long before it does anything."""
    register_hangs: bool = False
    """Register does nothing and never answers."""
    answer_delay_seconds: float = 0.0
    """Register does all its work and only its answer is late, maybe past the caller's deadline."""
    refuse_register: str | None = None
    """Register fails with this text."""
    listen_delay_seconds: float = 0.0
    """The time from the folder's cleanup to the new ``kubelet.sock``."""
    streams_opened: int = 1
    """How many ListAndWatch a registration opens: 0 is a kubelet that never asks."""
    stream_delay_seconds: float = 0.0
    """The time from a registration to its ListAndWatch; what ends meanwhile is seen (REG-9b)."""
    refuse_pod_resources: bool = False
    """The pod-resources service refuses every call, as it does when others ask too often."""
    honours_cancel: bool = False
    """A caller that gives up ends the registration, as in 1.36 and 1.37; older kubelets go on and
    leave a ghost registration behind (REG-3)."""
