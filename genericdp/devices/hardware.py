"""The hardware that a device is or sits on: USB device, PCI function, platform device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.devices.natural import natural_key
from genericdp.devices.sysdevice import decimal

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.devices.sysdevice import Host, SysDevice

LINK_TYPES = {
    "1": "ether",
    "32": "infiniband",
    "65534": "none",
    "280": "can",
    "512": "ppp",
    "768": "tunnel",
    "769": "tunnel6",
    "772": "loopback",
    "776": "sit",
    "778": "gre",
    "801": "ieee80211",
    "803": "ieee80211_radiotap",
    "804": "ieee802154",
    "824": "netlink",
}
"""ARPHRD numbers of <linux/if_arp.h> to the names that udev and iproute2 use."""
LINK_NUMBERS = {name: number for number, name in LINK_TYPES.items()}

SCSI_SUBSYSTEMS = frozenset({"scsi_generic", "bsg", "block", "scsi_tape", "scsi_changer"})
"""Those whose nodes belong to one SCSI device, of the many behind a controller."""

_MOST_NODES = 1024


def is_usb_device(device: SysDevice) -> bool:
    """Say whether it is a USB device (not one of its interfaces)."""
    return device.subsystem == "usb" and device.devtype == "usb_device"


def is_usb_interface(device: SysDevice) -> bool:
    """Say whether it is an interface of a USB device."""
    return device.subsystem == "usb" and device.devtype == "usb_interface"


def is_pci_function(device: SysDevice) -> bool:
    """Say whether it is a PCI function."""
    return device.subsystem == "pci"


def is_scsi_device(device: SysDevice) -> bool:
    """Return whether it is a SCSI device: a disk, drive or tape, not its host or target."""
    return device.subsystem == "scsi" and device.devtype == "scsi_device"


def is_net_interface(device: SysDevice) -> bool:
    """Say whether it is a network interface."""
    return device.subsystem == "net"


def lineage(device: SysDevice, host: Host) -> tuple[SysDevice, ...]:
    """Give the device itself, then what it sits on, the nearest first."""
    return (device, *host.ancestors(device))


def nearest(device: SysDevice, host: Host, wanted: Callable[[SysDevice], bool]) -> SysDevice | None:
    """Give the nearest of the device and what it sits on that is as wanted."""
    for one in lineage(device, host):
        if wanted(one):
            return one
        if one.subsystem == "usb" and not one.devtype:
            return None  # its uevent could not be read: the hub above must not pass for it
        if not one.subsystem and host.trouble(f"{one.syspath}/subsystem"):
            return None
    return None


def driver_of(device: SysDevice, host: Host) -> str | None:
    """Give its driver, or that of the nearest ancestor that has one."""
    return next((one.driver for one in lineage(device, host) if one.driver), None)


def numa_node_of(device: SysDevice, host: Host) -> int | None:
    """Give the NUMA node of the nearest that has one, if it is online; -1 is none (LAW-8)."""
    for one in lineage(device, host):
        node = host.attribute(one.syspath, "numa_node")
        if node is not None and (number := decimal(node)) is not None:
            return number if number in online_nodes(host) else None
    return None


def online_nodes(host: Host) -> frozenset[int]:
    """Give the machine's NUMA nodes; the kernel lists them as ``0-1,4``."""
    nodes: set[int] = set()
    for part in (host.text("/sys/devices/system/node/online") or "").split(","):
        first, _, last = part.partition("-")
        lowest, highest = decimal(first), decimal(last or first)
        if lowest is not None and highest is not None:
            nodes.update(range(lowest, min(highest, _MOST_NODES) + 1))
    return frozenset(nodes)


def usb_part(usb: SysDevice, name: str, host: Host, *, sitting: SysDevice) -> SysDevice:
    """Return the device that has what ``usb_text`` gives: for an interface's number that one."""
    interface = nearest(sitting, host, is_usb_interface) if name == "interface" else None
    return interface or usb


