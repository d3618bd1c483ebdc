"""The kubelet's device manager: all that it keeps in memory, and loses when it dies."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as pb
from genericdp.simulator import checkpoint
from genericdp.simulator.allocations import Allocations
from genericdp.simulator.devices import Devices, Told
from genericdp.simulator.generations import Endpoint, books_of
from genericdp.simulator.goerrors import KubeletError
from genericdp.simulator.record import ListReceived

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from genericdp.simulator.client import PluginClient
    from genericdp.simulator.hints import Mask
    from genericdp.simulator.record import Record
    from genericdp.simulator.settings import Generation, Timing, Topology

Amounts = dict[str, tuple[int, int]]
"""Capacity and allocatable of each resource."""


class DeviceManager:
    """The state of one run of the kubelet."""

    def __init__(
        self,
        folder: Path,
        *,
        generation: Generation,
        timing: Timing,
        topology: Topology,
        observed: Record,
        announce: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.timing = timing
        self.topology = topology
        self.observed = observed
        self.announce = announce
        self._now = now
        self._checkpoint = checkpoint.Writer(folder)
        self.clients, self.endpoints = books_of(generation)
        self.devices = Devices()
        self.allocations = Allocations()
        self.reserved: dict[str, set[str]] = {}
        """Ids that are not free: those held, and those of an allocation under way or leaked."""
        self.affinities: dict[tuple[str, str], Mask | None] = {}
        """The NUMA nodes that were decided on, by pod and container."""

    def recover(self) -> bool:
        """Take over what the checkpoint says, if there is one (KST-6)."""
        saved = checkpoint.read(self.folder)
        if saved is None:
            return False
        for allocation in saved.allocations:
            self.allocations.insert(allocation)
        self.reserved = self.allocations.by_resource()
        self.devices.remember(saved.registered)
        for resource in saved.registered:
            stopped = Endpoint(resource=resource, stopped_at=self._now())
            self.endpoints.current[resource] = stopped
        return True

    def save(self) -> None:
        """Write the checkpoint."""
        # A set of ids is never changed, only replaced.
        state = checkpoint.Checkpoint(
            allocations=tuple(self.allocations), registered=self.devices.healthy
        )
        self._checkpoint.write(state)

    async def connect(self, client: PluginClient) -> None:
        """Ask a plugin for its options, without a deadline, and make it an endpoint (REG-7)."""
        try:
            options = await client.ask(client.plugin.GetDevicePluginOptions(pb.Empty()))
        except KubeletError as error:
            text = f"failed to get device plugin options: {error}"
            raise KubeletError(text) from None
        self.endpoints.connect(Endpoint(resource=client.resource, client=client, options=options))
        self.announce()

    async def disconnect(self, client: PluginClient) -> None:
        """Close a client's connection and stop what counts as its endpoint (KST-7)."""
        self.clients.remove(client.resource, client.path)
        await client.close()
        now = self._now()
        if self.endpoints.disconnect(client.resource, client.path, now=now):
            self.devices.lose(client.resource)
        self.announce()

    def take_list(self, client: PluginClient, response: pb.ListAndWatchResponse) -> None:
        """Take one message of a stream in; write the checkpoint, as for each of them (LAW-7)."""
        received = ListReceived(
            at=self._now(),
            resource=client.resource,
            path=client.path,
            size=len(response.devices),
        )
        self.observed.lists[client.resource] += 1
        self.observed.history.append(received)
        self.devices.replace(
            client.resource,
            [
                Told(
                    id=device.ID,
                    health=device.health,
                    numa_nodes=tuple(node.ID for node in device.topology.nodes)
                    if device.HasField("topology")
                    else None,
                )
                for device in response.devices
            ],
        )
        self.save()
        self.announce()

    def amounts(self) -> Amounts:
        """Give what each resource amounts to now; those beyond their grace are left out."""
        return {
            resource: (
                len(self.devices.healthy.get(resource, ()))
                + len(self.devices.unhealthy.get(resource, ())),
                len(self.devices.healthy.get(resource, ())),
            )
            for resource in self.devices.resources()
            if not self._is_expired(resource)
        }

    def drop_expired(self) -> set[str]:
        """Forget the resources whose plugin has been away for too long; give their names."""
        expired = {name for name in self.devices.resources() if self._is_expired(name)}
        for resource in expired:
            self.devices.drop(resource)
            self.endpoints.current.pop(resource, None)
        if expired:
            self.save()
        return expired

    def _is_expired(self, resource: str) -> bool:
        endpoint = self.endpoints.current.get(resource)
        return endpoint is None or endpoint.is_expired(
            now=self._now(), grace_seconds=self.timing.grace_seconds
        )
