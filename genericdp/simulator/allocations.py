"""Which container holds which devices, with the answer it got for them; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.simulator.pods import Given

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as pb


@dataclass(frozen=True, kw_only=True, slots=True)
class Allocation:
    """What one container holds of one resource."""

    pod_uid: str
    container: str
    resource: str
    ids_by_numa: Mapping[int, tuple[str, ...]]
    """Under -1 are the devices without NUMA node."""
    response: pb.ContainerAllocateResponse
    """The plugin's answer, kept forever: each start of the container replays it (ALL-7)."""

    @property
    def ids(self) -> frozenset[str]:
        """The devices."""
        return frozenset(i for ids in self.ids_by_numa.values() for i in ids)


class Allocations:
    """All that is held; it says nothing about ids that are reserved without being held."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str, str], Allocation] = {}

    def __iter__(self) -> Iterator[Allocation]:
        return iter(tuple(self._held.values()))

    def insert(self, allocation: Allocation) -> None:
        """Note what a container got."""
        key = allocation.pod_uid, allocation.container, allocation.resource
        self._held[key] = allocation

    def of_container(self, pod_uid: str, container: str) -> tuple[Allocation, ...]:
        """Give what a container holds."""
        return tuple(a for a in self if (a.pod_uid, a.container) == (pod_uid, container))

    def ids(self, pod_uid: str, container: str, resource: str) -> frozenset[str] | None:
        """Give the ids that a container holds of a resource; None if it was never given any."""
        held = self._held.get((pod_uid, container, resource))
        return held.ids if held is not None else None

    def pods(self) -> set[str]:
        """Give the uids of all pods that hold something."""
        return {pod_uid for pod_uid, _, _ in self._held}

    def release(self, pod_uids: Collection[str]) -> None:
        """Forget what these pods hold."""
        self._held = {key: a for key, a in self._held.items() if a.pod_uid not in pod_uids}

    def by_resource(self) -> dict[str, set[str]]:
        """Give the ids that are held of each resource."""
        held: dict[str, set[str]] = {}
        for allocation in self:
            held.setdefault(allocation.resource, set()).update(allocation.ids)
        return held


def merged(responses: Iterable[pb.ContainerAllocateResponse]) -> Given:
    """Merge the answers for one container: what comes first stays, silently (ALL-6)."""
    devices: dict[str, tuple[str, str]] = {}
    mounts: dict[str, tuple[str, bool]] = {}
    env: dict[str, str] = {}
    annotations: dict[str, str] = {}
    cdi: dict[str, None] = {}
    for response in responses:
        for device in response.devices:
            devices.setdefault(device.container_path, (device.host_path, device.permissions))
        for mount in response.mounts:
            mounts.setdefault(mount.container_path, (mount.host_path, mount.read_only))
        for name, value in response.envs.items():
            env.setdefault(name, value)
        for name, value in response.annotations.items():
            annotations.setdefault(name, value)
        cdi.update((cdi_device.name, None) for cdi_device in response.cdi_devices)
    return Given(devices=devices, mounts=mounts, env=env, annotations=annotations, cdi=tuple(cdi))
