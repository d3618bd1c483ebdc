"""Hardware identity: what a device is, and the default ID that follows from it.

An ID that counted a device's neighbors would name other hardware as soon as one of them came or
went. So only facts of the device itself distinguish devices at one place: ``_SUBSYSTEMS``
lists these facts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from genericdp import glob
from genericdp.devices.hardware import (
    HARDWARE,
    is_hardware,
    is_pci_function,
    is_scsi_device,
    is_usb_device,
    is_usb_interface,
    kind_of,
    lineage,
    nearest,
    place_of,
    text_of,
)
from genericdp.devices.inventory import natural_key
from genericdp.devices.topology import functions_of, group_number
from genericdp.jsonvalues import PAIRS
from genericdp.model import SysSelector, ValueKind
from genericdp.reasons import Code
from genericdp.template import UnusableValueError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from genericdp.devices.inventory import FoundFile, Host, Siblings, SysDevice
    from genericdp.model import Resource


class Nature(StrEnum):
    """The result of comparing the natures of two identities."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class HardwareIdentity:
    """The identity of a device: its place and its nature.

    It stays the same after a replug into the same port and after a reboot, whatever name, number
    and inode the kernel gives the device then.
    """

    location: str
    """Where the hardware is: a PCI address, a USB port of a controller, a platform device."""
    part: str = ""
    """The part of the hardware: interface, subsystem, and the facts that distinguish siblings."""
    unique: tuple[tuple[str, str], ...] = field(default=(), metadata={PAIRS: True})
    """Facts that no other hardware has, by kind, sorted: serial numbers, WWNs, UUIDs. Without such
    facts, the attributes in the ID of the config: `_DECLARED` and the name, with an empty string if
    the device has no such attribute.
    """
    model: str = ""
    """Vendor and product; empty if they are unknown, or if the config names several."""
    is_unreadable: bool = False
    """Whether a unique fact could not be read."""
    kernel_name: str = ""
    """The kernel's name, which counts only for devices that nothing else distinguishes."""
    is_ambiguous: bool = False
    """Whether another device had the same place when it was made, so that the name counts."""

    def __post_init__(self) -> None:
        if not self.location:
            raise ValueError("hardware has no place")

    @property
    def is_complete(self) -> bool:
        """Return whether every relevant fact could be read: a fact may appear later than its
        device.
        """
        return not self.is_unreadable and all(text for _, text in self.unique)

    @property
    def declared(self) -> tuple[str, ...]:
        """The attributes that count as unique facts because the config's ID consists of them."""
        kinds = (kind for kind, _ in self.unique if kind.startswith(_DECLARED))
        return tuple(kind.removeprefix(_DECLARED) for kind in kinds)

    def __str__(self) -> str:
        """Return a description for messages: its nature, then its place."""
        facts = ", ".join(f"{kind} {value or 'missing'}" for kind, value in self.unique)
        nature = facts or self.model or ("unreadable" if self.is_unreadable else "no serial number")
        return f"{nature} at {self.location}"

    def is_at_place_of(self, other: HardwareIdentity) -> bool:
        """Return whether both are at the same place."""
        if (self.location, self.part) != (other.location, other.part):
            return False
        is_ambiguous = self.is_ambiguous or other.is_ambiguous
        return not is_ambiguous or self.kernel_name == other.kernel_name

    def nature_of(self, other: HardwareIdentity) -> Nature:
        """Compare the natures, whatever the places are.

        Vendor and product decide only if no unique fact can: cheap devices have no serial number. A
        fact that could not be read is unknown, never different.
        """
        mine, theirs = dict(self.unique), dict(other.unique)
        common = {kind for kind in mine.keys() & theirs.keys() if mine[kind] or theirs[kind]}
        if any(mine[kind] != theirs[kind] for kind in common):
            return Nature.DIFFERENT
        if common:
            return Nature.EQUAL
        if self.is_unreadable or other.is_unreadable or not (self.model and other.model):
            return Nature.UNKNOWN
        if self.model != other.model:
            return Nature.DIFFERENT
        return Nature.UNKNOWN if mine or theirs else Nature.EQUAL

    def is_same(self, other: HardwareIdentity) -> bool:
        """Return whether both are the same hardware at the same place, as far as is known."""
        return self.is_at_place_of(other) and self.nature_of(other) is not Nature.DIFFERENT

    def has_moved_from(self, other: HardwareIdentity) -> bool:
        """Return whether a unique fact shows that it is the hardware that was at another place."""
        return (
            self.location != other.location
            and self.part == other.part
            and not set(self.unique).isdisjoint(other.unique)
            and self.nature_of(other) is Nature.EQUAL
        )


