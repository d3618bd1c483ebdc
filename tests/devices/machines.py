"""Machines made of hardware: what sysfs, /dev and the udev database show while it is plugged in.

``Hardware`` is what people plug in and pull out, and what a kernel makes of it: a disk, one of its
partitions, one port of a card. It knows its place (a PCI address, a USB port, a LUN) and its nature
(serial numbers). It does not know its names: a ``Kernel`` hands out ``sda``, ``ttyUSB0``, minor
numbers and inodes in the order of appearance, always the lowest free one. So after a reboot in
another order everything is called something else, and is still the same hardware.

    machine = Machine(directory)
    disk = SataDisk(port=2)
    machine.plug(disk, Partition(disk, 1))
    machine.reboot(reversed(machine.plugged))
    machine.parts["/dev/sda1"]            # Part(hardware=Partition(…), label="block")

The paths are those of real kernels (6.x), as far as anything is read of them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from genericdp.host.cache import HostCache
from genericdp.host.root import Root

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping
    from pathlib import Path

BUSES = frozenset(
    {
        *("auxiliary", "hid", "i2c", "mdev", "media", "mmc", "mmc_rpmb", "pci", "platform"),
        *("scsi", "serial-base", "spi", "usb", "usb-serial", "virtio"),
    }
)
"""Other subsystems are classes."""
MAJORS = {
    "block": 8,
    "bsg": 247,
    "drm": 226,
    "hidraw": 240,
    "i2c-dev": 89,
    "infiniband_verbs": 231,
    "input": 13,
    "media": 241,
    "mmc_rpmb": 242,
    "npu": 243,
    "nvme": 244,
    "nvme-generic": 245,
    "scsi_generic": 21,
    "sound": 116,
    "spidev": 153,
    "tty": 188,
    "usb": 189,
    "video4linux": 81,
}
XHCI = "0000:00:14.0"


class Part(NamedTuple):
    """One thing that can be offered: hardware, and what the kernel shows of it."""

    hardware: Hardware
    label: str
    """The subsystem, and what shows several devices of it apart."""

    def __repr__(self) -> str:
        return f"{self.hardware!r} as {self.label}"


class Link(NamedTuple):
    """A symbolic link in a machine's files."""

    target: str


class Kernel:
    """Hands out names and numbers from boot to shutdown, and shows what it knows as files."""

    def __init__(self, appearances: Iterable[int]) -> None:
        self.files: dict[str, str | Link] = {}
        """By path below the root."""
        self.parts: dict[str, Part] = {}
        """By each path under which a part can be found."""
        self._appearances = iter(appearances)
        self._numbers: dict[tuple[str, Hashable], int] = {}
        self._used: set[tuple[str, Hashable]] = set()

    def show(self, plugged: Iterable[Hardware]) -> None:
        """Show the hardware that is plugged in; the numbers of what is not are free again."""
        for hardware in plugged:
            hardware.appear(self)
        unused = self._numbers.keys() - self._used
        if unused:
            for key in unused:
                del self._numbers[key]
        self._used.clear()

    def clear(self) -> None:
        """Forget what was shown, but not the numbers."""
        self.files, self.parts = {}, {}

    def count(self, kind: str, owner: Hashable, first: int = 0) -> int:
        """Return the number of an owner: the lowest of its kind that is free."""
        key = (kind, owner)
        if key not in self._numbers:
            taken = {number for (theirs, _), number in self._numbers.items() if theirs == kind}
            self._numbers[key] = next(n for n in itertools.count(first) if n not in taken)
        self._used.add(key)
        return self._numbers[key]

    def appearance(self, owner: Hashable) -> int:
        """Return what no other appearance of anything has had, since the machine was made."""
        key = ("appearance", owner)
        if key not in self._numbers:
            self._numbers[key] = next(self._appearances)
        self._used.add(key)
        return self._numbers[key]

    def device(
        self,
        path: str,
        subsystem: str,
        attributes: Mapping[str, str] | None = None,
        *,
        devtype: str = "",
        uevent: Mapping[str, str] | None = None,
        node: str = "",
        links: Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        part: Part | None = None,
    ) -> str:
        """Show a device in sysfs, with its node and udev's record; return its directory."""
        facts = {"DEVTYPE": devtype} if devtype else {}
        facts |= uevent or {}
        if node:
            kind = "block" if subsystem == "block" else "char"
            minor = self.count(f"minor {subsystem}", part or path)
            number = f"{MAJORS[subsystem]}:{minor}"
            facts |= {"MAJOR": str(MAJORS[subsystem]), "MINOR": str(minor), "DEVNAME": node}
            self.files[f"sys/dev/{kind}/{number}"] = Link(f"../../{_DEVICES}/{path}")
            self.files[f"dev/{node}"] = f"{self.appearance(part or path)}\n"
        for link in links:
            up = "../" * link.count("/")
            self.files[f"dev/{link}"] = Link(f"{up}{node}")
        directory = f"sys/{_DEVICES}/{path}"
        self.files[f"{directory}/uevent"] = "".join(f"{key}={facts[key]}\n" for key in facts)
        for name, text in (attributes or {}).items():
            self.files[f"{directory}/{name}"] = f"{text}\n"
        if subsystem:
            self._enter(path, subsystem)
            if links or properties:
                self._record(path, subsystem, facts, links, properties or {})
        if part is not None:
            names = (f"/{directory}", *(f"/dev/{name}" for name in (node, *links) if name))
            self.parts |= dict.fromkeys(names, part)
        return path

    def part(
        self,
        owner: Hardware,
        path: str,
        subsystem: str,
        attributes: Mapping[str, str] | None = None,
        *,
        label: str = "",
        node: str = "*",
        first: int = 0,
        **keys: Any,
    ) -> str:
        """Show a part of hardware; return its directory.

        ``*`` is its number in ``path``, the lowest that is free, and its name in ``node``.
        """
        stem, star, _ = path.rpartition("/")[2].partition("*")
        if star:
            path = path.replace("*", str(self.count(stem, owner, first)))
        keys |= {"node": node.replace("*", path.rpartition("/")[2])}
        part = Part(owner, label or subsystem)
        return self.device(path, subsystem, attributes, part=part, **keys)

    def _enter(self, path: str, subsystem: str) -> None:
        home = f"bus/{subsystem}" if subsystem in BUSES else f"class/{subsystem}"
        members = f"{home}/devices" if subsystem in BUSES else home
        up = "../" * (path.count("/") + 2)
        self.files[f"sys/{_DEVICES}/{path}/subsystem"] = Link(f"{up}{home}")
        up = "../" * (members.count("/") + 1)
        name = path.rpartition("/")[2]
        self.files[f"sys/{members}/{name}"] = Link(f"{up}{_DEVICES}/{path}")

    def _record(
        self,
        path: str,
        subsystem: str,
        facts: Mapping[str, str],
        links: Iterable[str],
        properties: Mapping[str, str],
    ) -> None:
        name = f"+{subsystem}:{path.rpartition('/')[2]}"
        if "MAJOR" in facts:
            kind = "b" if subsystem == "block" else "c"
            name = f"{kind}{facts['MAJOR']}:{facts['MINOR']}"
        lines = [*(f"S:{link}" for link in links), *(f"E:{k}={v}" for k, v in properties.items())]
        self.files[f"run/udev/data/{name}"] = "".join(f"{line}\n" for line in lines)


