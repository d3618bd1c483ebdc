"""The one file that survives a restart of the kubelet (CKP-1)."""

from __future__ import annotations

import base64
import json
import logging
import secrets
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as pb
from genericdp.simulator.allocations import Allocation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

FILE_NAME = "kubelet_internal_checkpoint"

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """What the kubelet remembers."""

    allocations: tuple[Allocation, ...] = ()
    registered: Mapping[str, Collection[str]]
    """The healthy ids of each resource; only the names are used after a restart."""


class Writer:
    """Writes the file, again and again; what has not changed meanwhile is not encoded again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._encoded: dict[str, tuple[Collection[str], str]] = {}
        """The ids of each resource as they were, and as they are in the file."""

    def write(self, checkpoint: Checkpoint) -> None:
        """Replace the file; ids are told apart by being other objects."""
        entries = json.dumps([_entry(allocation) for allocation in checkpoint.allocations])
        registered = ", ".join(
            f"{json.dumps(name)}: {self._ids(name, ids)}"
            for name, ids in checkpoint.registered.items()
        )
        _replace(
            self._folder,
            f'{{"PodDeviceEntries": {entries}, "RegisteredDevices": {{{registered}}}}}',
        )

    def _ids(self, name: str, ids: Collection[str]) -> str:
        known = self._encoded.get(name)
        if known is None or known[0] is not ids:
            known = self._encoded[name] = ids, json.dumps(sorted(ids))
        return known[1]


def _replace(folder: Path, data: str) -> None:
    """Put data in the place of the file; a folder that is gone is logged, as the kubelet does.

    The checksum is not the kubelet's, which hashes Go's own printing of the data.
    """
    text = f'{{"Data": {data}, "Checksum": {zlib.crc32(data.encode())}}}'
    # The kubelet's name for it: plugins that watch the folder see it come and go (KST-5).
    temporary = folder / f".{secrets.randbelow(10**9)}"
    try:
        temporary.touch(mode=0o600)
        temporary.write_text(text, encoding="utf-8")
        temporary.rename(folder / FILE_NAME)
    except OSError as error:
        log.warning("cannot write the checkpoint: %s", error)


def read(folder: Path) -> Checkpoint | None:
    """Give what the file says; None if there is none."""
    try:
        text = (folder / FILE_NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    data = json.loads(text)["Data"]
    return Checkpoint(
        allocations=tuple(_allocation(entry) for entry in data["PodDeviceEntries"] or ()),
        registered={name: tuple(ids) for name, ids in data["RegisteredDevices"].items()},
    )


def _entry(allocation: Allocation) -> dict[str, Any]:
    return {
        "PodUID": allocation.pod_uid,
        "ContainerName": allocation.container,
        "ResourceName": allocation.resource,
        "DeviceIDs": {str(numa): list(ids) for numa, ids in allocation.ids_by_numa.items()},
        "AllocResp": base64.b64encode(allocation.response.SerializeToString()).decode(),
    }


def _allocation(entry: dict[str, Any]) -> Allocation:
    response = base64.b64decode(entry["AllocResp"])
    return Allocation(
        pod_uid=entry["PodUID"],
        container=entry["ContainerName"],
        resource=entry["ResourceName"],
        ids_by_numa={int(numa): tuple(ids) for numa, ids in entry["DeviceIDs"].items()},
        response=pb.ContainerAllocateResponse.FromString(response),
    )
