"""Locations of devices (PCI, USB, NUMA nodes, IOMMU groups) and distances between them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

from genericdp.devices.hardware import lineage, numa_node_of
from genericdp.devices.inventory import natural_key
from genericdp.glob import escape
from genericdp.template import UnusableValueError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from genericdp.devices.inventory import Host, SysDevice
    from genericdp.model import Resource
    from genericdp.template import Lookup

BusPath = tuple[str, ...]
"""The root complex, then the PCI functions, USB hubs and ports down to a device."""

_HOP = re.compile(
    r"/(?:(?P<root>pci[0-9a-f]{4,8}:[0-9a-f]{2})"
    r"|(?P<function>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
    r"|(?P<hub>usb[0-9]+)"
    r"|(?P<port>[0-9]+-[0-9]{1,3}(?:\.[0-9]{1,3})*))(?=/|$)"
)
_PORT_AND_CARD = 2
"""Below the upstream port of a PCI switch: the downstream port, and what is plugged in there."""
_VIRTUAL = "/sys/devices/virtual/"
_CONTROLLER = re.compile(r"nvme[0-9]+")
_VFIO_GROUP = re.compile(r"(?:noiommu-)?([0-9]{1,9})")
"""Names of the nodes in ``/dev/vfio``; ``vfio`` itself is a control node."""
_PCI_BRIDGE = "0x06"
_MAX_LAYERS = 256
"""Virtual devices whose hardware is below them: a volume group may use many disks."""


class Distance(IntEnum):
    """The distance between two devices.

    Each is twice the one before, so that four devices in two pairs on one socket are closer than
    three on a switch and one on the other socket.
    """

    DEVICE = 0
    """The same PCI function or USB device, functions of one PCI slot, or an equal closeness."""
    SWITCH = 1
    """One PCI switch or bridge, or one USB hub, that both are attached to."""
    SWITCHES = 2
    """A common switch or hub, with others in between; one USB controller."""
    ROOT = 4
    """One root complex; for USB without PCI: one controller's parent."""
    NUMA_NODE = 8
    OTHER = 16


@dataclass(frozen=True, kw_only=True)
class Spot:
    """The location of a device."""

    syspaths: tuple[str, ...] = ()
    """The bus paths of its members' hardware; for a VFIO group, those of its PCI functions."""
    numa_nodes: tuple[int, ...] = ()
    """The NUMA nodes, without -1, which means that there is none (LAW-8)."""
    closeness: str | None = None
    """Devices with an equal text are as close as one device: a link that sysfs does not show."""

    @cached_property
    def bus_paths(self) -> frozenset[BusPath]:
        """The bus paths of all members."""
        return frozenset(map(bus_path, self.syspaths))


NOWHERE = Spot()


def bus_path(syspath: str) -> BusPath:
    """Return the last PCI root's path, then the bridges, functions, hubs and ports below it.

    Without PCI or USB above the device, only its own syspath, which is unique.
    """
    hops: list[str] = []
    start, on_usb = 0, False
    for found in _HOP.finditer(syspath):
        kind = found.lastgroup
        if kind == "root":
            hops.clear()  # a root complex behind a PCI function (VMD) has ports of its own
            continue
        on_usb = on_usb or kind == "hub"
        if kind == "port" and not on_usb:
            continue  # I2C devices have such names, too
        if not hops:
            start = found.start()
        hops.append(found[0][1:])
    return (syspath[:start], *hops) if hops else (syspath,)


def distance(spot: Spot, other: Spot) -> Distance:
    """Return the distance between two devices: that of the closest members."""
    if spot.closeness and spot.closeness == other.closeness:
        return Distance.DEVICE
    least = Distance.OTHER
    for mine in spot.bus_paths:
        for path in other.bus_paths:
            if mine[0] == path[0]:
                least = min(least, _below_one_root(mine, path))
    if least > Distance.NUMA_NODE and not set(spot.numa_nodes).isdisjoint(other.numa_nodes):
        return Distance.NUMA_NODE
    return least


def _below_one_root(path: BusPath, other: BusPath) -> Distance:
    """Compare what is below the nearest common ancestor.

    One step down a PCI bus is one function, and each switch is two of them (upstream and
    downstream port); one step down a USB bus is one hub or device.
    """
    shared = 0
    for mine, theirs in zip(path, other, strict=False):
        if mine != theirs:
            break
        shared += 1
    below, beside = path[shared:], other[shared:]
    if below == beside or _one_slot(below, beside):
        return Distance.DEVICE
    if shared == 1:
        return Distance.ROOT
    if _is_attached(below) and _is_attached(beside):
        return Distance.SWITCH
    return Distance.SWITCHES


