"""What a policy says of a device, now that its paths are known and where they lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp import policy as bounds
from genericdp.model import FileType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from genericdp.devices.device import Device, MountPoint, Node
    from genericdp.devices.inventory import FoundFile, Way
    from genericdp.policy import Policy

    Find = Callable[[str], FoundFile | None]
    Lead = Callable[[str], Way]

_KERNELS_OWN = "/sys/"
"""Below it only the kernel makes links, and none leads out."""


def why_refused(device: Device, find: Find, lead: Lead) -> str:
    """Say what of a device its policy does not allow; empty: nothing.

    ``find`` gives what there is at a path of the host, or None; ``lead`` where a path leads,
    also where there is nothing.
    """
    policy = device.policy
    if policy is None:
        return ""
    reasons = (
        *(_node_refusal(policy, node, find) for node in device.nodes),
        *(_mount_refusal(policy, mount, lead) for mount in device.mounts),
        *(bounds.name_refusal(policy.cdi, bounds.cdi_kind(name)) for name in device.cdi),
        *_annotations_refusals(policy, device),
    )
    return next((reason for reason in reasons if reason), "")


def _node_refusal(policy: Policy, node: Node, find: Find) -> str:
    file = find(node.host_path)
    if file is None:
        return f"{node.host_path} does not exist"
    is_block = file.type is FileType.BLOCK
    return bounds.node_refusal(policy, node.host_path, file.target, block=is_block)


def _mount_refusal(policy: Policy, mount: MountPoint, lead: Lead) -> str:
    path = mount.host_path
    way = _way(path, lead)
    if refusal := bounds.mount_refusal(policy, path, way.target, read_only=mount.read_only):
        return refusal
    return f"{path} must not be mounted: {way.trouble}" if way.trouble else ""


def _way(path: str, lead: Lead) -> Way:
    """Give where a path leads: that of a folder with or without a slash at its end."""
    return lead(path.rstrip("/") or "/")


def _annotations_refusals(policy: Policy, device: Device) -> Iterator[str]:
    for key, templates in device.annotations.items():
        for template in templates if bounds.asks_for_cdi(key) else ():
            if not bounds.allows_cdi(policy, template):
                yield f"{key}: {str(template)!r} is not allowed ({policy.cdi.says})"


def file_refusal(policy: Policy | None, path: str, lead: Lead) -> str:
    """Say why a file must not be read for a config; empty: it may."""
    if policy is None:
        return ""
    if path.startswith(_KERNELS_OWN):
        return bounds.file_refusal(policy, path, path)
    way = _way(path, lead)
    if refusal := bounds.file_refusal(policy, path, way.target):
        return refusal
    return f"{path} must not be read: {way.trouble}" if way.trouble else ""