_DECLARED = "attribute "


class DefaultName(NamedTuple):
    """The default ID of a device."""

    text: str
    weak: str = ""
    """Why it is only as stable as a name that the kernel assigns at boot; empty if it is stable."""


@dataclass(frozen=True, slots=True)
class _Fact:
    """A fact of a device itself that distinguishes it from others at one place."""

    word: str
    """Prefix of the value in an ID, so that no part of an ID is a bare number."""
    attribute: str = ""
    """The file in the device's sysfs directory; empty for the kernel's name of the device."""
    pattern: str = "(.+)"
    """The first group is the value; if the pattern does not match, the fact adds nothing."""
    plain: str = "0"
    """The value that adds nothing."""
    on_pci_only: bool = False
    """Whether it counts only below a PCI function: elsewhere the place is sufficient."""


_Parts = Callable[["SysDevice", "SysDevice", "Host"], Iterator[str]]
"""Yields parts of an ID for a device at a place."""


@dataclass(frozen=True, slots=True)
class _Subsystem:
    """The facts that distinguish the devices of a subsystem at one place."""

    number: str = r"\d+"
    """The part that is removed from the kernel's name, once: the rest distinguishes kinds of
    devices.
    """
    plain: tuple[str, ...] = ()
    """Kinds that add nothing to an ID, in addition to the name of the subsystem."""
    facts: tuple[_Fact, ...] = ()
    more: _Parts | None = None


_WHOLE = ".*"
"""The kernel's name distinguishes nothing."""


def _scsi_address(scsi: SysDevice, host: Host) -> Iterator[str]:
    """Yield the parts of a SCSI device's address that the kernel does not number itself."""
    numbers = scsi.name.split(":")
    channel, target, lun = numbers[1:4] if len(numbers) == _SCSI_NUMBERS else ("0", "0", "0")
    if found := _ATA_PORT.match(scsi.syspath):
        port = _read(f"{found[0]}/ata_port/{found[1]}", "port_no", host)
        # Numbers of ports begin at 1; without the file there is only the kernel's count of them.
        yield from _part("ata", port or found[1].removeprefix("ata"), plain="1")
    elif found := _SAS_END.match(scsi.syspath):
        if expander := _SAS_EXPANDER.match(scsi.syspath):
            address = _read(f"{expander[0]}/sas_device/{expander[1]}", "sas_address", host)
            yield from _part("exp", address or "")
        phy = _read(f"{found[0]}/sas_device/{found[1]}", "phy_identifier", host)
        yield from _part("phy", phy or found[1].removeprefix("end_device-"))
        channel = target = "0"  # numbered in the order of discovery
    yield from _part("ch", channel)
    yield from _part("t", target)
    yield from _part("lun", lun)


def _block(device: SysDevice, _: SysDevice, host: Host) -> Iterator[str]:
    """Yield the parts that distinguish a disk, then its partition."""
    parents = [ancestor for ancestor in host.ancestors(device) if ancestor.subsystem == "block"]
    disk = parents[-1] if parents else device
    if (found := _NAMESPACE.fullmatch(disk.name)) and "/nvme" in disk.syspath:
        yield from _part("n", _read(disk.syspath, "nsid", host) or found[1], plain="1")
    if disk is device:
        if found := _MMC_AREA.fullmatch(device.name):
            yield from _part("", found[1])
        elif not _PLAIN_DISK.fullmatch(device.name):
            yield from _part("", re.sub(r"\d+", "", device.name, count=1))
        return
    rest = device.name.removeprefix(disk.name)
    number = rest.removeprefix("p")
    yield from _part("p" if number.isdecimal() else "", number if number.isdecimal() else rest)


