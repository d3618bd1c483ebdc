"""The kubelet's device manager: plugins, devices and allocations, and their checkpoint."""

from __future__ import annotations

import base64
import json
import logging
import secrets
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from genericdp.kubelet.api import deviceplugin_pb2 as pb
from genericdp.simulator.client import PluginClient, SimulatedKubeletError
from genericdp.simulator.settings import Generation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from genericdp.simulator.settings import Timing

CHECKPOINT = "kubelet_internal_checkpoint"
HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"

Ids = dict[str, set[str]]
"""Device IDs by resource."""

log = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class Record:
    """Counters by resource; they outlive restarts of the kubelet."""

    registrations: Counter[str] = field(default_factory=Counter)
    """Register calls, counted before they are checked (MET-1)."""
    accepted: Counter[str] = field(default_factory=Counter)
    """Register calls that succeeded, whether or not their caller still waited."""
    lists: Counter[str] = field(default_factory=Counter)
    """Lists received."""
    pod_resources_calls: int = 0
    """Calls of the PodResources API, rejected ones included."""


@dataclass(kw_only=True, slots=True)
class Endpoint:
    """The plugin that is called for a resource."""

    resource: str
    client: PluginClient | None = None
    """None once it has stopped, and for a resource that is known from the checkpoint only."""
    options: pb.DevicePluginOptions | None = None
    """Read once, at registration (REG-7); unknown after a restart of the kubelet."""

    def live_client(self) -> PluginClient:
        """Return the connection to call.

        Raises SimulatedKubeletError if the plugin has gone away.
        """
        if self.client is None:
            raise SimulatedKubeletError(f"endpoint {self.resource} has been stopped")
        return self.client


