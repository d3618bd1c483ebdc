"""Aligns one container: from hints about its resources to the NUMA nodes it is to get them from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.simulator.affinity import affinity
from genericdp.simulator.hints import IMPOSSIBLE, NO_PREFERENCE, has_alignment, hints_of
from genericdp.simulator.settings import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from genericdp.simulator.affinity import Hints
    from genericdp.simulator.manager import DeviceManager


def align(
    manager: DeviceManager,
    pod_uid: str,
    container: str,
    *,
    amounts: Mapping[str, int],
    reusable: Mapping[str, set[str]],
) -> bool:
    """Note in the manager where a container's devices are to come from; False: it is refused.

    ``amounts`` has the resources of device plugins alone; ``reusable`` what its pod's init
    containers leave to it.
    """
    topology = manager.topology
    if topology.policy is TopologyPolicy.NONE:
        return True  # Nobody is even asked for hints.
    hints = [
        _hints(
            manager,
            resource,
            amount=amount,
            held=manager.allocations.ids(pod_uid, container, resource) or frozenset(),
            reusable=reusable.get(resource, set()),
        )
        for resource, amount in amounts.items()
    ]
    decided = affinity(topology.policy, hints, numa_nodes=topology.numa_nodes)
    if decided.admitted:
        manager.affinities[pod_uid, container] = decided.nodes
    return decided.admitted


def _hints(
    manager: DeviceManager, resource: str, *, amount: int, held: frozenset[str], reusable: set[str]
) -> Hints:
    listed = manager.devices.listed(resource)
    if not has_alignment(listed):
        return NO_PREFERENCE
    free = manager.devices.healthy.get(resource, set()) - manager.reserved.get(resource, set())
    if held:
        # Admitted before: after a restart of the kubelet, for example.
        if len(held) != amount:
            return IMPOSSIBLE
        free, reusable = set(held), set()
    elif len(free | reusable) < amount:
        return IMPOSSIBLE
    nodes = manager.topology.numa_nodes
    found = hints_of(listed, free=free, reusable=reusable, amount=amount, numa_nodes=nodes)
    return found or IMPOSSIBLE