def _generic_namespace(device: SysDevice, _: SysDevice, host: Host) -> Iterator[str]:
    """Yield the number of an NVMe namespace, which only its disk has: ``ng0n1`` of ``nvme0n1``."""
    directory = device.syspath.rpartition("/")[0]
    nsid = _read(f"{directory}/{device.name.replace('ng', 'nvme', 1)}", "nsid", host)
    yield from _part("n", nsid or device.name.rpartition("n")[2], plain="1")


def _hexadecimal(text: str) -> int:
    """Return a number that the kernel writes as 0x1f or 1f; 0 for any other text."""
    return int(text, 16) if re.fullmatch(r"(0x)?[0-9a-fA-F]{1,8}", text) else 0


def _net(device: SysDevice, _: SysDevice, host: Host) -> Iterator[str]:
    """Yield the port of a network card, and the function that a representor stands for."""
    port = _read(device.syspath, "dev_port", host)
    if port in {None, "", "0"}:
        port = str(_hexadecimal(_read(device.syspath, "dev_id", host) or ""))
    yield from _part("port", port or "0")
    name = _read(device.syspath, "phys_port_name", host) or ""
    if not _PHYSICAL_PORT.fullmatch(name):
        yield from _part("", name)


def _input(device: SysDevice, place: SysDevice, host: Host) -> Iterator[str]:
    """Yield the end of the physical path and of the name of an input device."""
    node = next(
        (ancestor for ancestor in lineage(device, host) if _INPUT.fullmatch(ancestor.name)), device
    )
    yield from _interface_tail(_read(node.syspath, "phys", host) or "", place, host)
    name = _read(node.syspath, "name", host) or ""
    hid = next((ancestor for ancestor in host.ancestors(node) if ancestor.subsystem == "hid"), None)
    if hid is not None:
        yield from _part("", name.removeprefix(hid.properties.get("HID_NAME", name)))
    elif is_pci_function(place):
        yield from _part("", name)


def _hidraw(device: SysDevice, place: SysDevice, host: Host) -> Iterator[str]:
    """Yield the end of the physical path of a HID device, and its unique string."""
    hid = next(
        (ancestor for ancestor in lineage(device, host) if ancestor.subsystem == "hid"), None
    )
    if hid is None:
        return
    yield from _interface_tail(hid.properties.get("HID_PHYS", ""), place, host)
    unique = hid.properties.get("HID_UNIQ", "")
    usb = nearest(place, host, is_usb_device)
    # Usually it is the serial number of the USB device, which distinguishes nothing within the
    # device.
    if usb is None or unique != (_read(usb.syspath, "serial", host) or ""):
        yield from _part("", unique)


def _interface_tail(phys: str, place: SysDevice, host: Host) -> Iterator[str]:
    """Yield the part of a physical path (``usb-0000:00:14.0-1/input2:1``) after the interface."""
    tail = phys.rpartition("/")[2] if "/" in phys else ""
    number = "0"
    if is_usb_interface(place):
        number = str(_hexadecimal(_read(place.syspath, "bInterfaceNumber", host) or ""))
    plain = f"input{number}"
    yield from _part("", "" if tail == plain else tail.removeprefix(f"{plain}:"))


def _platform(device: SysDevice, _: SysDevice, host: Host) -> Iterator[str]:
    """Yield the port of an FPGA: the number in the kernel's name counts those of all cards."""
    if device.name.startswith("dfl-port"):
        yield from _part("port", _read(device.syspath, "id", host) or "0")


def _tty(device: SysDevice, place: SysDevice, host: Host) -> Iterator[str]:
    """Yield the kernel's name of a serial port of a PCI card that nothing else identifies."""
    if _is_counted_port(device, place, host):
        yield from _part("", device.name)


