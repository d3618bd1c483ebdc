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
    from collections.abc import Mapping
    from pathlib import Path

FILE_NAME = "kubelet_internal_checkpoint"

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """What the kubelet remembers."""

    allocations: tuple[Allocation, ...] = ()
    registered: Mapping[str, tuple[str, ...]]
    """The healthy ids of each resource; only the names are used after a restart."""


def write(folder: Path, checkpoint: Checkpoint) -> None:
    """Replace the file; where the folder is gone that is logged, as the kubelet does.

    The checksum is not the kubelet's, which hashes Go's own printing of the data.
    """
    data = {
        "PodDeviceEntries": [_entry(allocation) for allocation in checkpoint.allocations],
        "RegisteredDevices": {name: list(ids) for name, ids in checkpoint.registered.items()},
    }
    checksum = zlib.crc32(json.dumps(data).encode())
    # The kubelet's name for it: plugins that watch the folder see it come and go (KST-5).
    temporary = folder / f".{secrets.randbelow(10**9)}"
    try:
        temporary.touch(mode=0o600)
        temporary.write_text(json.dumps({"Data": data, "Checksum": checksum}), encoding="utf-8")
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
