"""What a policy says of a device, now that its paths are known and where they lead."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp import policy as bounds
from genericdp.devices.sysdevice import PathTarget
from genericdp.model import FileType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from genericdp.devices.device import Device, MountPoint
    from genericdp.devices.inventory import FoundFile
    from genericdp.policy import Policy

    Find = Callable[[str], FoundFile | None]
    Lead = Callable[[str], PathTarget]

_OF_OTHERS = ("/sys/fs/", "/sys/kernel/")
"""Where other filesystems are mounted: in one for BPF, users may make links."""


def is_kernels_own(path: str) -> bool:
    """Return whether only the kernel makes links on the way to a path, none of which leads out."""
    return path.startswith("/sys/") and not path.startswith(_OF_OTHERS)


def why_refused(device: Device, find: Find, lead: Lead) -> str:
    """Return what of a device must not be handed out; empty: nothing.

    ``find`` gives what there is at a path of the host, or None; ``lead`` where a path leads,
    also where there is nothing. Without a policy, only links are judged.
    """
    policy = device.policy
    refusals = [_mount_refusal(policy, mount, lead) for mount in device.mounts]
    if policy is not None:
        refusals += _beyond(policy, device, find)
    return next(filter(None, refusals), "")


def _beyond(policy: Policy, device: Device, find: Find) -> Iterator[str]:
    for path in (node.host_path for node in device.nodes):
        if (file := find(path)) is None:
            yield f"{path} does not exist"
        else:
            is_block = file.type is FileType.BLOCK
            yield bounds.node_refusal(policy, path, file.target, block=is_block)
    for name in device.cdi:
        yield bounds.name_refusal(policy.cdi, bounds.cdi_kind(name))
    for key, templates in device.annotations.items():
        for template in templates if bounds.asks_for_cdi(key) else ():
            if not bounds.allows_cdi(policy, template):
                yield f"{key}: {str(template)!r} is not allowed ({policy.cdi.says})"


def _mount_refusal(policy: Policy | None, mount: MountPoint, lead: Lead) -> str:
    path = mount.host_path
    way = lead(path.rstrip("/") or "/")  # of a folder with or without a slash at its end
    if policy is not None and (
        refusal := bounds.mount_refusal(policy, path, way.target, read_only=mount.read_only)
    ):
        return refusal
    return f"{path} must not be mounted: {way.trouble}" if way.trouble else ""


def readable_way(policy: Policy | None, path: str, lead: Lead) -> PathTarget:
    """Return where a file to be read lies; its trouble says why it must not be read.

    What is read must be at the target itself, since a link may be redirected meanwhile.
    """
    if is_kernels_own(path):
        way = PathTarget(target=path)
    else:
        way = lead(path)
        if way.trouble:
            way = replace(way, trouble=f"{path} must not be read: {way.trouble}")
    if policy is None:
        return way
    refusal = bounds.file_refusal(policy, path, way.target)
    return replace(way, trouble=refusal or way.trouble)
