"""The answers of one resource to the kubelet's calls, and their protobuf."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError, Message

from genericdp.devices.allocation import edits_for_kubelet
from genericdp.devices.device import shares_by_device
from genericdp.devices.devicelist import share_reasons
from genericdp.devices.preferred import preferred_ids
from genericdp.errors import InvalidCallError, UnusableDeviceError
from genericdp.gate import Limit, counted, limited, log_given
from genericdp.host.workers import in_worker
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.model import Preference
from genericdp.observed import Observed, until
from genericdp.template import UnusableValueError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence

    from genericdp.devices.device import ContainerEdits
    from genericdp.devices.devicelist import DeviceList
    from genericdp.gate import Gate

log = logging.getLogger(__name__)
_MessageT = TypeVar("_MessageT", bound=Message)


class Servicer:
    """Answers the kubelet's calls for a resource, from the latest device list of its gate."""

    def __init__(
        self,
        gate: Gate,
        *,
        pre_start: bool = False,
        prefer: Preference = Preference.NONE,
        replicas: int = 1,
        gave: Callable[[Iterable[str]], None] = lambda _: None,
    ) -> None:
        """``gave`` is called with shares that a container requests, before it gets them."""
        self.prefer = prefer
        self.replicas = replicas
        self.options = api.DevicePluginOptions(
            pre_start_required=pre_start,
            get_preferred_allocation_available=prefer is not Preference.NONE,
        )
        """The answer to GetDevicePluginOptions."""
        self.gate = gate
        self._gave = gave
        self.in_progress = Observed(0)
        """How many calls of the kubelet have not been answered yet."""
        self._response = Observed((b"", 0))
        """The latest ListAndWatchResponse, and how often streams had to send it again."""
        self._preferring_failed = False

    def set_devices(self, devices: DeviceList, encoded: bytes | None = None) -> bool:
        """Set the device list; return whether its bytes differ, so that streams send it.

        ``encoded`` has its bytes, if they were made off the loop.
        """
        before, resends = self._response.value
        response = before
        if devices.devices != self.gate.devices.devices:
            try:
                response = encode_list(devices) if encoded is None else encoded
            except Exception:
                # A bug that affects one resource must not stop the others (K6).
                log.exception("%s: its device list cannot be encoded", self.gate.resource)
                devices = self.gate.devices
        self.gate.set_devices(devices)
        self._response.value = response, resends
        return response != before

    async def device_lists(self) -> AsyncIterator[bytes]:
        """Yield the list at once and at each change (LAW-1); a slow client gets only the latest."""
        while True:
            has_changed, (sent, _) = self._response.watch(), self._response.value
            log.debug("list of %d bytes sent", len(sent))
            self.gate.tally.updates += 1
            yield sent
            await until(has_changed, self._response)

    def resend(self) -> None:
        """Send the same list again, because the kubelet may have that of another instance."""
        response, resends = self._response.value
        self._response.value = response, resends + 1

    async def allocate(self, request: bytes) -> bytes:
        """Answer Allocate, with everything that was requested, or an error with the reason."""
        gate = self.gate
        with counted([gate.tally]):
            limit = Limit("Allocate", gate.timeouts.allocate)
            async with limited(gate.resource, limit) as unfinished:
                asked = parsed(api.AllocateRequest, request).container_requests
                shares = [share for container in asked for share in container.devices_ids]
                self._gave(shares)  # an edit of the config may come before the answer
                containers = [
                    await self._edits(container.devices_ids, unfinished) for container in asked
                ]
        self._gave(shares)
        log_given("a container", gate.resource, shares)
        log.debug("allocated: %s", containers)
        return allocation(containers)

    async def _edits(self, shares: Sequence[str], unfinished: dict[str, str]) -> ContainerEdits:
        devices = await self.gate.admit(shares, ("allocate",), unfinished)
        try:
            return edits_for_kubelet(devices, shares_by_device(shares))
        except UnusableValueError as error:
            raise UnusableDeviceError(str(error)) from error

    async def preferred_allocation(self, request: bytes) -> bytes:
        """Answer GetPreferredAllocation; return no preference if anything fails.

        An error would reject the pod (PRF-4); a late answer would only make it wait.
        """
        devices, prefer = self.gate.devices, self.prefer
        choose = partial(preferred_allocation, request, devices, prefer, replicas=self.replicas)
        try:
            async with asyncio.timeout(self.gate.timeouts.preferred):
                return await in_worker(choose)
        except Exception:
            if not self._preferring_failed:  # it would fail again for each pod
                self._preferring_failed = True
                log.exception("%s: choosing preferred devices has failed", self.gate.resource)
            return b""

    async def pre_start_container(self, request: bytes) -> bytes:
        """Answer PreStartContainer once all hooks have succeeded."""
        limit = Limit("PreStartContainer", self.gate.timeouts.pre_start)
        async with limited(self.gate.resource, limit) as unfinished:
            shares = parsed(api.PreStartContainerRequest, request).devices_ids
            await self.gate.pre_start(shares, unfinished)
        return b""