class Plugins:
    """The kubelet's two tables of plugins, which can disagree: clients and endpoints.

    Clients are the connections of the registration service; endpoints are what the device manager
    calls. Generation A keys both by resource: a second plugin replaces the first one, whose
    connection stays open (REG-9). Generation B keys them by resource and socket (REG-10).
    """

    def __init__(self, generation: Generation) -> None:
        self.current: dict[str, Endpoint] = {}
        """The endpoint of each resource."""
        self._by_path = generation is Generation.B
        self._clients: dict[tuple[str, str], PluginClient] = {}
        self._endpoints: dict[tuple[str, str], Endpoint] = {}

    def add(self, client: PluginClient) -> None:
        """Add a client before it is connected."""
        if self._by_path:
            self._clients.setdefault(self._key(client), client)
        else:
            self._clients[self._key(client)] = client

    def find(self, client: PluginClient) -> PluginClient | None:
        """Return the client under this client's key: it may be another one (REG-9b)."""
        return self._clients.get(self._key(client))

    def remove(self, client: PluginClient) -> None:
        """Remove whatever is under this client's key (REG-9c, REG-10)."""
        self._clients.pop(self._key(client), None)

    def connect(self, client: PluginClient, options: pb.DevicePluginOptions) -> None:
        """Make a client the endpoint of its resource.

        Raises SimulatedKubeletError if it is one already.
        """
        key = self._key(client)
        if self._by_path and key in self._endpoints:
            raise SimulatedKubeletError(f"device plugin already connected: {client.path}")
        endpoint = Endpoint(resource=client.resource, client=client, options=options)
        self._endpoints[key] = self.current[client.resource] = endpoint

    def disconnect(self, client: PluginClient) -> bool:
        """Stop the endpoint under this client's key; return whether it was the last one.

        If another one of the resource is left, that is called from now on.
        """
        endpoint = self._endpoints.pop(self._key(client), None)
        if endpoint is None:
            return False
        endpoint.client = None
        left = [
            endpoint
            for endpoint in self._endpoints.values()
            if endpoint.resource == client.resource
        ]
        if left:
            self.current[client.resource] = left[0]
        return not left

    def _key(self, client: PluginClient) -> tuple[str, str]:
        return client.resource, client.path if self._by_path else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Allocation:
    """The devices of one resource that a container holds."""

    pod_uid: str
    container: str
    resource: str
    ids: frozenset[str]
    response: pb.ContainerAllocateResponse
    """The plugin's answer, used again for each start of the container (ALL-7)."""

    def as_json(self) -> dict[str, Any]:
        """Return the allocation as an entry of the checkpoint."""
        return {
            "PodUID": self.pod_uid,
            "ContainerName": self.container,
            "ResourceName": self.resource,
            "DeviceIDs": sorted(self.ids),
            "AllocResp": base64.b64encode(self.response.SerializeToString()).decode(),
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Allocation:
        """Return the allocation of an entry of the checkpoint."""
        response = base64.b64decode(entry["AllocResp"])
        return cls(
            pod_uid=entry["PodUID"],
            container=entry["ContainerName"],
            resource=entry["ResourceName"],
            ids=frozenset(entry["DeviceIDs"]),
            response=pb.ContainerAllocateResponse.FromString(response),
        )


@dataclass(kw_only=True, slots=True)
class DeviceManager:
    """All state of one run of the kubelet; ``announce`` is called after each change."""

    directory: Path
    plugins: Plugins
    timing: Timing
    observed: Record
    announce: Callable[[], None]
    healthy: Ids = field(default_factory=dict)
    """Of every resource that belongs to a device plugin, as ``unhealthy``."""
    unhealthy: Ids = field(default_factory=dict)
    allocations: list[Allocation] = field(default_factory=list)
    reserved: Ids = field(default_factory=dict)
    """IDs that are not free: allocated, being allocated, or leaked (ALL-2)."""

    def recover(self) -> None:
        """Read the checkpoint, if there is one (KST-6)."""
        try:
            text = (self.directory / CHECKPOINT).read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        data = json.loads(text)["Data"]
        self.allocations = list(map(Allocation.from_json, data["PodDeviceEntries"]))
        self.free_unallocated()
        for resource in data["RegisteredDevices"]:
            self.healthy[resource], self.unhealthy[resource] = set(), set()
            self.plugins.current[resource] = Endpoint(resource=resource)

    def save(self) -> None:
        """Replace the checkpoint; warn if the directory is missing, as the kubelet does."""
        entries = [allocation.as_json() for allocation in self.allocations]
        registered = {resource: sorted(ids) for resource, ids in self.healthy.items()}
        data = {"PodDeviceEntries": entries, "RegisteredDevices": registered}
        # As the kubelet names it: plugins that watch the directory see it come and go (KST-5).
        temporary = self.directory / f".{secrets.randbelow(10**9)}"
        try:
            temporary.touch(mode=0o600)
            temporary.write_text(json.dumps({"Data": data}), encoding="utf-8")
            temporary.rename(self.directory / CHECKPOINT)
        except OSError as error:
            log.warning("cannot write the checkpoint: %s", error)

    async def connect(self, client: PluginClient) -> None:
        """Ask a plugin for its options, without a timeout, and make it an endpoint (REG-7)."""
        try:
            options = await client.ask(client.plugin.GetDevicePluginOptions(pb.Empty()))
        except SimulatedKubeletError as error:
            text = f"failed to get device plugin options: {error}"
            raise SimulatedKubeletError(text) from None
        self.plugins.connect(client, options)
        self.announce()

    async def disconnect(self, client: PluginClient) -> None:
        """Close a connection; all devices become unhealthy if no endpoint is left (KST-7)."""
        self.plugins.remove(client)
        await client.close()
        resource = client.resource
        if self.plugins.disconnect(client) and resource in self.healthy:
            self.unhealthy[resource] |= self.healthy[resource]
            self.healthy[resource] = set()
        self.announce()

    def set_list(self, client: PluginClient, response: pb.ListAndWatchResponse) -> None:
        """Replace everything that is known about a resource by a list (LAW-2); write the checkpoint
        (LAW-7).

        An ID that is listed as both healthy and unhealthy counts twice (LAW-4).
        """
        resource, devices = client.resource, response.devices
        self.observed.lists[resource] += 1
        self.healthy[resource] = {device.ID for device in devices if device.health == HEALTHY}
        self.unhealthy[resource] = {device.ID for device in devices if device.health != HEALTHY}
        self.save()
        self.announce()

    def health(self, resource: str) -> dict[str, str]:
        """Return the health of each device of a resource."""
        health = dict.fromkeys(self.healthy.get(resource, ()), HEALTHY)
        return health | dict.fromkeys(self.unhealthy.get(resource, ()), UNHEALTHY)

    def amount(self, resource: str) -> tuple[int, int]:
        """Return capacity and allocatable of a resource; 0 and 0 if it is unknown."""
        healthy = len(self.healthy.get(resource, ()))
        return healthy + len(self.unhealthy.get(resource, ())), healthy

    def allocated_to(self, pod_uid: str, container: str) -> tuple[Allocation, ...]:
        """Return the allocations of a container."""
        return tuple(
            allocation
            for allocation in self.allocations
            if (allocation.pod_uid, allocation.container) == (pod_uid, container)
        )

    def release_all_but(self, active: Collection[str]) -> None:
        """Free the devices of all pods but the active ones, by UID (ALL-3)."""
        if any(allocation.pod_uid not in active for allocation in self.allocations):
            self.allocations = [
                allocation for allocation in self.allocations if allocation.pod_uid in active
            ]
            self.free_unallocated()

    def free_unallocated(self) -> None:
        """Free all IDs that are reserved without being allocated."""
        self.reserved = {}
        for allocation in self.allocations:
            self.reserved.setdefault(allocation.resource, set()).update(allocation.ids)
