"""Where a device sits: the hardware of its members, below what the kernel has made on top."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from genericdp.devices.closeness import NOWHERE, Spot
from genericdp.devices.hardware import lineage, numa_node_of
from genericdp.devices.vfio import functions_of, group_number
from genericdp.glob import escape
from genericdp.natural import natural_key
from genericdp.template import UnusableValueError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from genericdp.devices.sysdevice import Facts, SysDevice
    from genericdp.model import Resource
    from genericdp.template import Lookup

_VIRTUAL = "/sys/devices/virtual/"
_CONTROLLER = re.compile(r"nvme[0-9]+")
_MOST_LAYERS = 256
"""Virtual devices to look below: a volume group may stand on many disks."""


def spot_of(members: Sequence[SysDevice], facts: Facts, closeness: str | None = None) -> Spot:
    """Give where a device sits that is made of these members.

    ``closeness`` is the text of the value that tells of links which sysfs does not show.
    """
    if not members and not closeness:
        return NOWHERE
    hardware = {one.syspath: one for member in members for one in hardware_below(member, facts)}
    nodes = {numa_node_of(one, facts) for one in hardware.values()}
    return Spot(
        syspaths=tuple(hardware),
        numa_nodes=tuple(sorted(node for node in nodes if node is not None)),
        closeness=closeness or None,
    )


def closeness(resource: Resource, lookup: Lookup) -> str | None:
    """Give the text that says what a member is close to; None if it lacks it."""
    if resource.closeness is None:
        return None
    try:
        return lookup("value", resource.closeness) or None
    except UnusableValueError:
        return None


def agreed(texts: Iterable[str | None]) -> str | None:
    """Give the text that all members of a device have; None if they differ or one lacks it."""
    found = set(texts)
    return found.pop() if len(found) == 1 else None


def hardware_below(device: SysDevice, facts: Facts) -> tuple[SysDevice, ...]:
    """Give the device itself unless it is virtual; else what it stands on, in natural order.

    That is what is in the group of a VFIO node, and the disks or controllers below a block
    device (``dm``, ``md``, a partition of them, a multipath NVMe disk). A virtual device that
    stands on nothing is all there is.
    """
    found: dict[str, SysDevice] = {}
    seen: set[str] = set()
    pending = [device]
    while pending and len(seen) < _MOST_LAYERS:
        one = pending.pop()
        if one.syspath in seen:
            continue
        seen.add(one.syspath)
        if one.syspath.startswith(_VIRTUAL):
            pending += _directly_below(one, facts)
        else:
            found[one.syspath] = one
    return tuple(found[syspath] for syspath in sorted(found, key=natural_key)) or (device,)


def _directly_below(device: SysDevice, facts: Facts) -> Sequence[SysDevice]:
    if device.subsystem == "vfio":
        group = group_number(device.name)
        return () if group is None else functions_of(group, facts)
    if device.subsystem != "block":
        return ()
    for one in lineage(device, facts):
        if one.subsystem == "block" and (slaves := _led_to(one, "slaves/*", facts)):
            return slaves
        if one.subsystem == "nvme-subsystem":
            beside = _led_to(one, "nvme*", facts)
            return [other for other in beside if _CONTROLLER.fullmatch(other.name)]
    return ()


def _led_to(device: SysDevice, links: str, facts: Facts) -> list[SysDevice]:
    """Give the devices that links in its folder lead to."""
    targets = (facts.target(path) for path in facts.paths(f"{escape(device.syspath)}/{links}"))
    found = (facts.device(target) for target in targets if target is not None)
    return [one for one in found if one is not None]
