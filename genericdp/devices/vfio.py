"""IOMMU groups, as VFIO gives them to a container: all functions of one, or none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from genericdp.devices.device import Node
    from genericdp.devices.sysdevice import Host, SysDevice

_FOLDER = "/dev/vfio"
_GROUP_NODE = re.compile(r"(?:noiommu-)?([0-9]{1,9})")
"""Names of the nodes in ``/dev/vfio``; ``vfio`` itself is a control node."""
_BRIDGE = "0x06"


def group_number(name: str) -> str | None:
    """Give the IOMMU group that a node of ``/dev/vfio`` is for, if it is for one."""
    found = _GROUP_NODE.fullmatch(name)
    return None if found is None else found[1]


def functions_of(group: str, host: Host) -> tuple[SysDevice, ...]:
    """Give what is in an IOMMU group without its bridges, which no driver has to give up."""
    found = (
        host.device(target)
        for path in host.paths(f"/sys/kernel/iommu_groups/{group}/devices/*")
        if (target := host.target(path)) is not None
    )
    return tuple(one for one in found if one is not None and not _is_bridge(one, host))


def why_not_bound(nodes: Iterable[Node], host: Host, wanted: Iterable[str] = ()) -> str:
    """Say which PCI function keeps VFIO from giving away a group whose node is among these.

    Empty if every function of it, but for bridges, is bound to a driver of VFIO. A container
    could not open the group otherwise, and the host would go on using its other functions.
    ``wanted`` are paths of nodes that may not exist.
    """
    groups = [_group_of(node, host) for node in nodes]
    # Before all is bound there is no node yet: why not is what a person has to know.
    groups += (_group_of_path(path) for path in wanted)
    for group in dict.fromkeys(filter(None, groups)):
        for function in functions_of(group, host):
            if function.subsystem == "pci" and not function.driver.startswith("vfio"):
                driver = f"the driver {function.driver}" if function.driver else "no driver"
                return (
                    f"{function.name} of IOMMU group {group} has {driver}, all of the group need"
                    " vfio-pci"
                )
    return ""


def _group_of(node: Node, host: Host) -> str | None:
    """Give the IOMMU group of a node, by whatever link it came in."""
    syspath = node.identity.syspath
    device = None if syspath is None else host.device(syspath)
    if device is not None:
        return group_number(device.name) if device.subsystem == "vfio" else None
    return _group_of_path(node.host_path)


def _group_of_path(path: str) -> str | None:
    folder, _, name = path.rpartition("/")
    return group_number(name) if folder == _FOLDER else None


def _is_bridge(device: SysDevice, host: Host) -> bool:
    kind = host.attribute(device.syspath, "class") if device.subsystem == "pci" else None
    return kind is not None and kind.startswith(_BRIDGE)