_DEVICES = "devices"


class Machine:
    """The files of a machine; each method changes it as people and kernels do."""

    def __init__(self, directory: Path) -> None:
        self.root = Root(directory)
        self.plugged: list[Hardware] = []
        """In the order of appearance."""
        self._directory = directory
        self._appearances = itertools.count(1)
        self._kernel = Kernel(self._appearances)
        self._written: dict[str, str | Link] = {}
        self._host = HostCache(self.root)
        for name in ("dev", "sys/dev/char", "sys/dev/block", "sys/bus", "run/udev/data"):
            (directory / name).mkdir(parents=True)

    def plug(self, *hardware: Hardware) -> None:
        """Plug hardware in, or have the kernel make it (a partition, a subfunction)."""
        self.plugged += [new for new in hardware if new not in self.plugged]
        self.refresh()

    def unplug(self, *hardware: Hardware) -> list[Hardware]:
        """Remove hardware, and what is on it; return everything that is missing."""
        gone = [
            each_device
            for each_device in self.plugged
            if not each_device.lineage.isdisjoint(hardware)
        ]
        self.plugged = [device for device in self.plugged if device not in gone]
        self.refresh()
        return gone

    def reboot(self, order: Iterable[Hardware] | None = None) -> None:
        """Boot again; the kernel may find the hardware in another order."""
        self.plugged = list(order or self.plugged)
        self._kernel = Kernel(self._appearances)
        self.refresh()

    def refresh(self) -> None:
        """Show what is plugged in as files."""
        self._kernel.clear()
        self._kernel.show(self.plugged)
        shown = self._kernel.files
        for path in self._written.keys() - shown.keys():
            (self._directory / path).unlink()
        for path, content in shown.items():
            if self._written.get(path) != content:
                self._write(path, content, is_new=path not in self._written)
        self._written = shown
        self._host = HostCache(self.root)

    def _write(self, path: str, content: str | Link, *, is_new: bool) -> None:
        file = self._directory / path
        if is_new:
            file.parent.mkdir(parents=True, exist_ok=True)
        elif isinstance(content, Link) or path.startswith("dev/"):
            file.unlink()  # another appearance: a node has another inode then
        if isinstance(content, Link):
            file.symlink_to(content.target)
        else:
            file.write_text(content)

    @property
    def parts(self) -> Mapping[str, Part]:
        """Return the present parts, by each path: device file, links, directory in sysfs."""
        return self._kernel.parts

    def host(self) -> HostCache:
        """Return the host as a decision reads it, without any memory of what it was before."""
        return self._host


