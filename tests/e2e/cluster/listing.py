"""What the kubelet lists: its checkpoint, and its pod-resources service (PRS-1, CKP-1)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import grpc

from tests.e2e.cluster.sweep import DEVICE_PLUGINS
from tests.e2e.cluster.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHECKPOINT = DEVICE_PLUGINS / "kubelet_internal_checkpoint"
_LIST = re.compile(
    'Processed device updates for resource" resourceName="(.+?)" totalCount=(.+?) healthyCount=(.+)'
)
_SERVICE = "/v1.PodResourcesLister"
_LENGTH_DELIMITED = 2

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
    """A client of the service, for the few fields that matter here."""

    def __init__(self, node_folder: Path) -> None:
        self.socket = node_folder / "kubelet/pod-resources/kubelet.sock"

    def allocatable(self, *, wait: bool = True) -> Ids:
        """Give the healthy devices, allocated ones too.

        ``wait``: for a kubelet that is not there yet. Otherwise raises grpc.RpcError.
        """
        # In AllocatableResourcesResponse field 1 holds the devices.
        return _ids(_texts(self._call("GetAllocatableResources", wait=wait), 1))

    def held(self, pod: str) -> Ids:
        """Give the devices of a pod's containers."""
        # Field 1 of ListPodResourcesResponse holds the pods; of these field 1 is the name and 3
        # holds the containers, whose field 2 holds the devices.
        for entry in _texts(self._call("List"), 1):
            if next(_texts(entry, 1)).decode() == pod:
                return _ids(d for container in _texts(entry, 3) for d in _texts(container, 2))
        return {}

    def _call(self, method: str, *, wait: bool = True) -> bytes:
        options = [("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"unix:{self.socket}", options=options) as channel:
            call = channel.unary_unary(f"{_SERVICE}/{method}", _unchanged, _unchanged)
            answer: bytes = call(b"", timeout=PATIENCE_SECONDS, wait_for_ready=wait)
            return answer


def _unchanged(message: bytes) -> bytes:
    return message


def _ids(entries: Iterator[bytes]) -> Ids:
    """Join entries: the kubelet gives one for each resource and NUMA node."""
    found: Ids = {}
    # Of a ContainerDevices field 1 is the resource's name, and 2 holds the ids.
    for entry in entries:
        resource = next(_texts(entry, 1)).decode()
        ids = {text.decode() for text in _texts(entry, 2)}
        found[resource] = found.get(resource, frozenset()) | ids
    return found


def _texts(message: bytes, number: int) -> Iterator[bytes]:
    """Give the texts and messages of one field of an encoded protobuf message."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        value, at = _varint(message, at)
        if key & 7 == _LENGTH_DELIMITED:
            if key >> 3 == number:
                yield message[at : at + value]
            at += value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
