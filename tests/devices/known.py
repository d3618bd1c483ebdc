"""A host as values: devices of sysfs with their attributes and links, without files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.inventory import Look, SysDevice, natural_key
from genericdp.devices.paths import PathTarget
from genericdp.template import MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ROOT = "/sys/devices/pci0000:00"


@dataclass(slots=True)
class Known:
    """Answers like ``HostCache``, from what a test has put into it."""

    devices: dict[str, SysDevice] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """Each file that was read."""
    look: Callable[[str], Look | None] = lambda _: Look()
    """What a glob finds."""

    def add(
        self,
        path: str,
        subsystem: str,
        devtype: str = "",
        *,
        driver: str = "",
        number: tuple[int, int] | None = None,
        properties: Mapping[str, str] | None = None,
        links: Mapping[str, str] | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> SysDevice:
        """Add a device below ``ROOT``, or anywhere."""
        syspath = path if path.startswith("/") else f"{ROOT}/{path}"
        node: dict[str, str] = {}
        if number is not None:
            name = f"/dev/{syspath.rpartition('/')[2]}"
            node = {"DEVNAME": name, "MAJOR": str(number[0]), "MINOR": str(number[1])}
        device = SysDevice(
            syspath=syspath,
            subsystem=subsystem,
            devtype=devtype,
            driver=driver,
            properties={**(properties or {}), **node},
        )
        self.devices[syspath] = device
        self.texts |= {f"{syspath}/{name}": text for name, text in (attributes or {}).items()}
        self.links |= {f"{syspath}/{name}": text for name, text in (links or {}).items()}
        return device

    def usb(self, path: str, **attributes: str) -> SysDevice:
        """Add a USB device."""
        return self.add(path, "usb", "usb_device", driver="usb", attributes=attributes)

    def interface(self, path: str, number: str = "00", *, driver: str = "") -> SysDevice:
        """Add an interface of a USB device."""
        return self.add(
            path, "usb", "usb_interface", driver=driver, attributes={"bInterfaceNumber": number}
        )

    def device(self, syspath: str) -> SysDevice | None:
        return self.devices.get(syspath)

    def ancestors(self, device: SysDevice) -> Iterator[SysDevice]:
        directory = device.syspath
        while directory := directory.rpartition("/")[0]:
            if directory in self.devices:
                yield self.devices[directory]

    def members(self, subsystem: str) -> tuple[SysDevice, ...]:
        found = (device for device in self.devices.values() if device.subsystem == subsystem)
        return tuple(sorted(found, key=lambda device: natural_key(device.syspath)))

    def below(self, directory: str, subsystem: str) -> tuple[SysDevice, ...]:
        return tuple(
            device
            for device in self.members(subsystem)
            if device.syspath.startswith(f"{directory}/")
        )

    def subsystems(self) -> tuple[str, ...]:
        return tuple(sorted({device.subsystem for device in self.devices.values()}))

    def attribute(self, syspath: str, name: str) -> str | None:
        return self.text(f"{syspath}/{name}")

    def realpath(self, path: str) -> str | None:
        return self.links.get(path)

    def target(self, path: str) -> PathTarget:
        return PathTarget(target=path)

    def mount_target(self, path: str) -> PathTarget:
        look = self.look(glob.escape(path))
        for found in () if look is None else look.files:
            return PathTarget(target=found.target, refusal=found.mount_refusal)
        return PathTarget(target=path)

    def exists_on_host(self, path: str) -> bool | None:
        look = self.look(glob.escape(path))
        return None if look is None else bool(look.files)

    def text(self, path: str, *, limit: int = MAX_TEXT) -> str | None:
        self.asked.append(path)
        return self.texts.get(path)

    def paths(self, pattern: str) -> tuple[str, ...]:
        return tuple(path for path in sorted(self.links) if glob.matches(pattern, path))

    def why_unreadable(self, path: str) -> str:
        return self.unreadable.get(path, "")

    def awaited(self, syspath: str) -> bool:
        return False