@dataclass(eq=False)
class Hardware:
    """Something that appears and disappears; two of equal make are still two."""

    is_weak: ClassVar[bool] = False
    """Whether nothing but a kernel name shows it apart from others at its place."""
    WHERE: ClassVar[str] = ""
    """Its place by its fields, as people say it; empty: that of what it is on."""
    UNIQUE: ClassVar[str] = ""
    """The field with a fact that no other hardware has; empty: as what it is on."""
    ON: ClassVar[str] = ""
    """The field with what it is on, and goes away with."""

    @property
    def under(self) -> Hardware | None:
        """Return what it is on, and goes away with."""
        return getattr(self, self.ON) if self.ON else None

    @property
    def lineage(self) -> frozenset[Hardware]:
        """The hardware itself and everything that it is on."""
        above = frozenset[Hardware]() if self.under is None else self.under.lineage
        return above | {self}

    @property
    def place(self) -> str:
        """Return where it is plugged in, as people say it."""
        own = self.WHERE.format(**vars(self))
        return own or ("" if self.under is None else self.under.place)

    @property
    def is_unique(self) -> bool:
        """Return whether it has a fact that no other hardware has."""
        if self.UNIQUE:
            return bool(getattr(self, self.UNIQUE))
        return self.under is not None and self.under.is_unique

    def appear(self, kernel: Kernel) -> str:
        """Show it; return the directory below which lies what is on it."""
        raise NotImplementedError


def pci_function(kernel: Kernel, address: str, pci_class: str = "0x028000") -> str:
    """Show a PCI function, behind a bridge unless it is on the root bus; return its directory."""
    bus, root = address[5:7], "pci0000:00"
    if bus != "00":
        bridge = f"0000:00:1c.{int(bus, 16) % 8}"
        root = kernel.device(f"{root}/{bridge}", "pci", {"class": "0x060400"})
    facts = {"vendor": "0x8086", "device": f"0x10{bus}", "class": pci_class}
    uevent = {"PCI_SLOT_NAME": address}
    return kernel.device(f"{root}/{address}", "pci", facts, uevent=uevent)


def platform_device(kernel: Kernel, name: str) -> str:
    """Show a platform device; return its directory."""
    return kernel.device(f"platform/{name}", "platform", uevent={"MODALIAS": f"platform:{name}"})


# USB


@dataclass(eq=False)
class UsbDevice(Hardware):
    """A stick, camera or adapter with one interface. Ports 1-… are USB 2, ports 2-… USB 3."""

    WHERE = "{port}"
    UNIQUE = "serial"
    port: str
    serial: str = ""
    product: str = "6001"
    note: str = ""
    """What a rule of udev says about everything that it has."""

    def appear(self, kernel: Kernel) -> str:
        above = _port_above(kernel, self.port)
        facts = {"idVendor": "0403", "idProduct": self.product, "bDeviceClass": "00"}
        if self.serial:
            facts["serial"] = self.serial
        own = _usb_device(kernel, f"{above}/{self.port}", facts, Part(self, "usb"))
        return _interface(kernel, own)

    @property
    def properties(self) -> dict[str, str]:
        """Return what udev records of the devices on it."""
        return {"ID_BUS": "usb", **({"ID_NOTE": self.note} if self.note else {})}


def _port_above(kernel: Kernel, port: str) -> str:
    """Show root hub and hubs above a port; return the directory that its device lies in."""
    bus = port.partition("-")[0]
    version = " 2.00" if bus == "1" else " 3.00"
    facts = {"idVendor": "1d6b", "idProduct": "0002", "bDeviceClass": "09", "version": version}
    facts |= {"serial": XHCI, "busnum": bus, "devnum": "1"}
    path = f"{pci_function(kernel, XHCI, '0x0c0330')}/usb{bus}"
    path = kernel.device(path, "usb", facts, devtype="usb_device")
    hub = port.rpartition(".")[0]
    if hub:
        path = f"{_port_above(kernel, hub)}/{hub}"
        facts = {"idVendor": "05e3", "idProduct": "0608", "bDeviceClass": "09"}
        _interface(kernel, _usb_device(kernel, path, facts))
    return path


def _usb_device(
    kernel: Kernel, path: str, facts: Mapping[str, str], part: Part | None = None
) -> str:
    bus = path.rpartition("/")[2].partition("-")[0]
    number = kernel.appearance((path, part)) % 127 + 1
    facts = {**facts, "busnum": bus, "devnum": str(number)}
    node = f"bus/usb/{int(bus):03}/{kernel.count(f'usb {bus}', (path, part), first=2):03}"
    return kernel.device(path, "usb", facts, devtype="usb_device", node=node, part=part)