def usb_text(usb: SysDevice, name: str, host: Host, *, sitting: SysDevice) -> str | None:
    """Give what a ``usb`` selector or template names; ``sitting`` is what sits on the device."""
    if name == "port":
        return usb.name
    if name == "interface":
        interface = nearest(sitting, host, is_usb_interface)
        if interface is None:
            return None
        return host.attribute(interface.syspath, "bInterfaceNumber")
    attribute = {
        "vendor": "idVendor",
        "product": "idProduct",
        "class": "bDeviceClass",
        "bus": "busnum",
        "number": "devnum",
    }.get(name, name)
    return host.attribute(usb.syspath, attribute)


def pci_text(pci: SysDevice, name: str, host: Host) -> str | None:
    """Give what a ``pci`` selector or template names."""
    if name == "address":
        return pci.name
    if name == "driver":
        return pci.driver or None
    if name == "function":
        return "physical" if host.link(f"{pci.syspath}/physfn") is None else "virtual"
    if name == "iommuGroup":
        return host.link(f"{pci.syspath}/iommu_group")
    attribute = {
        "subsystemVendor": "subsystem_vendor",
        "subsystemDevice": "subsystem_device",
    }.get(name, name)
    text = host.attribute(pci.syspath, attribute)
    return text and text.removeprefix("0x")


def net_text(net: SysDevice, name: str, host: Host) -> str | None:
    """Give what a ``net`` selector or template names."""
    if name == "name":
        return net.name
    if name == "driver":
        return driver_of(net, host)
    if name == "linkType":
        number = host.attribute(net.syspath, "type")
        return number and LINK_TYPES.get(number, number)
    return host.attribute(net.syspath, name)


def _is_place(device: SysDevice) -> bool:
    return device.subsystem == "platform" or is_pci_function(device) or device.subsystem == "usb"


def place_of(device: SysDevice, host: Host) -> SysDevice | None:
    """Give the USB interface (or device), PCI function or platform device that it sits on."""
    return next((one for one in host.ancestors(device) if _is_place(one)), None)


def function_of(device: SysDevice, host: Host) -> SysDevice | None:
    """Give the USB device, PCI function or platform device that it is or sits on."""

    def wanted(one: SysDevice) -> bool:
        return _is_place(one) and not is_usb_interface(one)

    return nearest(device, host, wanted)


def carrier_of(device: SysDevice, host: Host, subsystem: str) -> SysDevice | None:
    """Return the hardware whose nodes of a subsystem belong to a device.

    It is what ``function_of`` returns; of the nodes that SCSI devices have, the SCSI device that
    it is or sits on, if there is one.
    """
    if subsystem in SCSI_SUBSYSTEMS:
        for one in lineage(device, host):
            if one.subsystem == "scsi" and not one.devtype:
                return None  # its uevent could not be read: it must not pass for its controller
            if is_scsi_device(one):
                return one
    return function_of(device, host)


def place_name(device: SysDevice, host: Host) -> str | None:
    """Give the default id of what sits on hardware: it stays while the hardware stays there.

    A USB device or PCI function is called by its port or address. Others are called by the
    interface, function or platform device they sit on and their subsystem; from the second of
    that subsystem there on, with a rank. Only neighbours at the same place can shift it.
    """
    if is_usb_device(device) or is_pci_function(device):
        return device.name
    place = place_of(device, host)
    if place is None:
        return None
    name = f"{place.name}-{device.subsystem}"
    rank = _neighbours(device, place, host).index(device.syspath)
    return f"{name}.{rank}" if rank else name


def _neighbours(device: SysDevice, place: SysDevice, host: Host) -> list[str]:
    has_node = device.number is not None
    neighbours = [
        one.syspath
        for one in host.below(place.syspath, device.subsystem)
        if (one.number is not None) == has_node
        and (its := place_of(one, host)) is not None
        and its.syspath == place.syspath
    ]
    if device.syspath not in neighbours:
        neighbours.append(device.syspath)
    return sorted(neighbours, key=natural_key)
