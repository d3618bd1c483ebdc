"""Which devices the kubelet picks for a container, step by step as its device manager does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as pb
from genericdp.simulator.affinity import aligned
from genericdp.simulator.goerrors import KubeletError

if TYPE_CHECKING:
    from collections.abc import Collection
    from random import Random

    from genericdp.simulator.manager import DeviceManager


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """What one container asks for of one resource."""

    pod_uid: str
    container: str
    resource: str
    amount: int


@dataclass(kw_only=True, slots=True)
class _Picked:
    """Ids taken so far; each is reserved at once."""

    reserved: set[str]
    missing: int
    ids: set[str] = field(default_factory=set)

    def take(self, ids: Collection[str]) -> bool:
        """Take what is there, in its order; say whether that was enough."""
        for device_id in ids:
            if self.missing and device_id not in self.ids:
                self.reserved.add(device_id)
                self.ids.add(device_id)
                self.missing -= 1
        return not self.missing


async def pick(
    manager: DeviceManager, need: Need, *, reusable: Collection[str], order: Random
) -> frozenset[str]:
    """Give the ids that Allocate is to be called with; none if the container has them already.

    The checks come in the kubelet's order, so that its first error is ours.
    """
    resource = need.resource
    held = manager.allocations.ids(need.pod_uid, need.container, resource)
    if held is not None and len(held) != need.amount:
        raise KubeletError(
            f'pod "{need.pod_uid}" container "{need.container}" changed request for resource'
            f' "{resource}" from {len(held)} to {need.amount}'
        )
    _check_health(manager, resource, held or frozenset())
    if held is not None or need.amount == 0:
        return frozenset()
    picked = _Picked(reserved=manager.reserved.setdefault(resource, set()), missing=need.amount)
    if reusable and picked.take(shuffled(reusable, order)):
        return frozenset(picked.ids)
    free = manager.devices.healthy[resource] - picked.reserved
    if len(free) < picked.missing:
        raise KubeletError(
            f"requested number of devices unavailable for {resource}."
            f" Requested: {picked.missing}, Available: {len(free)}"
        )
    await _choose(manager, need, picked, free=frozenset(free), order=order)
    return frozenset(picked.ids)


async def _choose(
    manager: DeviceManager, need: Need, picked: _Picked, *, free: frozenset[str], order: Random
) -> None:
    """Take aligned devices first; let the plugin choose where there is a choice (PRF-1)."""
    nodes = manager.affinities.get((need.pod_uid, need.container))
    sorts = aligned(free, manager.devices.listed(need.resource), nodes)
    remainder: tuple[frozenset[str], ...]
    if picked.missing < len(sorts.inside):
        offered, remainder = sorts.inside, (sorts.inside,)
    elif picked.take(shuffled(sorts.inside, order)):
        return
    else:
        offered, remainder = free, (sorts.elsewhere, sorts.nowhere)
    preferred = await _preferred(manager, need, free=offered, taken=picked.ids, order=order)
    # Too few preferred ones are made up for at random, of too many a random part is taken (PRF-3).
    for ids in (preferred & offered, *remainder):
        if picked.take(shuffled(ids, order)):
            return


def shuffled(ids: Collection[str], order: Random) -> list[str]:
    """Give ids in random order, the same for the same seed."""
    mixed = sorted(ids)
    order.shuffle(mixed)
    return mixed


def _check_health(manager: DeviceManager, resource: str, held: frozenset[str]) -> None:
    """Refuse what cannot be allocated, even if nothing is left to allocate (ALL-9)."""
    healthy = manager.devices.healthy.get(resource)
    if healthy is None:
        raise KubeletError(f"cannot allocate unregistered device {resource}")
    if not healthy:
        raise KubeletError(
            f"no healthy devices present; cannot allocate unhealthy devices {resource}"
        )
    if not held <= healthy:
        raise KubeletError(
            "previously allocated devices are no longer healthy;"
            f" cannot allocate unhealthy devices {resource}"
        )


async def _preferred(
    manager: DeviceManager, need: Need, *, free: frozenset[str], taken: set[str], order: Random
) -> frozenset[str]:
    """Ask the plugin which it would rather give, if it wants to be asked (PRF-1, PRF-2)."""
    endpoint = manager.endpoints.current.get(need.resource)
    if endpoint is None:
        text = f"endpoint not found in cache for a registered resource: {need.resource}"
        raise KubeletError(text)
    if endpoint.options is None or not endpoint.options.get_preferred_allocation_available:
        return frozenset()
    request = pb.ContainerPreferredAllocationRequest(
        available_deviceIDs=shuffled(free | taken, order),
        must_include_deviceIDs=shuffled(taken, order),
        allocation_size=need.amount,
    )
    manager.observed.call("GetPreferredAllocation", need.resource, request.available_deviceIDs)
    try:
        client = endpoint.live_client()
        response = await client.ask(
            client.plugin.GetPreferredAllocation(
                pb.PreferredAllocationRequest(container_requests=[request])
            )
        )
    except KubeletError as error:
        text = f"device plugin GetPreferredAllocation rpc failed with err: {error}"
        raise KubeletError(text) from None
    answers = response.container_responses
    return frozenset(answers[0].deviceIDs) if answers else frozenset()