def _interface(kernel: Kernel, device: str) -> str:
    path = f"{device}/{device.rpartition('/')[2]}:1.0"
    return kernel.device(path, "usb", {"bInterfaceNumber": "00"}, devtype="usb_interface")


@dataclass(eq=False)
class OnUsb(Hardware):
    """Something that a USB device has."""

    ON = "usb"
    usb: UsbDevice


@dataclass(eq=False)
class SerialPort(OnUsb):
    """A port of an adapter that has one or several."""

    number: int = 0

    def appear(self, kernel: Kernel) -> str:
        name = f"ttyUSB{kernel.count('ttyUSB', self)}"
        path = f"{self.usb.appear(kernel)}/{name}"
        kernel.device(path, "usb-serial", {"port_number": str(self.number)})
        links = [f"serial/by-id/usb-FTDI_{self.usb.serial}-if00-port{self.number}"]
        links = links if self.usb.serial else []
        properties = self.usb.properties
        return kernel.part(self, f"{path}/tty/{name}", "tty", links=links, properties=properties)


@dataclass(eq=False)
class VideoNode(OnUsb):
    """A node of a camera; the second one mostly gives metadata."""

    index: int = 0

    def appear(self, kernel: Kernel) -> str:
        path = f"{self.usb.appear(kernel)}/video4linux/video*"
        facts = {"index": str(self.index), "name": "Camera"}
        return kernel.part(self, path, "video4linux", facts)


@dataclass(eq=False)
class MediaNode(OnUsb):
    """The media controller of a camera."""

    def appear(self, kernel: Kernel) -> str:
        return kernel.part(self, f"{self.usb.appear(kernel)}/media*", "media")


@dataclass(eq=False)
class HidDevice(OnUsb):
    """One of the HID devices of an interface: a receiver has one for each thing that is paired."""

    paired: int = 0
    kinds: tuple[str, ...] = ("event",)
    function: str = ""
    """As in `` Consumer Control``: a keyboard has several input devices."""
    unique: str = ""

    def appear(self, kernel: Kernel) -> str:
        number = kernel.count("hid", self, first=1)
        controller = f"usb-{XHCI}-{self.usb.port.partition('-')[2]}/input0"
        phys = f"{controller}:{self.paired}" if self.paired else controller
        uevent = {"HID_ID": "0003:0000046D:0000C52B", "HID_NAME": "Logitech Receiver"}
        uevent |= {"HID_PHYS": phys, "HID_UNIQ": self.unique}
        path = f"{self.usb.appear(kernel)}/0003:046D:C52B.{number:04X}"
        kernel.device(path, "hid", uevent=uevent)
        kernel.part(self, f"{path}/hidraw/hidraw*", "hidraw")
        facts = {"phys": phys, "name": f"Logitech Receiver{self.function}", "uniq": self.unique}
        own = kernel.device(f"{path}/input/input{kernel.count('input', self)}", "input", facts)
        for kind in self.kinds:
            kernel.part(self, f"{own}/{kind}*", "input", label=f"input {kind}", node="input/*")
        return path


# Disks


@dataclass(eq=False)
class Disk(Hardware):
    """A block device that may have partitions; its directory is that of the block device."""


@dataclass(eq=False)
class ScsiDisk(Disk):
    """A disk with a SCSI device between it and its controller."""

    def _show(
        self,
        kernel: Kernel,
        base: str,
        address: tuple[int, int, int, int],
        wwid: str,
    ) -> str:
        """Show host (the directory ``base`` ends in it or below), target, device and nodes."""
        host, channel, target, lun = address
        above, name = f"target{host}:{channel}:{target}", f"{host}:{channel}:{target}:{lun}"
        kernel.device(f"{base}/{above}", "scsi", devtype="scsi_target")
        facts = {"vendor": "ACME", "model": "DISK", **({"wwid": wwid} if wwid else {})}
        path = kernel.device(f"{base}/{above}/{name}", "scsi", facts, devtype="scsi_device")
        kernel.part(self, f"{path}/scsi_generic/sg*", "scsi_generic")
        kernel.part(self, f"{path}/bsg/{name}", "bsg", node="bsg/*")
        disk = f"sd{'abcdefghijklmnopqrstuvwxyz'[kernel.count('sd', self)]}"
        links = [f"disk/by-id/wwn-{wwid.replace('.', '-')}"] if wwid else []
        return _block(kernel, f"{path}/block/{disk}", self, links)


def _scsi_host(kernel: Kernel, above: str, owner: Hashable) -> tuple[str, int]:
    number = kernel.count("host", owner)
    path = kernel.device(f"{above}/host{number}", "scsi", devtype="scsi_host")
    kernel.device(f"{path}/scsi_host/host{number}", "scsi_host")
    return path, number


def _block(kernel: Kernel, path: str, disk: Disk, links: Iterable[str] = ()) -> str:
    facts = {"size": "1024", "diskseq": str(kernel.appearance(("diskseq", disk)))}
    return kernel.part(disk, path, "block", facts, devtype="disk", links=links)