def _is_counted_port(device: SysDevice, place: SysDevice, host: Host) -> bool:
    """Return whether only the kernel's count identifies a serial port: before Linux 6.5."""
    buses = {ancestor.subsystem for ancestor in host.ancestors(device)}
    return (is_pci_function(place) or place.name.startswith("serial8250")) and not (
        {"serial-base", "usb-serial"} & buses
    )


_SCSI_NUMBERS = 4
_ATA_PORT = re.compile(r".*?/(ata[0-9]+)(?=/)")
_SAS_END = re.compile(r".*/(end_device-[0-9:]+)(?=/)")
_SAS_EXPANDER = re.compile(r".*/(expander-[0-9:]+)(?=/)")
_NAMESPACE = re.compile(r"nvme[0-9]+(?:c[0-9]+)?n([0-9]+)")
_MMC_AREA = re.compile(r"mmcblk[0-9]+(boot[0-9]|rpmb|gp[0-9])")
_PLAIN_DISK = re.compile(r"[shv]d[a-z]+|sr[0-9]+|mmcblk[0-9]+|nvme[0-9]+(?:c[0-9]+)?n[0-9]+")
_PHYSICAL_PORT = re.compile(r"p[0-9]+|")
_INPUT = re.compile(r"input[0-9]+")

_SUBSYSTEMS: Mapping[str, _Subsystem] = {
    "block": _Subsystem(number=_WHOLE, more=_block),
    "bluetooth": _Subsystem(plain=("hci",)),
    "bsg": _Subsystem(number=_WHOLE),
    "drm": _Subsystem(plain=("card",)),
    "gpio": _Subsystem(plain=("gpiochip",)),
    "hid": _Subsystem(number=_WHOLE, more=_hidraw),
    "hidraw": _Subsystem(more=_hidraw),
    "hwmon": _Subsystem(facts=(_Fact("", "name"),)),
    "i2c-dev": _Subsystem(number=_WHOLE),
    "iio": _Subsystem(plain=("iio:device",)),
    "infiniband": _Subsystem(number=r"^(?!smi\d).*|\d+$"),
    "infiniband_mad": _Subsystem(
        plain=("issm",), facts=(_Fact("", "ibdev", r"^(smi)\d"), _Fact("port", "port", plain="1"))
    ),
    "infiniband_verbs": _Subsystem(plain=("uverbs",)),
    "input": _Subsystem(plain=("event",), more=_input),
    "mmc_rpmb": _Subsystem(number=_WHOLE),
    "net": _Subsystem(number=_WHOLE, more=_net),
    "nvme-generic": _Subsystem(number=_WHOLE, more=_generic_namespace),
    "platform": _Subsystem(number=r"(?<=^dfl-fme)\.\d+$|(?<=^dfl-port)\.\d+$", more=_platform),
    "scsi": _Subsystem(number=_WHOLE),
    "scsi_changer": _Subsystem(number=_WHOLE),
    "scsi_generic": _Subsystem(number=_WHOLE),
    "scsi_tape": _Subsystem(plain=("st",)),
    "sound": _Subsystem(number=r"C\d+|(?<=^card)\d+", plain=("control", "card")),
    "spidev": _Subsystem(number=_WHOLE),
    "tty": _Subsystem(number=_WHOLE, more=_tty),
    "usb": _Subsystem(number=_WHOLE, facts=(_Fact("if", "bInterfaceNumber", "0*(.+)"),)),
    "usbmisc": _Subsystem(plain=("cdc-wdm", "hiddev", "lp")),
    "vfio-dev": _Subsystem(plain=("vfio",)),
    "video4linux": _Subsystem(plain=("video",), facts=(_Fact("index", "index"),)),
}
"""The facts by subsystem. A subsystem that is not listed adds the kernel's name without its first
number, unless that is part of the name of the subsystem.
"""

