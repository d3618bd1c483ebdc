"""Conversion between the model and the kubelet's protobuf messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from genericdp.devices.device import device_id_of
from genericdp.devices.devicelist import NOTHING
from genericdp.devices.preferred import preferred_ids
from genericdp.errors import InvalidCallError
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from genericdp.devices.device import ContainerEdits
    from genericdp.devices.devicelist import DeviceList
    from genericdp.model import Preference

VERSION = "v1beta1"
HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"


@dataclass(frozen=True, kw_only=True, slots=True)
class EncodedList:
    """The device list of a resource, and the bytes that the kubelet gets."""

    listed: DeviceList
    response: bytes
    """A serialized ListAndWatchResponse."""


NO_DEVICES = EncodedList(listed=NOTHING, response=b"")


def encode_list(devices: DeviceList) -> EncodedList:
    """Serialize the device list; for ten thousand devices this takes about 10 ms."""
    response = api.ListAndWatchResponse()
    has_topology = not devices.without_numa_node
    for listed in devices.devices.values():
        health = UNHEALTHY if listed.unhealthy else HEALTHY
        topology = None
        # The kubelet takes an empty TopologyInfo for a NUMA constraint that no node satisfies.
        if has_topology and listed.device.numa_nodes:
            nodes = [api.NUMANode(ID=node) for node in listed.device.numa_nodes]
            topology = api.TopologyInfo(nodes=nodes)
        for share in listed.device.shares:
            response.devices.add(ID=share, health=health, topology=topology)
    return EncodedList(listed=devices, response=response.SerializeToString())


def allocate_ids(request: bytes) -> tuple[tuple[str, ...], ...]:
    """Parse an AllocateRequest: the IDs for each container; raise InvalidCallError."""
    try:
        containers = api.AllocateRequest.FromString(request).container_requests
    except DecodeError as error:
        raise InvalidCallError(f"AllocateRequest cannot be parsed: {error}") from error
    return tuple(tuple(one.devices_ids) for one in containers)


def pre_start_ids(request: bytes) -> tuple[str, ...]:
    """Parse a PreStartContainerRequest: the container's IDs; raise InvalidCallError."""
    try:
        return tuple(api.PreStartContainerRequest.FromString(request).devices_ids)
    except DecodeError as error:
        raise InvalidCallError(f"PreStartContainerRequest cannot be parsed: {error}") from error


def allocation(containers: Iterable[ContainerEdits]) -> bytes:
    """Return the answer to Allocate: one entry for each container, in their order (ALL-2)."""
    responses = [_container(edits) for edits in containers]
    return api.AllocateResponse(container_responses=responses).SerializeToString()


def _container(edits: ContainerEdits) -> api.ContainerAllocateResponse:
    return api.ContainerAllocateResponse(
        envs=edits.env,
        mounts=[
            api.Mount(
                container_path=one.container_path,
                host_path=one.host_path,
                read_only=one.read_only,
            )
            for one in edits.mounts
        ],
        devices=[
            api.DeviceSpec(
                container_path=one.container_path,
                host_path=one.host_path,
                permissions=one.permissions,
            )
            for one in edits.devices
        ],
        annotations=edits.annotations,
        cdi_devices=[api.CDIDevice(name=name) for name in edits.cdi],
    )


def preferred_allocation(
    request: bytes, devices: DeviceList, preference: Preference, *, replicas: int
) -> bytes:
    """Return the answer with the preferred IDs for each container; raise DecodeError."""
    spots = {name: listed.device.spot for name, listed in devices.devices.items()}
    unhealthy = {name for name, listed in devices.devices.items() if listed.unhealthy}
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
    """Return the IDs to choose from and those that must be chosen: healthy ones if they suffice.

    The kubelet may not know yet that a device is Unhealthy, and Allocate would refuse it.
    """
    available, must = list(container.available_deviceIDs), list(container.must_include_deviceIDs)
    if not unhealthy:
        return available, must
    healthy = {share for share in available if device_id_of(share) not in unhealthy}
    healthy.update(must)
    enough = len(healthy) >= container.allocation_size
    return (healthy, must) if enough else (available, healthy)
