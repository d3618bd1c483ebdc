"""Restrictions: what the policy, or an unsafe link, keeps from being given away or read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp.devices.inventory import PathTarget, is_kernels_own
from genericdp.model import FileType

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.devices.device import Device
    from genericdp.devices.inventory import FoundFile
    from genericdp.policy import Policy

    Find = Callable[[str], FoundFile | None]
    FindTarget = Callable[[str], PathTarget]


def device_refusal(device: Device, find: Find, mount_target: FindTarget) -> str:
    """Return why something of a device must not be given to containers; empty: all of it may.

    ``find`` gives what there is at a path of the host, or None; ``mount_target`` where a path
    leads, also where there is nothing. Without a policy, only links are checked.
    """
    policy = device.policy
    refusals = []
    for mount in device.mounts:
        path = mount.host_path
        found = mount_target(path.rstrip("/") or "/")  # a folder may have a slash at its end
        if policy is not None:
            refusals.append(policy.mount_refusal(path, found.target, read_only=mount.read_only))
        refusals.append(found.refusal and f"{path} must not be mounted: {found.refusal}")
    if policy is not None:
        for path in (node.host_path for node in device.nodes):
            if (file := find(path)) is None:
                refusals.append(f"{path} does not exist")
            else:
                is_block = file.type is FileType.BLOCK
                refusals.append(policy.node_refusal(path, file.target, block=is_block))
        refusals += map(policy.cdi_refusal, device.cdi)
    return next(filter(None, refusals), "")


def file_to_read(policy: Policy | None, path: str, target_of: FindTarget) -> PathTarget:
    """Return where a file that the config names lies, with the refusal if it must not be read.

    What is read must be at the target itself, since a link may be redirected meanwhile.
    """
    if is_kernels_own(path):
        found = PathTarget(target=path)
    else:
        found = target_of(path)
        if found.refusal:
            found = replace(found, refusal=f"{path} must not be read: {found.refusal}")
    if policy is None:
        return found
    refusal = policy.file_refusal(path, found.target)
    return replace(found, refusal=refusal or found.refusal)