_ADDRESSES: Mapping[str, tuple[_Fact, ...]] = {
    "auxiliary": (_Fact("sf", "sfnum", plain=""),),
    "i2c": (
        _Fact("addr", pattern=r"^\d+-([0-9a-f]{4})$"),
        _Fact("chan", "name", r"\(chan_id (\d+)\)$", plain=""),
        _Fact("", "name", r"^(?!.*\(chan_id \d+\)$)(.+)", on_pci_only=True),
    ),
    "mdev": (_Fact("", plain=""),),
    "sdio": (_Fact("fn", pattern=r":(\d+)$", plain="1"),),
    "serial-base": (_Fact("port", pattern=r":\d+\.(\d+)$"),),
    "serio": (_Fact("serio", pattern=r"^serio(\d+)$"),),
    "spi": (_Fact("cs", pattern=r"^spi\d+\.(\d+)$"),),
    "usb-serial": (_Fact("port", "port_number"),),
    "w1": (_Fact("", pattern=r"^([0-9a-f]{2}-[0-9a-f]+)$"),),
}
"""Addresses on buses below a place: of a device, or of a parent between the place and it."""

_UNIQUE: tuple[tuple[str, str, str], ...] = (
    ("usb", "serial", "serial"),
    ("pci", "unique_id", "unique_id"),
    ("nvme", "serial", "serial"),
    ("block", "wwid", "wwid"),
    ("scsi", "wwid", "wwid"),
    ("mmc", "cid", "cid"),
    ("infiniband", "node_guid", "node_guid"),
)
"""Subsystem of the device or a parent, attribute, and kind of a fact that no other hardware has."""

_FIXED_NAMES = frozenset({"misc", "net", "tty", "mem", "ppp", "tun", "bdi"})
"""Subsystems of virtual devices whose names with a number are their identity."""
_FIXED_DISK = re.compile(r"(?:loop|zram|nbd|ram)[0-9]+(?:p[0-9]+)?|xvd[a-z]+[0-9]*")
_COUNTED_PLATFORM = re.compile(r".*\.auto|amdgpu_xcp.*|dfl-.*")
_COUNTED_TARGET = re.compile(r"/(?:rport-|session)[0-9]")
_SLUG = re.compile(r"[^A-Za-z0-9._:-]+")
_AT_BOOT = "as stable as the kernel's name, which can change at boot"
WHY_AMBIGUOUS = f"only {_AT_BOOT}: nothing else distinguishes it from another device there"


def _part(word: str, value: str, *, plain: str = "0") -> Iterator[str]:
    """Yield a part of an ID, unless the value is the plain one."""
    text = _SLUG.sub("_", value).strip("_-")
    if text and value != plain:
        yield f"{word}{text}"


def _read(syspath: str, name: str, host: Host) -> str | None:
    """Return an attribute; raise UnusableValueError if it exists and cannot be read.

    A fact that cannot be read never counts as absent: the device would get another device's ID.
    """
    text = host.attribute(syspath, name)
    if text is None and (why := host.why_unreadable(f"{syspath}/{name}")):
        reason = f"its id depends on {syspath}/{name}: {why} (write an id)"
        raise UnusableValueError(reason, Code.UNREADABLE)
    return text


def _value(fact: _Fact, device: SysDevice, place: SysDevice, host: Host) -> Iterator[str]:
    if fact.on_pci_only and not is_pci_function(place):
        return
    text = _read(device.syspath, fact.attribute, host) if fact.attribute else device.name
    if text and (found := re.search(fact.pattern, text)):
        yield from _part(fact.word, found[1], plain=fact.plain)


def _parts(device: SysDevice, place: SysDevice, host: Host) -> list[str]:
    """Return the parts that distinguish a device at a place from others of its subsystem there.

    Raise UnusableValueError if a fact cannot be read.
    """
    return [*_addresses(device, place, host), *_own_parts(device, place, host)]


def _addresses(device: SysDevice, place: SysDevice, host: Host) -> list[str]:
    """Return the addresses of a device on the buses below a place."""
    parts: list[str] = []
    below = [
        ancestor for ancestor in lineage(device, host) if len(ancestor.syspath) > len(place.syspath)
    ]
    for parent in reversed(below):
        if is_scsi_device(parent):
            parts += _scsi_address(parent, host)
        for fact in _ADDRESSES.get(parent.subsystem, ()):
            parts += _value(fact, parent, place, host)
    return parts


