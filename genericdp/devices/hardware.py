"""The hardware that a device is or sits on: USB device, PCI function, platform device."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.inventory import decimal
from genericdp.devices.natural import natural_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from genericdp.devices.inventory import Host, SysDevice
    from genericdp.model import Globs

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

FILES = {
    "usb.vendor": "idVendor",
    "usb.product": "idProduct",
    "usb.serial": "serial",
    "usb.class": "bDeviceClass",
    "usb.interface": "bInterfaceNumber",
    "usb.bus": "busnum",
    "usb.number": "devnum",
    "pci.vendor": "vendor",
    "pci.device": "device",
    "pci.subsystemVendor": "subsystem_vendor",
    "pci.subsystemDevice": "subsystem_device",
    "pci.class": "class",
    "pci.driver": "driver",
    "pci.function": "physfn",
    "pci.iommuGroup": "iommu_group",
    "net.linkType": "type",
    "net.address": "address",
    "udev.subsystem": "subsystem",
    "udev.devtype": "uevent",
    "udev.driver": "driver",
}
"""Where in a device's folder the answer to a condition stands."""

NOUNS = {
    "usb": "USB device",
    "pci": "PCI function",
    "net": "network interface",
    "udev": "sysfs device",
}
"""Of what kind a device is; a condition with such a key asks for no more."""
OF_UEVENT = ("udev.devtype", "udev.properties.")
"""Conditions whose answers stand in a file of several."""
_OF_LINEAGE = {"udev.driver", "net.driver"}

SCSI_SUBSYSTEMS = frozenset({"scsi_generic", "bsg", "block", "scsi_tape", "scsi_changer"})
"""Those whose nodes belong to one SCSI device, of the many behind a controller."""

_PIECE_SUBSYSTEMS = frozenset({"i2c", "mdev", "spi", "vdpa"})
"""Those whose devices are pieces of a function, each with nodes of its own."""
_I2C_ADAPTER = re.compile(r"i2c-\d+$")
_NAMESPACE = re.compile(r"(nvme|ng)(?P<controller>\d+)(c\d+)?n(?P<namespace>\d+)(p\d+)?$")

_MAX_NODES = 1024


def is_usb_device(device: SysDevice) -> bool:
    """Return whether it is a USB device (not one of its interfaces)."""
    return device.subsystem == "usb" and device.devtype == "usb_device"


def is_usb_interface(device: SysDevice) -> bool:
    """Return whether it is an interface of a USB device."""
    return device.subsystem == "usb" and device.devtype == "usb_interface"


def is_pci_function(device: SysDevice) -> bool:
    """Return whether it is a PCI function."""
    return device.subsystem == "pci"


def is_subfunction(device: SysDevice) -> bool:
    """Return whether it is a subfunction (SF) of a PCI function: ``mlx5_core.sf.2``."""
    return device.subsystem == "auxiliary" and device.name.split(".")[1:-1] == ["sf"]


def is_scsi_device(device: SysDevice) -> bool:
    """Return whether it is a SCSI device: a disk, drive or tape, not its host or target."""
    return device.subsystem == "scsi" and device.devtype == "scsi_device"


def is_net_interface(device: SysDevice) -> bool:
    """Return whether it is a network interface."""
    return device.subsystem == "net"


def lineage(device: SysDevice, host: Host) -> tuple[SysDevice, ...]:
    """Return the device itself, then what it sits on, the nearest first."""
    return (device, *host.ancestors(device))


def nearest(device: SysDevice, host: Host, wanted: Callable[[SysDevice], bool]) -> SysDevice | None:
    """Return the nearest of the device and what it sits on that is as wanted."""
    for one in lineage(device, host):
        if wanted(one):
            return one
        if one.subsystem == "usb" and not one.devtype:
            return None  # its uevent could not be read: the hub above must not pass for it
        if not one.subsystem and host.why_unreadable(f"{one.syspath}/subsystem"):
            return None
    return None


def driver_of(device: SysDevice, host: Host) -> str | None:
    """Return its driver, or that of the nearest ancestor that has one."""
    return next((one.driver for one in lineage(device, host) if one.driver), None)