def _one_slot(below: BusPath, beside: BusPath) -> bool:
    if len(below) != 1 or len(beside) != 1 or ":" not in below[0]:
        return False
    return below[0].rpartition(".")[0] == beside[0].rpartition(".")[0]


def _is_attached(below: BusPath) -> bool:
    """Check that no other switch or hub is between the device and the one above it."""
    on_pci = all(":" in hop for hop in below)
    return len(below) <= (_PORT_AND_CARD if on_pci else 1)


def spot_of(members: Sequence[SysDevice], host: Host, closeness: str | None = None) -> Spot:
    """Return the location of a device with these members.

    ``closeness`` is the value that names links which sysfs does not show.
    """
    if not members and not closeness:
        return NOWHERE
    hardware = {
        hardware_device.syspath: hardware_device
        for member in members
        for hardware_device in hardware_below(member, host)
    }
    nodes = {numa_node_of(hardware_device, host) for hardware_device in hardware.values()}
    return Spot(
        syspaths=tuple(hardware),
        numa_nodes=tuple(sorted(node for node in nodes if node is not None)),
        closeness=closeness or None,
    )


def closeness(resource: Resource, lookups: Iterable[Lookup]) -> str | None:
    """Return the closeness value of a device; None if its members differ."""
    if resource.closeness is None:
        return None
    try:
        texts = {lookup("value", resource.closeness) or None for lookup in lookups}
    except UnusableValueError:
        return None
    return texts.pop() if len(texts) == 1 else None


def hardware_below(device: SysDevice, host: Host) -> tuple[SysDevice, ...]:
    """Return the device itself unless it is virtual; else the hardware below it, in natural order.

    These are the functions in the group of a VFIO node, and the disks or controllers below a block
    device (``dm``, ``md``, a partition of them, a multipath NVMe disk). A virtual device without
    any is returned itself.
    """
    seen: dict[str, SysDevice] = {}
    for parent in (pending := [device]):
        if parent.syspath not in seen and len(seen) < _MAX_LAYERS:
            seen[parent.syspath] = parent
            pending += backing_devices(parent, host) if parent.syspath.startswith(_VIRTUAL) else ()
    found = (syspath for syspath in seen if not syspath.startswith(_VIRTUAL))
    return tuple(seen[syspath] for syspath in sorted(found, key=natural_key)) or (device,)


def backing_devices(device: SysDevice, host: Host) -> Sequence[SysDevice]:
    """Return the devices directly below a block device or a VFIO node; nothing if it is
    hardware.
    """
    if device.subsystem == "vfio":
        group = group_number(device.name)
        return () if group is None else functions_of(group, host)
    if device.subsystem != "block":
        return ()
    for ancestor in lineage(device, host):
        if ancestor.subsystem == "block" and (
            slaves := _linked(ancestor.syspath, "slaves/*", host)
        ):
            return slaves
        if ancestor.subsystem == "nvme-subsystem":
            beside = _linked(ancestor.syspath, "nvme*", host)
            return [other for other in beside if _CONTROLLER.fullmatch(other.name)]
    return ()


def _linked(directory: str, links: str, host: Host) -> list[SysDevice]:
    """Return the devices that links in a directory lead to."""
    targets = (host.realpath(path) for path in host.paths(f"{escape(directory)}/{links}"))
    found = (host.device(target) for target in targets if target is not None)
    return [device for device in found if device is not None]


def group_number(name: str) -> str | None:
    """Return the IOMMU group that a node of ``/dev/vfio`` is for, if it is for one."""
    found = _VFIO_GROUP.fullmatch(name)
    return None if found is None else found[1]


def functions_of(group: str, host: Host) -> tuple[SysDevice, ...]:
    """Return the functions of an IOMMU group without its bridges, which may keep their drivers."""
    found = _linked(f"/sys/kernel/iommu_groups/{group}", "devices/*", host)
    return tuple(device for device in found if not _is_bridge(device, host))


def _is_bridge(device: SysDevice, host: Host) -> bool:
    kind = host.attribute(device.syspath, "class") if device.subsystem == "pci" else None
    return kind is not None and kind.startswith(_PCI_BRIDGE)