def _own_parts(device: SysDevice, place: SysDevice, host: Host) -> list[str]:
    """Return the parts that distinguish a device from others with the same addresses."""
    parts: list[str] = []
    usual = _Subsystem(number=_WHOLE) if device.subsystem in _ADDRESSES else _Subsystem()
    kind = _SUBSYSTEMS.get(device.subsystem, usual)
    name = re.sub(kind.number, "", device.name, count=1)
    if name not in kind.plain and name.strip("_-.:") not in device.subsystem:
        parts += _part("", name)
    for fact in kind.facts:
        parts += _value(fact, device, place, host)
    if kind.more is not None:
        parts += kind.more(device, place, host)
    return parts


def default_name(device: SysDevice, host: Host) -> DefaultName | None:
    """Return the default ID of a device of sysfs; None if only its path identifies it.

    Raise UnusableValueError if a fact that it depends on cannot be read.
    """
    if is_hardware(device):
        return DefaultName(device.name)
    place = place_of(device, host)
    if place is None:
        return _virtual_name(device, host)
    name = "-".join((place.name, device.subsystem, *_parts(device, place, host)))
    return DefaultName(name, _why_weak(device, place, host))


def _why_weak(device: SysDevice, place: SysDevice, host: Host) -> str:
    if device.subsystem == "tty" and _is_counted_port(device, place, host):
        return f"only {_AT_BOOT}: the kernel does not say which port of the card it is"
    if place.subsystem == "platform" and _COUNTED_PLATFORM.fullmatch(place.name):
        return f"only {_AT_BOOT}: {place.name} is numbered in the order of discovery"
    if any(map(is_scsi_device, lineage(device, host))):
        if _COUNTED_TARGET.search(device.syspath):
            return f"only {_AT_BOOT}: the SCSI target is numbered in the order of discovery"
        if _ATA_PORT.match(device.syspath) or _SAS_END.match(device.syspath):
            return ""
        hosts = [
            scsi_host
            for scsi_host in host.below(place.syspath, "scsi_host")
            if (host_place := place_of(scsi_host, host)) is not None
            and host_place.syspath == place.syspath
        ]
        if len(hosts) > 1:
            return f"only {_AT_BOOT}: {place.name} has several SCSI hosts"
    return ""


def _virtual_name(device: SysDevice, host: Host) -> DefaultName | None:
    """Return the name of a device without hardware above it; None for the kernel's name.

    Device-mapper and RAID devices have UUIDs, multipath NVMe namespaces a WWID, IOMMU groups the
    addresses of their functions.
    """
    for ancestor in lineage(device, host):
        if ancestor.subsystem != "block":
            break
        partition = (
            device.name.removeprefix(ancestor.name).lstrip("p") if ancestor is not device else ""
        )
        suffix = f"-p{partition}" if partition else ""
        for kind, file in (("dm", "dm/uuid"), ("md", "md/uuid"), ("nvme", "wwid")):
            if ancestor.name.startswith(kind) and (uuid := _read(ancestor.syspath, file, host)):
                return DefaultName(f"{kind}-{uuid}{suffix}")
    if device.subsystem == "vfio" and (group := group_number(device.name)) is not None:
        if functions := functions_of(group, host):
            addresses = sorted((function.name for function in functions), key=natural_key)
            return DefaultName(f"vfio-{'_'.join(addresses)}")
        return DefaultName(device.name, f"only {_AT_BOOT}: it is the number of an IOMMU group")
    return None


def why_name_is_weak(name: str, device: SysDevice | None) -> str:
    """Return why an ID that is the kernel's name can change at boot; empty if it is an identity."""
    if device is not None and (
        device.subsystem in _FIXED_NAMES or _FIXED_DISK.fullmatch(device.name)
    ):
        return ""
    # names without numbers, such as sda, count, too
    is_disk = device is not None and device.subsystem == "block"
    if not is_disk and not any(map(str.isdecimal, name)):
        return ""
    return f"only {_AT_BOOT}"


