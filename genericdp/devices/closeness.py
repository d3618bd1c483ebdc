"""How far two devices sit from each other: the PCI and USB tree of sysfs, NUMA nodes, links."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum

Lineage = tuple[str, ...]
"""What a device sits on, from the root complex down to its PCI function or USB device."""

_HARDWARE = re.compile(
    r"/(?:(?P<root>pci[0-9a-f]{4,8}:[0-9a-f]{2})"
    r"|(?P<function>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
    r"|(?P<hub>usb[0-9]+)"
    r"|(?P<port>[0-9]+-[0-9]{1,3}(?:\.[0-9]{1,3})*))(?=/|$)"
)
_PORT_AND_CARD = 2
"""Below the upstream port of a PCI switch: the downstream port, and what is plugged in there."""


class Distance(IntEnum):
    """How far two devices sit from each other.

    Each counts twice the one before, so that four devices in two pairs on one socket are closer
    than three on a switch and one on the other socket.
    """

    DEVICE = 0
    """The same PCI function or USB device, functions of one PCI slot, or an equal closeness."""
    SWITCH = 1
    """One PCI switch or bridge, or one USB hub, that both are attached to."""
    SWITCHES = 2
    """A switch or hub above both, with more of them in between; one USB controller."""
    ROOT = 4
    """One root complex; for USB without PCI: one controller's parent."""
    NUMA_NODE = 8
    OTHER = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """Where a device sits."""

    syspaths: tuple[str, ...] = ()
    """Of its members, each of the hardware: that of the PCI function for a VFIO group."""
    numa_nodes: tuple[int, ...] = ()
    """Real ones only: -1 is none (LAW-8)."""
    closeness: str | None = None
    """Devices with an equal text are as close as one device: a link that sysfs does not show."""
    _lineages: tuple[Lineage, ...] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    @property
    def lineages(self) -> tuple[Lineage, ...]:
        """Those of all members, each once; kept once they are known."""
        known = self._lineages
        if known is None:
            known = tuple(sorted({lineage(syspath) for syspath in self.syspaths}))
            # No cached_property: it needs a dict, which takes 130 bytes of each device.
            object.__setattr__(self, "_lineages", known)
        return known


NOWHERE = Spot()


def lineage(syspath: str) -> Lineage:
    """Give what a device sits on: the last PCI root's path, then bridges, functions, hubs, ports.

    Without PCI or USB above it: only its own syspath, which is equal to no other's.
    """
    hops: list[str] = []
    start, on_usb = 0, False
    for found in _HARDWARE.finditer(syspath):
        kind = found.lastgroup
        if kind == "root":
            hops.clear()  # a root complex behind a PCI function (VMD) has ports of its own
            continue
        on_usb = on_usb or kind == "hub"
        if kind == "port" and not on_usb:
            continue  # I2C devices are called so, too
        if not hops:
            start = found.start()
        hops.append(found[0][1:])
    return (syspath[:start], *hops) if hops else (syspath,)


def distance(one: Spot, other: Spot) -> Distance:
    """Give how far two devices sit from each other: where their members come closest."""
    if one.closeness and one.closeness == other.closeness:
        return Distance.DEVICE
    least = Distance.OTHER
    for mine in one.lineages:
        for its in other.lineages:
            if mine[0] == its[0]:
                least = min(least, _between(mine, its))
    if least > Distance.NUMA_NODE and not set(one.numa_nodes).isdisjoint(other.numa_nodes):
        return Distance.NUMA_NODE
    return least


def _between(one: Lineage, other: Lineage) -> Distance:
    """Compare what is below the nearest common ancestor; the root complex is the same.

    One step down a PCI bus is one function, and each switch is two of them (upstream and
    downstream port); one step down a USB bus is one hub or device.
    """
    shared = 0
    for mine, its in zip(one, other, strict=False):
        if mine != its:
            break
        shared += 1
    below, beside = one[shared:], other[shared:]
    if below == beside or _one_slot(below, beside):
        return Distance.DEVICE
    if shared == 1:
        return Distance.ROOT
    if _is_attached(below) and _is_attached(beside):
        return Distance.SWITCH
    return Distance.SWITCHES


def _one_slot(below: Lineage, beside: Lineage) -> bool:
    if len(below) != 1 or len(beside) != 1 or ":" not in below[0]:
        return False
    return below[0].rpartition(".")[0] == beside[0].rpartition(".")[0]


def _is_attached(below: Lineage) -> bool:
    """Say whether there is no other switch or hub between the device and what it is below."""
    on_pci = all(":" in hop for hop in below)
    return len(below) <= (_PORT_AND_CARD if on_pci else 1)