@dataclass(eq=False)
class SataDisk(ScsiDisk):
    """A disk at a port of an AHCI controller; ports are counted from 1."""

    WHERE = "{controller} ata port {port}"
    UNIQUE = "wwid"
    port: int
    wwid: str = ""
    controller: str = "0000:00:17.0"

    def appear(self, kernel: Kernel) -> str:
        function = pci_function(kernel, self.controller, "0x010601")
        name = f"ata{kernel.count('ata', self.place, first=1)}"
        path = kernel.device(f"{function}/{name}", "")
        kernel.device(f"{path}/ata_port/{name}", "ata_port", {"port_no": str(self.port)})
        base, number = _scsi_host(kernel, path, self.place)
        return self._show(kernel, base, (number, 0, 0, 0), self.wwid)


@dataclass(eq=False)
class SasDisk(ScsiDisk):
    """A disk at a phy of a SAS controller, or of an expander behind it."""

    WHERE = "{controller} {expander} phy {phy}"
    UNIQUE = "wwid"
    phy: int
    wwid: str = ""
    expander: str = ""
    """The expander's SAS address."""
    controller: str = "0000:02:00.0"

    def appear(self, kernel: Kernel) -> str:
        function = pci_function(kernel, self.controller, "0x010700")
        path, host = _scsi_host(kernel, function, self.controller)
        chain = f"{host}"
        if self.expander:
            port = kernel.count(f"port {chain}", self.expander)
            number = kernel.count(f"expander {host}", self.expander)
            name = f"expander-{host}:{number}"
            path = kernel.device(f"{path}/port-{chain}:{port}/{name}", "")
            kernel.device(f"{path}/sas_expander/{name}", "sas_expander")
            facts = {"sas_address": self.expander}
            kernel.device(f"{path}/sas_device/{name}", "sas_device", facts)
            chain = f"{host}:{number}"
        port = kernel.count(f"port {chain}", self)
        name = f"end_device-{chain}:{port}"
        path = kernel.device(f"{path}/port-{chain}:{port}/{name}", "")
        facts = {"phy_identifier": str(self.phy), "sas_address": f"0x5000c500a{self.phy:07x}"}
        kernel.device(f"{path}/sas_device/{name}", "sas_device", facts)
        return self._show(kernel, path, (host, 0, kernel.count("sas target", self), 0), self.wwid)


@dataclass(eq=False)
class VirtualDisk(ScsiDisk):
    """A disk of virtio-scsi, or a volume of a RAID controller: channel, target and LUN show it."""

    WHERE = "{controller} {channel}:{target}:{lun}"
    channel: int = 0
    target: int = 0
    lun: int = 0
    controller: str = "0000:00:05.0"

    def appear(self, kernel: Kernel) -> str:
        path = f"{pci_function(kernel, self.controller)}/virtio2"
        path, host = _scsi_host(kernel, kernel.device(path, "virtio"), self.controller)
        return self._show(kernel, path, (host, self.channel, self.target, self.lun), "")


@dataclass(eq=False)
class UsbDisk(ScsiDisk):
    """A disk or card behind a USB bridge."""

    ON = "usb"
    usb: UsbDevice
    lun: int = 0

    def appear(self, kernel: Kernel) -> str:
        path, host = _scsi_host(kernel, self.usb.appear(kernel), self.usb)
        return self._show(kernel, path, (host, 0, 0, self.lun), "")


@dataclass(eq=False)
class Namespace(Disk):
    """A namespace of an NVMe controller."""

    WHERE = "{controller} namespace {nsid}"
    UNIQUE = "place"
    nsid: int
    controller: str = "0000:01:00.0"

    def appear(self, kernel: Kernel) -> str:
        function = pci_function(kernel, self.controller, "0x010802")
        instance = kernel.count("nvme", self.controller)
        facts = {"serial": f"S-{self.controller}", "model": "ACME", "cntlid": "1"}
        path, name = f"{function}/nvme/nvme{instance}", f"nvme{instance}"
        kernel.device(path, "nvme", facts, node=name)
        rest = f"{instance}n{kernel.count(f'namespace {instance}', self, first=1)}"
        kernel.part(self, f"{path}/ng{rest}", "nvme-generic")
        _block(kernel, f"{path}/nvme{rest}", self, [f"disk/by-id/nvme-ACME_S_{self.nsid}"])
        directory = f"sys/{_DEVICES}/{path}/nvme{rest}"
        kernel.files[f"{directory}/nsid"] = f"{self.nsid}\n"
        kernel.files[f"{directory}/wwid"] = f"eui.{self.controller}.{self.nsid}\n"
        return f"{path}/nvme{rest}"