def identity_of(
    file: FoundFile,
    device: SysDevice | None,
    host: Host,
    *,
    interchangeable: Callable[[str], bool] = lambda _: False,
    declared: Collection[str] = (),
    siblings: Siblings | None = None,
) -> HardwareIdentity:
    """Return the identity of a device; raise UnusableValueError if a fact of its place cannot be
    read.

    ``interchangeable`` returns for a model (``usb 0403:6001``) whether the config names several
    that it may change to and from: such a model distinguishes nothing. ``declared`` names the
    attributes by which the config distinguishes hardware. ``siblings`` caches the other devices at
    a place, as long as the host does not change.
    """
    if device is None:
        return HardwareIdentity(location=file.target, part=str(file.type))
    hardware = nearest(device, host, is_hardware)
    location, part = _place(device, hardware, host)
    is_ambiguous = False
    if (place := place_of(device, host)) is not None and device is not hardware:
        found = {} if siblings is None else siblings
        key = (place.syspath, device.subsystem)
        if key not in found:
            found[key] = _parts_at(place, device.subsystem, host)
        is_ambiguous = found[key][_part_key(device, place, host)] > 1
    unique, is_unreadable = _unique_facts(device, hardware, declared, host)
    model = "" if hardware is None else _model(hardware, host)
    return HardwareIdentity(
        location=location,
        part=part,
        unique=unique,
        model="" if interchangeable(model) else model,
        is_unreadable=is_unreadable,
        kernel_name=device.name,
        is_ambiguous=is_ambiguous,
    )


def _part_key(device: SysDevice, place: SysDevice, host: Host) -> tuple[bool, tuple[str, ...]]:
    return device.number is not None, tuple(_parts(device, place, host))


def _parts_at(
    place: SysDevice, subsystem: str, host: Host
) -> Counter[tuple[bool, tuple[str, ...]]]:
    """Count the devices of a subsystem at a place, by the parts that distinguish them."""
    found: Counter[tuple[bool, tuple[str, ...]]] = Counter()
    for device in host.below(place.syspath, subsystem):
        hardware = place_of(device, host)
        if hardware is not None and hardware.syspath == place.syspath:
            with suppress(UnusableValueError):
                found[_part_key(device, place, host)] += 1
    return found


def _place(device: SysDevice, hardware: SysDevice | None, host: Host) -> tuple[str, str]:
    """Return the location of the hardware, and which part of the hardware a device is."""
    if device is hardware:
        return _location(hardware, host), ""
    place = place_of(device, host)
    if place is None:
        name = _virtual_name(device, host)
        path = device.syspath.removeprefix("/sys/devices/")
        return name.text if name is not None and not name.weak else path, ""
    # A tree of files may lack the USB device above an interface.
    if hardware is None or place.subsystem == "platform":
        hardware = place
    location, addresses = [_location(hardware, host)], _addresses(device, place, host)
    parts = [device.subsystem, *_own_parts(device, place, host)]
    if any(map(is_scsi_device, lineage(device, host))):
        location += addresses  # a disk has its own nature, and may move to another port
    else:
        parts[1:1] = addresses
    if is_usb_interface(place):
        parts.insert(0, place.name.partition(":")[2])
    if device.number is None:
        parts.append("without node")  # as inputN above eventN
    return " ".join(location), " ".join(parts)


def _location(hardware: SysDevice, host: Host) -> str:
    if not is_usb_device(hardware):
        return f"{hardware.subsystem} {hardware.name}"
    # Numbers of buses depend on the order of discovery: the controller and its root hub do not.
    parents = host.ancestors(hardware)
    hubs = [parent for parent in (hardware, *parents) if is_usb_device(parent)]
    root = hubs[-1]
    controller = next((ancestor.name for ancestor in host.ancestors(root)), root.name)
    version = (host.attribute(root.syspath, "version") or "").strip().partition(".")[0]
    port = hardware.name.partition("-")[2] or "0"
    return f"usb {controller}/{version}-{port}"