def numa_node_of(device: SysDevice, host: Host) -> int | None:
    """Return the NUMA node of the nearest that has one, if it is online; -1 is none (LAW-8)."""
    for one in lineage(device, host):
        node = host.attribute(one.syspath, "numa_node")
        if node is not None and (number := decimal(node)) is not None:
            return number if number in online_nodes(host) else None
    return None


def online_nodes(host: Host) -> frozenset[int]:
    """Return the machine's NUMA nodes; the kernel lists them as ``0-1,4``."""
    nodes: set[int] = set()
    for part in (host.text("/sys/devices/system/node/online") or "").split(","):
        first, _, last = part.partition("-")
        lowest, highest = decimal(first), decimal(last or first)
        if lowest is not None and highest is not None:
            nodes.update(range(lowest, min(highest, _MAX_NODES) + 1))
    return frozenset(nodes)


BUSES: Mapping[str, Callable[[SysDevice], bool]] = {
    "usb": is_usb_device,
    "pci": is_pci_function,
    "net": is_net_interface,
}
"""What selectors and templates call the kinds of hardware, and how each is told."""


def source_device(
    kind: str, device: SysDevice, name: str, host: Host, sitting: SysDevice
) -> SysDevice:
    """Return the device that has what a selector asks of ``device`` under a key.

    This is ``device``, but for ``usb.interface`` the USB interface at or above ``sitting``.
    """
    of_interface = (kind, name) == ("usb", "interface")
    interface = nearest(sitting, host, is_usb_interface) if of_interface else None
    return interface or device


def text_of(kind: str, device: SysDevice, name: str, host: Host) -> str | None:
    """Return what a device has under a key of a selector, as ``usb``, ``vendor``; None: nothing.

    ``device`` is the one that ``source_device`` returns.
    """
    match kind, name:
        case "udev", _:
            return _udev_text(device, name, host)
        case ("usb", "port") | ("pci", "address") | ("net", "name"):
            return device.name
        case "pci", "driver":
            return device.driver or None
        case "net", "driver":
            return driver_of(device, host)
        case "pci", "iommuGroup":
            group = host.realpath(f"{device.syspath}/iommu_group")
            return group and group.rpartition("/")[2]
        case "pci", "function":
            return "physical" if host.realpath(f"{device.syspath}/physfn") is None else "virtual"
        case _:
            text = host.attribute(device.syspath, FILES[f"{kind}.{name}"])
            if name == "linkType":
                return text and LINK_TYPES.get(text, text)
            return text and text.removeprefix("0x") if kind == "pci" else text


def _udev_text(device: SysDevice, name: str, host: Host) -> str | None:
    what, _, key = name.partition(".")
    match what:
        case "properties":
            return device.properties.get(key)
        case "attributes":
            return host.attribute(device.syspath, key)
        case "subsystem":
            return device.subsystem or None
        case "devtype":
            return device.devtype or None
        case "name":
            return device.name
        case _:
            return driver_of(device, host)


def file_of(key: str, where: str) -> str:
    """Return the file that answers a condition, or an empty text."""
    key = key.removeprefix("hardware.")
    if key.startswith("udev.attributes."):
        return f"{where}/{key.removeprefix('udev.attributes.')}"
    return f"{where}/{FILES[key]}" if key in FILES else ""


def why_unread(key: str, where: str, host: Host) -> str:
    """Return what could not be read of what a condition asks; empty if everything could."""
    for file in _files_of(key, where, host):
        if why := host.why_unreadable(file):
            return f"{file} cannot be read: {why}"
    return host.why_unreadable(where) if "udev.properties." in key else ""


def _files_of(key: str, where: str, host: Host) -> Iterator[str]:
    """Yield the files that tell of a device, or of what it sits on, what a condition asks."""
    bare = key.removeprefix("hardware.")
    if bare in NOUNS or bare.startswith(OF_UEVENT) or bare in _OF_LINEAGE:
        device = host.device(where)
        devices = () if device is None else lineage(device, host)
        if bare in _OF_LINEAGE:
            for one in devices:
                yield f"{one.syspath}/driver"
                if one.driver:
                    return
        else:
            for one in devices if key != bare and bare in NOUNS else devices[:1]:
                yield f"{one.syspath}/uevent"
                yield f"{one.syspath}/subsystem"
    elif file := file_of(key, where):
        yield file


