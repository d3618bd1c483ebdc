"""The answer to GetPreferredAllocation: which of the free devices a container should get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.devices.preferred import preferred_ids
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from collections.abc import Collection

    from genericdp.devices.devicelist import DeviceList
    from genericdp.model import Preference


def preferred_allocation(
    request: bytes, offer: DeviceList, preference: Preference, *, replicas: int
) -> bytes:
    """Return the answer with the preferred IDs for each container; raise DecodeError."""
    spots = {name: one.device.spot for name, one in offer.devices.items()}
    unhealthy = {name for name, one in offer.devices.items() if one.unhealthy}
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
    healthy = {share for share in available if share.partition("::")[0] not in unhealthy}
    healthy.update(must)
    enough = len(healthy) >= container.allocation_size
    return (healthy, must) if enough else (available, healthy)
