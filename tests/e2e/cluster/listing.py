"""The lists of the kubelet: its checkpoint, and its pod-resources service (PRS-1, CKP-1)."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc
from genericdp.kubelet.api import podresources_pb2 as pb
from genericdp.kubelet.api import podresources_pb2_grpc as rpc

from tests.e2e.cluster.sweep import DEVICE_PLUGINS
from tests.e2e.cluster.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

CHECKPOINT = DEVICE_PLUGINS / "kubelet_internal_checkpoint"
_LIST = re.compile(
    'Processed device updates for resource" resourceName="(.+?)" totalCount=(.+?) healthyCount=(.+)'
)

Ids = dict[str, frozenset[str]]
"""Resource → ids of its devices."""


def registered() -> Ids:
    """Give the healthy devices of the checkpoint, which is written at every list."""
    if not CHECKPOINT.exists():
        return {}
    devices = json.loads(CHECKPOINT.read_text())["Data"]["RegisteredDevices"] or {}
    return {resource: frozenset(ids or ()) for resource, ids in devices.items()}


def lists(kubelet_log: str, resource: str) -> list[tuple[int, int]]:
    """Give how many devices, and how many healthy ones, each list of a resource has had."""
    found = _LIST.findall(kubelet_log)
    return [(int(total), int(healthy)) for name, total, healthy in found if name == resource]


class PodResources:
    """A client of the service."""

    def __init__(self, node_directory: Path) -> None:
        self.socket = node_directory / "kubelet/pod-resources/kubelet.sock"

    def allocatable(self, *, wait: bool = True) -> Ids:
        """Give the healthy devices, allocated ones too.

        ``wait``: for a kubelet that is not there yet. Otherwise raises grpc.RpcError.
        """
        with self._stub() as stub:
            answer = stub.GetAllocatableResources(
                pb.AllocatableResourcesRequest(), timeout=PATIENCE_SECONDS, wait_for_ready=wait
            )
        return _ids(answer.devices)

    def held(self, pod: str) -> Ids:
        """Give the devices of a pod's containers."""
        with self._stub() as stub:
            answer = stub.List(
                pb.ListPodResourcesRequest(), timeout=PATIENCE_SECONDS, wait_for_ready=True
            )
        pods = (found for found in answer.pod_resources if found.name == pod)
        return _ids(
            device for found in pods for each in found.containers for device in each.devices
        )

    @contextmanager
    def _stub(self) -> Iterator[rpc.PodResourcesListerStub]:
        options = [("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"unix:{self.socket}", options=options) as channel:
            yield rpc.PodResourcesListerStub(channel)


def _ids(entries: Iterable[pb.ContainerDevices]) -> Ids:
    """Join entries: the kubelet gives one for each resource and NUMA node."""
    found: Ids = {}
    for entry in entries:
        known = found.get(entry.resource_name, frozenset())
        found[entry.resource_name] = known | set(entry.device_ids)
    return found