def _is_place(device: SysDevice) -> bool:
    return device.subsystem == "platform" or is_pci_function(device) or device.subsystem == "usb"


def place_of(device: SysDevice, host: Host) -> SysDevice | None:
    """Return the USB interface (or device), PCI function or platform device that it sits on."""
    return next((one for one in host.ancestors(device) if _is_place(one)), None)


def function_of(device: SysDevice, host: Host) -> SysDevice | None:
    """Return the USB device, PCI function or platform device that it is or sits on."""
    return nearest(device, host, lambda one: _is_place(one) and not is_usb_interface(one))


def nodes_nearby(
    device: SysDevice, host: Host, subsystem: str, names: Globs
) -> tuple[SysDevice, ...]:
    """Return the devices of a subsystem, called by any of ``names``, that belong to a device.

    They are those of the nearest device that has some: the device itself, then what it sits on, up
    to its function. What belongs to another piece of the function, as to another SCSI device,
    namespace or subfunction, is never among them.
    """
    own_pieces = _pieces(device, host)
    function = function_of(device, host)
    subfunction = nearest(device, host, is_subfunction)
    if function is None and not device.syspath.startswith("/sys/devices/virtual/"):
        return ()
    for holder in lineage(device, host):
        if holder.subsystem == "scsi" and not holder.devtype and subsystem in SCSI_SUBSYSTEMS:
            return ()  # its uevent could not be read: it may be a target of several devices
        found = [
            node
            for node in _at_or_below(holder, host, subsystem)
            if node.number is not None
            and (not names or glob.matches_any(names, node.name))
            and function_of(node, host) == function
            and nearest(node, host, is_subfunction) == subfunction
            and (holder == device or _pieces(node, host) <= own_pieces)
        ]
        # A node of the same subsystem looks for those beside it; only disks have others in them.
        if found and (found != [device] or subsystem == "block"):
            return tuple(found)
        is_whole = is_scsi_device(holder) and subsystem in SCSI_SUBSYSTEMS
        if is_whole or holder in (function, subfunction):
            break
    is_own = device.number is not None and device.subsystem == subsystem
    return (device,) if is_own and (not names or glob.matches_any(names, device.name)) else ()


def _at_or_below(device: SysDevice, host: Host, subsystem: str) -> tuple[SysDevice, ...]:
    itself = (device,) if device.subsystem == subsystem else ()
    return (*itself, *host.below(device.syspath, subsystem))


def _pieces(device: SysDevice, host: Host) -> frozenset[str]:
    """Return what a device is or sits on that its function has several of."""
    pieces = set[str]()
    for ancestor in lineage(device, host):
        # A SCSI device whose uevent cannot be read must not pass for a part of its controller.
        is_scsi = ancestor.subsystem == "scsi" and ancestor.devtype in {"", "scsi_device"}
        is_adapter = ancestor.subsystem == "i2c" and _I2C_ADAPTER.match(ancestor.name)
        if is_scsi or (ancestor.subsystem in _PIECE_SUBSYSTEMS and not is_adapter):
            pieces.add(ancestor.syspath)
        elif namespace := _NAMESPACE.match(ancestor.name):
            # Its block device and its character device share these two numbers, and no folder.
            pieces.add(f"namespace {namespace['controller']} {namespace['namespace']}")
    return frozenset(pieces)


def rank_name(device: SysDevice, host: Host) -> str | None:
    """Return the default ID that versions up to 0.1 gave a device; None: the kernel's name.

    From the second device of a subsystem at one place on, it ended in a rank among neighbors, so
    it could come to name other hardware. It serves to resolve IDs that pods held at an upgrade.
    """
    if is_usb_device(device) or is_pci_function(device):
        return device.name
    place = place_of(device, host)
    if place is None:
        return None
    has_node = device.number is not None
    neighbours = {device.syspath} | {
        one.syspath
        for one in host.below(place.syspath, device.subsystem)
        if (one.number is not None) == has_node
        and (its := place_of(one, host)) is not None
        and its.syspath == place.syspath
    }
    name = f"{place.name}-{device.subsystem}"
    rank = sorted(neighbours, key=natural_key).index(device.syspath)
    return f"{name}.{rank}" if rank else name
