"""The devices that plugins have told of: what a node has of each resource; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """One device as a list had it."""

    id: str
    health: str
    numa_nodes: tuple[int, ...] | None = None
    """None: without a topology, which is not the same as an empty one."""


class Devices:
    """Two sets of ids for each resource, and what was last told of each id."""

    def __init__(self) -> None:
        self.healthy: dict[str, set[str]] = {}
        self.unhealthy: dict[str, set[str]] = {}
        self._told: dict[str, dict[str, Told]] = {}

    def replace(self, resource: str, devices: Iterable[Told]) -> None:
        """Take a list in: it replaces all that was known of the resource (LAW-2).

        An id that is listed with both healths is in both sets and counts twice, as in the kubelet
        (LAW-4); any health but the one exact word is unhealthy (LAW-5).
        """
        healthy: set[str] = set()
        unhealthy: set[str] = set()
        told: dict[str, Told] = {}
        for device in devices:
            told[device.id] = device
            (healthy if device.health == HEALTHY else unhealthy).add(device.id)
        self.healthy[resource] = healthy
        self.unhealthy[resource] = unhealthy
        self._told[resource] = told

    def remember(self, resources: Collection[str]) -> None:
        """Know resources of a checkpoint: registered, without devices (KST-6)."""
        for resource in resources:
            self.healthy[resource] = set()
            self.unhealthy[resource] = set()

    def lose(self, resource: str) -> None:
        """Make all devices of a resource unhealthy: its plugin is gone (KST-7)."""
        lost = self.healthy.get(resource, set())
        self.unhealthy[resource] = self.unhealthy.get(resource, set()) | lost
        if resource in self.healthy:
            self.healthy[resource] = set()

    def drop(self, resource: str) -> None:
        """Forget that a resource was ever registered."""
        self.healthy.pop(resource, None)
        self.unhealthy.pop(resource, None)

    def resources(self) -> set[str]:
        """Give the names that have at least one set, however empty."""
        return self.healthy.keys() | self.unhealthy.keys()

    def health(self, resource: str) -> dict[str, str]:
        """Give each listed id with what the kubelet thinks of it."""
        health = dict.fromkeys(self.healthy.get(resource, ()), HEALTHY)
        health.update(dict.fromkeys(self.unhealthy.get(resource, ()), UNHEALTHY))
        return health

    def reported_health(self, resource: str, device_id: str) -> str:
        """Give the health that a pod's status shows (ResourceHealthStatus, LAW-10).

        A device that is missing from the list counts as healthy, and the end of a plugin changes
        nothing: both are mistakes of the kubelet that a plugin has to know of.
        """
        told = self._told.get(resource, {}).get(device_id)
        return HEALTHY if told is None or told.health == HEALTHY else UNHEALTHY

    def numa_nodes(self, resource: str, device_id: str) -> tuple[int, ...]:
        """Give the NUMA nodes a device was last listed with."""
        told = self.listed(resource).get(device_id)
        return told.numa_nodes or () if told is not None else ()

    def listed(self, resource: str) -> dict[str, Told]:
        """Give the last list by id: it outlives the plugin, and is lost with the kubelet."""
        return self._told.get(resource, {})
