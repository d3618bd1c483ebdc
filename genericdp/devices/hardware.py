"""The hardware that a device is or is attached to: USB device, PCI function, platform device."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.inventory import decimal, natural_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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

OF_UEVENT = ("udev.devtype", "udev.properties.")
"""Keys whose values are in a file with several values."""

SCSI_SUBSYSTEMS = frozenset({"scsi_generic", "bsg", "block", "scsi_tape", "scsi_changer"})
"""Subsystems whose nodes belong to one SCSI device among those behind a controller."""

_PIECE_SUBSYSTEMS = frozenset({"i2c", "mdev", "spi", "vdpa"})
"""Subsystems whose devices are parts of a function, each with its own nodes."""
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
    """Return the device itself, then its parents, the nearest first."""
    return (device, *host.ancestors(device))


def nearest(device: SysDevice, host: Host, wanted: Callable[[SysDevice], bool]) -> SysDevice | None:
    """Return the nearest of the device and its parents that satisfies a predicate."""
    for ancestor in lineage(device, host):
        if wanted(ancestor):
            return ancestor
        if ancestor.subsystem == "usb" and not ancestor.devtype:
            return None  # its uevent could not be read: the hub above must not be mistaken for it
        if not ancestor.subsystem and host.why_unreadable(f"{ancestor.syspath}/subsystem"):
            return None
    return None


def driver_of(device: SysDevice, host: Host) -> str | None:
    """Return the driver of a device, or that of the nearest ancestor that has one."""
    return next((ancestor.driver for ancestor in lineage(device, host) if ancestor.driver), None)


def numa_node_of(device: SysDevice, host: Host) -> int | None:
    """Return the NUMA node of the nearest device that has one, if online; -1 means none (LAW-8)."""
    for ancestor in lineage(device, host):
        node = host.attribute(ancestor.syspath, "numa_node")
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


Ask = Callable[["SysDevice", "Host"], "str | None"]


@dataclass(frozen=True, slots=True)
class Key:
    """A hardware fact that selectors and templates can use."""

    file: str = ""
    """The file in the device's directory that has the value."""
    ask: Ask | None = None
    """How the value is found; None if it is the file's text."""
    prefix: str = ""
    """A prefix that is removed from the value."""
    interface: bool = False
    """Whether it belongs to the USB interface that a device is or is attached to."""
    hexadecimal: bool = False
    """Whether its values are hexadecimal numbers, which compare without case."""


def _name(device: SysDevice, _: Host) -> str:
    return device.name


def _iommu_group(device: SysDevice, host: Host) -> str | None:
    group = host.realpath(f"{device.syspath}/iommu_group")
    return group and group.rpartition("/")[2]


def _function(device: SysDevice, host: Host) -> str:
    return "physical" if host.realpath(f"{device.syspath}/physfn") is None else "virtual"