@dataclass(eq=False)
class MmcArea(Disk):
    """The user area of an eMMC, or ``boot0``, ``boot1``, ``rpmb``."""

    WHERE = "{controller} {area}"
    UNIQUE = "place"
    area: str = ""
    controller: str = "fe340000.mmc"

    def appear(self, kernel: Kernel) -> str:
        platform = platform_device(kernel, self.controller)
        number = kernel.count("mmc", self.controller)
        path = kernel.device(f"{platform}/mmc_host/mmc{number}", "mmc_host")
        facts = {"cid": f"15010038474d{number}", "name": "8GME4R", "serial": "0x1234"}
        path = kernel.device(f"{path}/mmc{number}:0001", "mmc", facts, uevent={"MMC_TYPE": "MMC"})
        disk = f"mmcblk{number}"
        if self.area == "rpmb":
            return kernel.part(self, f"{path}/{disk}rpmb", "mmc_rpmb")
        path = f"{path}/block/{disk}"
        return _block(kernel, f"{path}/{disk}{self.area}" if self.area else path, self)


@dataclass(eq=False)
class Partition(Hardware):
    """A partition of a disk."""

    ON = "disk"
    disk: Disk
    number: int

    def appear(self, kernel: Kernel) -> str:
        disk = self.disk.appear(kernel)
        name = disk.rpartition("/")[2]
        name = f"{name}{'p' if name[-1].isdecimal() else ''}{self.number}"
        links = [f"disk/by-id/part-{self.disk.place.replace(' ', '_')}-part{self.number}"]
        facts, path = {"partition": str(self.number)}, f"{disk}/{name}"
        keys: dict[str, Any] = {"devtype": "partition", "uevent": {"PARTN": str(self.number)}}
        return kernel.part(self, path, "block", facts, links=links, **keys)


@dataclass(eq=False)
class Loop(Disk):
    """A disk without hardware whose name is what it is: ``loop3``, ``zram0``."""

    WHERE = "{name}"
    name: str
    file: str = ""
    """Behind a loop device."""

    def appear(self, kernel: Kernel) -> str:
        path = _block(kernel, f"virtual/block/{self.name}", self)
        if self.file:
            kernel.files[f"sys/{_DEVICES}/{path}/loop/backing_file"] = f"{self.file}\n"
        return path


# Cards


@dataclass(eq=False)
class OnCard(Hardware):
    """Something that a PCI function has."""

    WHERE = "{address}"
    address: str


@dataclass(eq=False)
class Port(OnCard):
    """A network port of a card that has one or several; ``can`` ports have no MAC address."""

    UNIQUE = "mac"
    number: int = 0
    """As ``dev_port`` shows it, or ``dev_id`` where ``is_old``."""
    kind: str = "eth"
    mac: str = ""
    represents: str = ""
    """``phys_port_name``."""
    is_old: bool = False

    def appear(self, kernel: Kernel) -> str:
        facts = {"dev_port": str(0 if self.is_old else self.number)}
        facts["dev_id"] = hex(self.number if self.is_old else 0)
        if self.represents:
            facts["phys_port_name"] = self.represents
        path = pci_function(kernel, self.address, "0x020000")
        return _interface_of_net(kernel, path, self, self.kind, self.mac, facts)


def _interface_of_net(
    kernel: Kernel,
    above: str,
    owner: Hardware,
    kind: str,
    mac: str,
    facts: Mapping[str, str],
) -> str:
    name = f"{kind}{kernel.count(kind, owner)}"
    index = str(kernel.count("ifindex", owner, first=2))
    facts = {**facts, "type": "280" if kind == "can" else "1", "ifindex": index}
    if kind != "can":
        facts |= {"address": mac or "02:00:00:00:00:01", "addr_assign_type": "0" if mac else "1"}
    uevent = {"INTERFACE": name, "IFINDEX": index}
    return kernel.part(owner, f"{above}/net/{name}", "net", facts, node="", uevent=uevent)


@dataclass(eq=False)
class RdmaFunction(OnCard):
    """A function with a network port and an InfiniBand device, or a subfunction of it."""

    UNIQUE = "place"
    sfnum: int | None = None

    def appear(self, kernel: Kernel) -> str:
        path = pci_function(kernel, self.address, "0x020000")
        if self.sfnum is not None:
            number = kernel.count("mlx5_core.sf", self, first=2)
            path = f"{path}/mlx5_core.sf.{number}"
            kernel.device(path, "auxiliary", {"sfnum": str(self.sfnum)})
        tail = f"{self.address[5:7]}:{self.sfnum or 0:02x}"
        facts = {"dev_port": "0", "dev_id": "0x0"}
        if self.sfnum is None:
            facts["phys_port_name"] = "p0"
        _interface_of_net(kernel, path, self, "eth", f"b8:3f:d2:00:{tail}", facts)
        name = f"mlx5_{kernel.count('mlx5', self)}"
        facts = {"node_guid": f"b83f:d203:00{tail[:2]}:00{tail[3:]}", "node_type": "1: CA"}
        kernel.part(self, f"{path}/infiniband/{name}", "infiniband", facts, node="")
        verbs, subsystem = f"{path}/infiniband_verbs/uverbs*", "infiniband_verbs"
        return kernel.part(self, verbs, subsystem, {"ibdev": name}, node="infiniband/*")


