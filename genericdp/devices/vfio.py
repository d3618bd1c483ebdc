"""IOMMU groups, as VFIO gives them to a container: all functions of one, or none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genericdp.devices.sysdevice import Facts, SysDevice

_GROUP_NODE = re.compile(r"(?:noiommu-)?([0-9]{1,9})")
"""Names of the nodes in ``/dev/vfio``; ``vfio`` itself is a control node."""
_BRIDGE = "0x06"


def group_number(name: str) -> str | None:
    """Give the IOMMU group that a node of ``/dev/vfio`` is for, if it is for one."""
    found = _GROUP_NODE.fullmatch(name)
    return None if found is None else found[1]


def functions_of(group: str, facts: Facts) -> tuple[SysDevice, ...]:
    """Give what is in an IOMMU group without its bridges, which no driver has to give up."""
    found = (
        facts.device(target)
        for path in facts.paths(f"/sys/kernel/iommu_groups/{group}/devices/*")
        if (target := facts.target(path)) is not None
    )
    return tuple(one for one in found if one is not None and not _is_bridge(one, facts))


def _is_bridge(device: SysDevice, facts: Facts) -> bool:
    kind = facts.attribute(device.syspath, "class") if device.subsystem == "pci" else None
    return kind is not None and kind.startswith(_BRIDGE)