def _unique_facts(
    device: SysDevice, hardware: SysDevice | None, declared: Collection[str], host: Host
) -> tuple[tuple[tuple[str, str], ...], bool]:
    """Return the facts that no other hardware has, and whether one of them cannot be read."""
    facts, is_unreadable = _facts_in(_files_of_facts(device, hardware, host), host)
    if declared and not facts:
        files = ((f"{_DECLARED}{name}", device.syspath, name) for name in declared)
        found, is_unreadable_too = _facts_in(files, host)
        is_unreadable = is_unreadable or is_unreadable_too
        kinds = () if is_unreadable else (f"{_DECLARED}{name}" for name in declared)
        facts = dict.fromkeys(kinds, "") | found
    return tuple(sorted(facts.items())), is_unreadable


def _files_of_facts(
    device: SysDevice, hardware: SysDevice | None, host: Host
) -> Iterator[tuple[str, str, str]]:
    """Yield the kinds of unique facts that a device may have, with device and attribute of each."""
    for ancestor in lineage(device, host):
        for subsystem, name, kind in _UNIQUE:
            if subsystem == ancestor.subsystem:
                yield f"{subsystem} {kind}", ancestor.syspath, name
        # Else the kernel or an administrator made it up.
        if (
            ancestor.subsystem == "net"
            and host.attribute(ancestor.syspath, "addr_assign_type") == "0"
        ):
            yield "net MAC", ancestor.syspath, "address"
        if ancestor is hardware:
            return


def _facts_in(files: Iterable[tuple[str, str, str]], host: Host) -> tuple[dict[str, str], bool]:
    """Return the first text of each kind, and whether a file cannot be read."""
    facts: dict[str, str] = {}
    is_unreadable = False
    for kind, syspath, name in files:
        text = host.attribute(syspath, name)
        if text:
            facts.setdefault(kind, text)
        elif text is None and host.why_unreadable(f"{syspath}/{name}"):
            is_unreadable = True
    return facts, is_unreadable


def _model(hardware: SysDevice, host: Host) -> str:
    """Return the kind of hardware, its vendor and its product; empty if they are unknown."""
    name = kind_of(hardware)
    texts = [text_of(name, hardware, key, host) or "" for key in HARDWARE[name].model]
    return f"{name} {':'.join(texts).lower()}" if all(texts) else ""


def declared_attributes(resource: Resource) -> tuple[str, ...]:
    """Return the attributes that a resource's IDs consist of, if they consist of nothing else.

    With such an ``id`` the config says that these attributes distinguish hardware: the file behind
    a loop device, or the serial number of a board that only its driver can read.
    """
    found: set[str] = set()
    todo = [resource.id or resource.group_by]
    while todo:
        if (template := todo.pop()) is None or not template.references:
            return ()
        for reference in template.references:
            source = resource.values.get(reference.name)
            if reference.scope == "attribute" and not reference.has_default:
                found.add(reference.name)
            elif reference.scope == "value" and source is not None:
                # A value that is read from a file does not consist of this device's attributes
                # alone.
                todo.append(source.source if source.kind is ValueKind.TEXT else None)
            else:
                return ()
    return tuple(sorted(found))


def interchangeable_models(resource: Resource) -> Callable[[str], bool]:
    """Return a predicate for models between which a device of a resource may change.

    These are the models that its selectors name, if they name several: a modem, or a Coral
    accelerator, changes its product number once it has started.
    """
    named = [
        (wanted.kind, *(wanted.keys.get(key, ()) for key in HARDWARE[wanted.kind].model))
        for selector in resource.match
        for wanted in (selector.candidates, *selector.hardware)
        if isinstance(wanted, SysSelector) and wanted.kind in HARDWARE
    ]
    models = {(kind, *model) for kind, *globs in named for model in product(*globs)}

    def is_named(model: str) -> bool:
        kind, _, numbers = model.partition(" ")
        return any(
            kind == its_kind
            and all(
                glob.matches_any(pattern, number, ignore_case=True)
                for pattern, number in zip(globs, numbers.split(":"), strict=False)
            )
            for its_kind, *globs in named
        )

    return is_named if len(models) > 1 else lambda _: False