@dataclass(eq=False)
class MediatedDevice(OnCard):
    """A vGPU: a directory with its UUID below the function that it is a piece of."""

    UNIQUE = "place"
    uuid: str
    type: str = "nvidia-35"

    def appear(self, kernel: Kernel) -> str:
        function = pci_function(kernel, self.address, "0x030000")
        path = f"{function}/{self.uuid}"
        kernel.part(self, path, "mdev", node="")
        types = f"sys/{_DEVICES}/{function}/mdev_supported_types/{self.type}"
        kernel.files[f"{types}/name"] = f"GRID {self.type}\n"
        kernel.files[f"sys/{_DEVICES}/{path}/mdev_type"] = Link(
            f"../mdev_supported_types/{self.type}"
        )
        return path


@dataclass(eq=False)
class DrmNode(OnCard):
    """``card`` or ``renderD`` of a GPU."""

    kind: str = "card"

    def appear(self, kernel: Kernel) -> str:
        path = pci_function(kernel, self.address, "0x030000")
        return _drm(kernel, path, self, self.kind)


def _drm(kernel: Kernel, above: str, owner: Hardware, kind: str) -> str:
    keys: dict[str, Any] = {"label": f"drm {kind}", "node": "dri/*", "devtype": "drm_minor"}
    first = 128 if kind == "renderD" else 0
    path = kernel.part(owner, f"{above}/drm/{kind}*", "drm", first=first, **keys)
    if kind == "card":
        kernel.device(f"{path}/{path.rpartition('/')[2]}-DP-1", "drm", {"status": "connected"})
    return path


@dataclass(eq=False)
class AcceleratorPartition(Hardware):
    """A piece of an AMD accelerator: a platform device that is numbered as it appears."""

    WHERE = "xcp {index}"
    index: int
    is_weak = True

    def appear(self, kernel: Kernel) -> str:
        path = platform_device(kernel, f"amdgpu_xcp_{kernel.count('xcp', self)}")
        return _drm(kernel, path, self, "renderD")


@dataclass(eq=False)
class NpuNode(OnCard):
    """An accelerator with nodes for the whole, each core, and pairs of cores."""

    core: str = ""
    """As in ``pe0-1``."""

    def appear(self, kernel: Kernel) -> str:
        function = pci_function(kernel, self.address, "0x120000")
        name = f"npu{kernel.count('npu', self.address)}{self.core}"
        return kernel.part(self, f"{function}/npu/{name}", "npu")


@dataclass(eq=False)
class SoundNode(OnCard):
    """A node of a sound card."""

    node: str = "controlC*"
    """Its name with ``*`` for the number of the card."""

    def appear(self, kernel: Kernel) -> str:
        function = pci_function(kernel, self.address, "0x040300")
        card = kernel.count("sound card", self.address)
        path = kernel.device(f"{function}/sound/card{card}", "sound", {"number": str(card)})
        name = self.node.replace("*", str(card))
        return kernel.part(self, f"{path}/{name}", "sound", node="snd/*")


@dataclass(eq=False)
class PciSerialPort(OnCard):
    """A port of a serial card; since Linux 6.5 its place is shown by the bus ``serial-base``."""

    number: int = 0
    has_bus: bool = True

    @property
    def is_weak(self) -> bool:  # type: ignore[override]  # depends on the kernel
        return not self.has_bus

    def appear(self, kernel: Kernel) -> str:
        path = pci_function(kernel, self.address, "0x070002")
        if self.has_bus:
            name = f"{self.address}:0"
            path = kernel.device(f"{path}/{name}", "serial-base", devtype="ctrl")
            name = f"{name}.{self.number}"
            path = kernel.device(f"{path}/{name}", "serial-base", devtype="port")
        return kernel.part(self, f"{path}/tty/ttyS*", "tty", first=4)


@dataclass(eq=False)
class I2cAdapter(OnCard):
    """An I2C bus of a card, known by what the driver calls it."""

    name: str = "i915 gmbus dpa"

    def appear(self, kernel: Kernel) -> str:
        name = f"i2c-{kernel.count('i2c', self)}"
        path = f"{pci_function(kernel, self.address, '0x030000')}/{name}"
        kernel.device(path, "i2c", {"name": self.name})
        return kernel.part(self, f"{path}/i2c-dev/{name}", "i2c-dev", {"name": self.name})


@dataclass(eq=False)
class SpiDevice(Hardware):
    """A device behind a chip select of an SPI controller."""

    WHERE = "{controller} {chip_select}"
    chip_select: int = 0
    controller: str = "fe204000.spi"

    def appear(self, kernel: Kernel) -> str:
        platform = platform_device(kernel, self.controller)
        number = kernel.count("spi", self.controller)
        path = kernel.device(f"{platform}/spi_master/spi{number}", "spi_master")
        name = f"{number}.{self.chip_select}"
        path = kernel.device(f"{path}/spi{name}", "spi", uevent={"MODALIAS": "spi:spidev"})
        return kernel.part(self, f"{path}/spidev/spidev{name}", "spidev")


