"""Between the model and the bytes on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.message import DecodeError

from genericdp.errors import InvalidCallError
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from genericdp.devices.device import ContainerEdits

VERSION = "v1beta1"
HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"

_DEVICES_TAG = b"\x0a"  # field 1 of ListAndWatchResponse, length-delimited


def listed_device(share: str, *, healthy: bool, numa_nodes: Iterable[int] = ()) -> bytes:
    """Give one device as it stands in a list; a list is nothing but these, joined."""
    nodes = [api.NUMANode(ID=node) for node in numa_nodes]
    topology = api.TopologyInfo(nodes=nodes) if nodes else None
    health = HEALTHY if healthy else UNHEALTHY
    body = api.Device(ID=share, health=health, topology=topology).SerializeToString()
    return _DEVICES_TAG + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def options(*, pre_start_required: bool = False, preferred_allocation: bool = False) -> bytes:
    """Give the answer to GetDevicePluginOptions."""
    return api.DevicePluginOptions(
        pre_start_required=pre_start_required,
        get_preferred_allocation_available=preferred_allocation,
    ).SerializeToString()


def registration(*, endpoint: str, resource: str, options: bytes) -> bytes:
    """Give the request that registers a socket; the options in it are for old kubelets (REG-7)."""
    return api.RegisterRequest(
        version=VERSION,
        endpoint=endpoint,
        resource_name=resource,
        options=api.DevicePluginOptions.FromString(options),
    ).SerializeToString()


def requested_ids(request: bytes) -> tuple[tuple[str, ...], ...]:
    """Take an AllocateRequest apart: the ids for each container; raises InvalidCallError."""
    try:
        parsed = api.AllocateRequest.FromString(request)
    except DecodeError as error:
        raise InvalidCallError(f"the request is no AllocateRequest: {error}") from error
    return tuple(tuple(container.devices_ids) for container in parsed.container_requests)


def started_ids(request: bytes) -> tuple[str, ...]:
    """Take a PreStartContainerRequest apart: the container's ids; raises InvalidCallError."""
    try:
        return tuple(api.PreStartContainerRequest.FromString(request).devices_ids)
    except DecodeError as error:
        raise InvalidCallError(f"the request is no PreStartContainerRequest: {error}") from error


class Wish(NamedTuple):
    """What the kubelet asks of GetPreferredAllocation for one container."""

    available: Sequence[str]
    """In random order, with those that must be among the answer (PRF-2)."""
    must: Sequence[str]
    size: int


def wishes(request: bytes) -> tuple[Wish, ...]:
    """Take a PreferredAllocationRequest apart; raises InvalidCallError."""
    try:
        parsed = api.PreferredAllocationRequest.FromString(request)
    except DecodeError as error:
        raise InvalidCallError(f"the request is no PreferredAllocationRequest: {error}") from error
    return tuple(
        Wish(one.available_deviceIDs, one.must_include_deviceIDs, one.allocation_size)
        for one in parsed.container_requests
    )


def allocation(containers: Iterable[ContainerEdits]) -> bytes:
    """Give the answer to Allocate: one entry for each container, in their order (ALL-2)."""
    return api.AllocateResponse(
        container_responses=[_container(edits) for edits in containers]
    ).SerializeToString(deterministic=True)


def _container(edits: ContainerEdits) -> api.ContainerAllocateResponse:
    return api.ContainerAllocateResponse(
        envs=edits.env,
        mounts=[
            api.Mount(
                container_path=mount.container_path,
                host_path=mount.host_path,
                read_only=mount.read_only,
            )
            for mount in edits.mounts
        ],
        devices=[
            api.DeviceSpec(
                container_path=node.container_path,
                host_path=node.host_path,
                permissions=node.permissions,
            )
            for node in edits.devices
        ],
        annotations=edits.annotations,
        cdi_devices=[api.CDIDevice(name=name) for name in edits.cdi],
    )


def preferred_allocation(containers: Iterable[Iterable[str]]) -> bytes:
    """Give the answer to GetPreferredAllocation: the preferred ids for each container."""
    return api.PreferredAllocationResponse(
        container_responses=[
            api.ContainerPreferredAllocationResponse(deviceIDs=ids) for ids in containers
        ]
    ).SerializeToString()