def encode_list(devices: DeviceList) -> bytes:
    """Return a serialized ListAndWatchResponse; for a thousand devices this takes 2.5 ms."""
    response = api.ListAndWatchResponse()
    is_without_topology = bool(devices.numa_spoiler)  # iterates over all devices
    for listed in devices.devices.values():
        topology = _topology(() if is_without_topology else listed.device.numa_nodes)
        for share in listed.device.shares:
            health = "Unhealthy" if share_reasons(listed, share) else "Healthy"
            response.devices.add(ID=share, health=health, topology=topology)
    return response.SerializeToString()


def entry_bytes(share: str, numa_nodes: Sequence[int]) -> int:
    """Return the size of an Unhealthy share in a list, which is its largest possible size
    (LAW-6).
    """
    response = api.ListAndWatchResponse()
    response.devices.add(ID=share, health="Unhealthy", topology=_topology(numa_nodes))
    return response.ByteSize()


def _topology(numa_nodes: Sequence[int]) -> api.TopologyInfo | None:
    # The kubelet reads an empty TopologyInfo as a NUMA constraint that no node satisfies.
    nodes = [api.NUMANode(ID=node) for node in numa_nodes]
    return api.TopologyInfo(nodes=nodes) if nodes else None


def parsed(kind: type[_MessageT], request: bytes) -> _MessageT:
    """Return the message; raise InvalidCallError."""
    try:
        return kind.FromString(request)
    except DecodeError as error:
        raise InvalidCallError(f"{kind.__name__} cannot be parsed: {error}") from error


def allocation(containers: Iterable[ContainerEdits]) -> bytes:
    """Return the answer to Allocate: one entry for each container, in their order (ALL-2)."""
    answer = api.AllocateResponse()
    for edits in containers:
        response = answer.container_responses.add(envs=edits.env, annotations=edits.annotations)
        for mount in edits.mounts:
            response.mounts.add(
                host_path=mount.host_path,
                container_path=mount.container_path,
                read_only=mount.read_only,
            )
        for device in edits.devices:
            response.devices.add(
                host_path=device.host_path,
                container_path=device.container_path,
                permissions=device.permissions,
            )
        for name in edits.cdi:
            response.cdi_devices.add(name=name)
    return answer.SerializeToString()


def preferred_allocation(
    request: bytes, devices: DeviceList, preference: Preference, *, replicas: int
) -> bytes:
    """Return the answer with the preferred IDs for each container; raise DecodeError."""
    spots = {name: listed.device.spot for name, listed in devices.devices.items()}
    unhealthy = {
        share
        for listed in devices.devices.values()
        for share in (listed.withheld if listed.is_healthy else listed.device.shares)
    }
    response = api.PreferredAllocationResponse()
    for container in api.PreferredAllocationRequest.FromString(request).container_requests:
        available, must = _healthy_first(container, unhealthy)
        size = container.allocation_size
        chosen = preferred_ids(available, must, size, spots, preference, replicas=replicas)
        response.container_responses.add(deviceIDs=chosen)
    return response.SerializeToString()


def _healthy_first(
    container: api.ContainerPreferredAllocationRequest, unhealthy: Collection[str]
) -> tuple[Collection[str], Collection[str]]:
    """Return the IDs to choose from and those that must be chosen: only healthy ones if there are
    enough.

    The kubelet may not know yet that a device is Unhealthy, and Allocate would refuse it.
    """
    available, must = container.available_deviceIDs, container.must_include_deviceIDs
    healthy = {share for share in available if share not in unhealthy}.union(must)
    enough = len(healthy) >= container.allocation_size
    return (healthy, must) if enough else (available, healthy)