UUIDS = (
    "4b20d080-1b54-4048-85b3-a6a62d165c01",
    "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001",
    "c6d2e0a5-0b2b-4c0a-8a2d-0c8f5b1e2f3a",
)

SOUND = ("controlC*", "pcmC*D0p", "pcmC*D0c", "pcmC*D3p", "hwC*D0")


def full_rack() -> dict[str, list[Hardware]]:
    """Return new hardware of every kind, several at each place; nothing is plugged in twice.

    The kernel numbers what is of one family together.
    """
    gpu, other_gpu = "0000:00:02.0", "0000:06:00.0"
    bridge, several = UsbDevice("2-3", "B1", "1561"), UsbDevice("1-1.2", product="6011")
    camera, receiver = UsbDevice("1-2", "C1", "0892"), UsbDevice("1-3", "", "c52b")
    sata = [SataDisk(port, f"naa.5000c500{port}") for port in (1, 2, 3)]
    virtual = [VirtualDisk(*address) for address in ((), (0, 2), (0, 2, 1), (1,), (1, 0, 3))]
    sas = [SasDisk(phy, f"naa.6000c500{phy}") for phy in (0, 3)]
    behind = [SasDisk(phy, f"naa.7000c500{phy}", "0x500304801") for phy in (0, 3, 5)]
    luns = [UsbDisk(bridge, lun) for lun in (0, 1, 3)]
    nvme = [Namespace(1), Namespace(2), Namespace(7)]
    mmc = [MmcArea(area) for area in ("", "boot0", "boot1", "rpmb")]
    return {
        "sata": [*sata, SataDisk(1, "naa.5000c5009", "0000:07:00.0"), *_parted(*sata[:2])],
        "scsi": [*virtual, *luns, *_parted(virtual[1], luns[1])],
        "sas": [*sas, *behind, *_parted(sas[1], behind[0])],
        "nvme": [*nvme, Namespace(2, "0000:0b:00.0"), *_parted(*nvme[:2])],
        "mmc": [*mmc, *_parted(mmc[0])],
        "virtual disks": [*map(Loop, ("loop0", "loop3", "zram0"))],
        "usb serial": [
            SerialPort(UsbDevice("1-1.4", "A1")),
            *(SerialPort(several, number) for number in range(4)),
        ],
        "video": [*(VideoNode(camera, index) for index in (0, 1, 2)), MediaNode(camera)],
        "hid": [
            HidDevice(receiver, kinds=("event", "mouse")),
            HidDevice(receiver, 1, ("event", "js"), unique="4041-01"),
            HidDevice(receiver, 2, unique="4041-02"),
        ],
        "ethernet": [
            *(Port("0000:04:00.0", n, mac=f"00:1b:21:00:00:0{n}") for n in (0, 1, 2)),
            *(Port("0000:05:00.0", n, mac=f"00:1b:21:00:01:0{n}", is_old=True) for n in (0, 1)),
        ],
        "can": [Port("0000:09:00.0", number, "can") for number in (0, 1, 2)],
        "rdma": [
            RdmaFunction("0000:3b:00.0"),
            *(RdmaFunction("0000:3b:00.0", sfnum) for sfnum in (0, 88, 99)),
            *(Port("0000:3b:00.0", represents=name) for name in ("pf0sf88", "pf0vf1")),
        ],
        "mdev": [
            *(MediatedDevice(other_gpu, uuid) for uuid in UUIDS[:2]),
            MediatedDevice(other_gpu, UUIDS[2], "nvidia-36"),
        ],
        "drm": [
            *(DrmNode(theirs, kind) for theirs in (gpu, other_gpu) for kind in ("card", "renderD")),
            *map(AcceleratorPartition, (0, 1)),
        ],
        "npu": [NpuNode("0000:0a:00.0", core) for core in ("", "pe0", "pe1", "pe0-1")],
        "sound": [
            *(SoundNode("0000:00:1f.3", node) for node in SOUND),
            SoundNode("0000:08:00.0"),
        ],
        "pci serial": [
            *(PciSerialPort("0000:03:00.0", number) for number in (0, 1, 3)),
            *(PciSerialPort("0000:0d:00.0", number, has_bus=False) for number in (0, 1)),
        ],
        "i2c": [I2cAdapter(gpu, f"i915 gmbus {pin}") for pin in ("dpa", "dpb", "tc1")],
        "spi": [SpiDevice(number) for number in (0, 1)],
        "twins": [Port("0000:0c:00.0", 0, "can"), Port("0000:0c:00.0", 0, "can")],
    }


def _parted(*disks: Disk) -> list[Partition]:
    return [Partition(disk, number) for disk in disks for number in (1, 2)]