def _link_type(device: SysDevice, host: Host) -> str | None:
    text = host.attribute(device.syspath, "type")
    return text and LINK_TYPES.get(text, text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of hardware, as selectors and templates know it."""

    noun: str
    is_one: Callable[[SysDevice], bool]
    keys: Mapping[str, Key]
    single: tuple[str, ...]
    """Keys that together name a single device of a machine."""
    model: tuple[str, ...] = ()
    """The keys of vendor and product, if it is hardware that other devices are parts of."""
    shown: tuple[str, ...] = ()
    """Keys by which people recognize such hardware."""
    type_key: str = ""
    """The key that selects the device itself, and not the hardware that it is attached to."""
    has_node: bool = False
    """Whether it has a device file."""


KINDS: Mapping[str, Kind] = {
    "usb": Kind(
        noun="USB device",
        is_one=is_usb_device,
        keys={
            "vendor": Key("idVendor", hexadecimal=True),
            "product": Key("idProduct", hexadecimal=True),
            "serial": Key("serial"),
            "port": Key(ask=_name),
            "class": Key("bDeviceClass", hexadecimal=True),
            "interface": Key("bInterfaceNumber", interface=True, hexadecimal=True),
            "bus": Key("busnum"),
            "number": Key("devnum"),
        },
        single=("port",),
        model=("vendor", "product"),
        shown=("vendor", "product", "serial", "class"),
        has_node=True,
    ),
    "pci": Kind(
        noun="PCI function",
        is_one=is_pci_function,
        keys={
            "address": Key(ask=_name, hexadecimal=True),
            "vendor": Key("vendor", prefix="0x", hexadecimal=True),
            "device": Key("device", prefix="0x", hexadecimal=True),
            "subsystemVendor": Key("subsystem_vendor", prefix="0x", hexadecimal=True),
            "subsystemDevice": Key("subsystem_device", prefix="0x", hexadecimal=True),
            "class": Key("class", prefix="0x", hexadecimal=True),
            "driver": Key("driver", lambda device, _: device.driver or None),
            "function": Key("physfn", _function),
            "iommuGroup": Key("iommu_group", _iommu_group),
        },
        single=("address",),
        model=("vendor", "device"),
        shown=("vendor", "device", "class", "driver", "function", "iommuGroup"),
    ),
    "net": Kind(
        noun="network interface",
        is_one=is_net_interface,
        keys={
            "name": Key(ask=_name),
            "linkType": Key("type", _link_type),
            "driver": Key(ask=driver_of),
            "address": Key("address"),
        },
        single=("name",),
        type_key="linkType",
    ),
    "udev": Kind(
        noun="sysfs device",
        is_one=lambda _: True,
        keys={
            "subsystem": Key("subsystem", lambda device, _: device.subsystem or None),
            "devtype": Key("uevent", lambda device, _: device.devtype or None),
            "name": Key(ask=_name),
            "driver": Key("driver", driver_of),
        },
        single=("subsystem", "name"),
        has_node=True,
    ),
}
"""The kinds by the key that names the candidates. ``identity.py`` distinguishes devices at one
place.
"""
BUSES = {name: kind.is_one for name, kind in KINDS.items() if name != "udev"}
"""The names of the kinds of hardware, and of any device, with the test for each."""
HARDWARE = {name: kind for name, kind in KINDS.items() if kind.model}
"""The kinds that other devices are parts of."""


def kind_of(device: SysDevice) -> str:
    """Return the name of the kind of a device, which is that of its subsystem, or ``udev``."""
    kind = KINDS.get(device.subsystem)
    return device.subsystem if kind is not None and kind.is_one(device) else "udev"


def is_hardware(device: SysDevice) -> bool:
    """Return whether it is hardware that other devices are parts of."""
    return kind_of(device) in HARDWARE


def source_device(
    kind: str, device: SysDevice, name: str, host: Host, sitting: SysDevice
) -> SysDevice:
    """Return the device whose fact a selector compares for ``device`` under a key.

    This is ``device`` itself; for a key of USB interfaces, it is the interface at or above
    ``sitting``.
    """
    key = KINDS[kind].keys.get(name)
    of_interface = key is not None and key.interface
    interface = nearest(sitting, host, is_usb_interface) if of_interface else None
    return interface or device


def text_of(kind: str, device: SysDevice, name: str, host: Host) -> str | None:
    """Return the value of a device for a key of a selector, such as ``usb``, ``vendor``; None if it
    has none.

    ``device`` is the one that ``source_device`` returns.
    """
    what, _, inner = name.partition(".")
    if what == "properties":
        return device.properties.get(inner)
    if what == "attributes":
        return host.attribute(device.syspath, inner)
    key = KINDS[kind].keys[name]
    if key.ask is not None:
        return key.ask(device, host)
    text = host.attribute(device.syspath, key.file)
    return text and text.removeprefix(key.prefix)


def file_of(kind: str, name: str, where: str) -> str:
    """Return the file with the value for a key of a selector; empty if there is no such file."""
    what, _, inner = name.partition(".")
    key = KINDS[kind].keys.get(name, Key())
    file = inner if what == "attributes" else key.file
    return f"{where}/{file}" if file else ""


def why_unread(kind: str, name: str, device: SysDevice, host: Host, *, above: bool = False) -> str:
    """Return which file could not be read for a key of a selector; empty if all could be read.

    Without a name, the files are those that show whether the device is of the kind or, with
    ``above``, attached to such a device.
    """
    for file in _files_of(kind, name, device, host, above=above):
        if why := host.why_unreadable(file):
            return f"{file} cannot be read: {why}"
    return host.why_unreadable(device.syspath) if name.startswith("properties.") else ""


def _files_of(kind: str, name: str, device: SysDevice, host: Host, *, above: bool) -> Iterator[str]:
    """Yield the files of a device, or of its parents, that a selector reads."""
    key, file = KINDS[kind].keys.get(name), file_of(kind, name, device.syspath)
    if key is not None and key.ask is driver_of:
        for parent in lineage(device, host):
            yield f"{parent.syspath}/driver"
            if parent.driver:
                return
    elif (key is None and not file) or (key is not None and key.file == "uevent"):
        for parent in lineage(device, host) if above else (device,):
            yield f"{parent.syspath}/uevent"
            yield f"{parent.syspath}/subsystem"
    elif file:
        yield file


def _is_place(device: SysDevice) -> bool:
    return device.subsystem == "platform" or device.subsystem in HARDWARE


def place_of(device: SysDevice, host: Host) -> SysDevice | None:
    """Return the parent that is a USB interface (or device), PCI function or platform device."""
    return next((ancestor for ancestor in host.ancestors(device) if _is_place(ancestor)), None)


def function_of(device: SysDevice, host: Host) -> SysDevice | None:
    """Return the USB device, PCI function or platform device that it is or is attached to."""
    return nearest(
        device, host, lambda ancestor: _is_place(ancestor) and not is_usb_interface(ancestor)
    )


def nodes_nearby(
    device: SysDevice, host: Host, subsystem: str, names: Globs
) -> tuple[SysDevice, ...]:
    """Return the devices of a subsystem, called by any of ``names``, that belong to a device.

    They are those of the nearest device that has some: the device itself, then its parents, up to
    its function. They never belong to a different part of the function, such as another SCSI
    device, namespace or subfunction.
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
        # A node of the same subsystem requests its siblings; only disks contain others.
        if found and (found != [device] or subsystem == "block"):
            return tuple(found)
        is_last = is_scsi_device(holder) and subsystem in SCSI_SUBSYSTEMS
        if is_last or holder in (function, subfunction):
            break
    is_own = device.number is not None and device.subsystem == subsystem
    return (device,) if is_own and (not names or glob.matches_any(names, device.name)) else ()


def _at_or_below(device: SysDevice, host: Host, subsystem: str) -> tuple[SysDevice, ...]:
    itself = (device,) if device.subsystem == subsystem else ()
    return (*itself, *host.below(device.syspath, subsystem))


def _pieces(device: SysDevice, host: Host) -> frozenset[str]:
    """Return the device or parent that is one of several parts of its function."""
    pieces = set[str]()
    for ancestor in lineage(device, host):
        # A SCSI device whose uevent cannot be read must not be mistaken for a part of its
        # controller.
        is_scsi = ancestor.subsystem == "scsi" and ancestor.devtype in {"", "scsi_device"}
        is_adapter = ancestor.subsystem == "i2c" and _I2C_ADAPTER.match(ancestor.name)
        if is_scsi or (ancestor.subsystem in _PIECE_SUBSYSTEMS and not is_adapter):
            pieces.add(ancestor.syspath)
        elif namespace := _NAMESPACE.match(ancestor.name):
            # Its block device and its character device share these two numbers, and no directory.
            pieces.add(f"namespace {namespace['controller']} {namespace['namespace']}")
    return frozenset(pieces)


def rank_name(device: SysDevice, host: Host) -> str | None:
    """Return the default ID that versions up to 0.1 gave a device; None if it was the kernel's
    name.

    From the second device of a subsystem at one place on, it ended in a rank among neighbors, so it
    could later name other hardware. It resolves IDs that pods held at an upgrade.
    """
    if is_hardware(device):
        return device.name
    place = place_of(device, host)
    if place is None:
        return None
    has_node = device.number is not None
    neighbours = {device.syspath} | {
        child.syspath
        for child in host.below(place.syspath, device.subsystem)
        if (child.number is not None) == has_node
        and (child_place := place_of(child, host)) is not None
        and child_place.syspath == place.syspath
    }
    name = f"{place.name}-{device.subsystem}"
    rank = sorted(neighbours, key=natural_key).index(device.syspath)
    return f"{name}.{rank}" if rank else name
