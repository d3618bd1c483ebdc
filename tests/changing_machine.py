"""A made-up machine that changes, and tells of it as kernel, udev and inotify do."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.host.events import Uevent
from tests.fixtures.make_tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

PCI = "devices/pci0000:00/0000:00:14.0"
MISC = "/sys/devices/virtual/misc/other"
PLACES = range(4)


@dataclass(slots=True)
class Told:
    """What has been told since the last pass."""

    syspaths: set[str] = field(default_factory=set)
    records: set[str] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)


class Changing:
    """Each method changes something and takes note of what is told of it."""

    def __init__(self, folder: Path) -> None:
        self.tree = Tree(folder)
        self.told = Told()
        self.kinds: dict[str, tuple[str, tuple[int, int] | None]] = {MISC: ("misc", None)}
        """The subsystem and the number of each device that there has been, by its folder."""
        self.present: set[int] = set()
        self.minors: dict[int, int] = {}
        for name in ("bus/usb/devices", "bus/pci/devices", "class/tty", "class/video4linux"):
            (folder / "sys" / name).mkdir(parents=True)
        for name in ("dev/serial/by-id", "dev/out", "dev/aux", "run/udev/data", "proc/driver"):
            (folder / name).mkdir(parents=True)
        self.device(PCI, "bus/pci", "", vendor="0x8086", numa_node="0")
        self.tree.write("sys/devices/system/node/online", "0\n")
        for place in PLACES:
            self.write_outside(place, "1")

    def device(self, at: str, subsystem: str, uevent: str, **attributes: str) -> None:
        up = "../" * (at.count("/") + 1)
        self.tree.write(f"sys/{at}/uevent", uevent)
        self.tree.link(f"sys/{at}/subsystem", f"{up}{subsystem}")
        members = f"{subsystem}/devices" if subsystem.startswith("bus") else subsystem
        up = "../" * (members.count("/") + 1)
        self.tree.link(f"sys/{members}/{at.rpartition('/')[2]}", f"{up}{at}")
        for name, text in attributes.items():
            self.tree.write(f"sys/{at}/{name}", f"{text}\n")
        self.told.syspaths.add(f"/sys/{at}")
        numbers = dict(line.split("=") for line in uevent.splitlines())
        number = (int(numbers["MAJOR"]), int(numbers["MINOR"])) if "MAJOR" in numbers else None
        self.kinds[f"/sys/{at}"] = (subsystem.rpartition("/")[2], number)

    def _gone(self, at: str, subsystem: str) -> None:
        members = f"{subsystem}/devices" if subsystem.startswith("bus") else subsystem
        self.unlink(f"sys/{members}/{at.rpartition('/')[2]}")
        shutil.rmtree(self.tree.folder / "sys" / at, ignore_errors=True)
        self.told.syspaths.add(f"/sys/{at}")

    def events(self) -> list[Uevent]:
        """Return what the kernel has told since the last pass."""
        actions = {
            at: "change" if (self.tree.folder / at[1:]).is_dir() else "remove"
            for at in sorted(self.told.syspaths & self.kinds.keys())
        }
        return [
            Uevent(action=action, syspath=at, subsystem=self.kinds[at][0], number=self.kinds[at][1])
            for at, action in actions.items()
        ]

    def unlink(self, path: str) -> None:
        (self.tree.folder / path).unlink(missing_ok=True)

    def touch(self, path: str) -> None:
        """Make a device file, or any."""
        self.unlink(path)
        self.tree.write(path, "")
        self.told.paths.add(f"/{path}")

    def vanish(self, path: str) -> None:
        """Remove a file or a link, without an event of a device."""
        self.unlink(path)
        self.told.paths.add(f"/{path}")

    def turn(self, path: str, target: str) -> None:
        """Make a link, or turn it elsewhere."""
        self.tree.link(path, target)
        self.told.paths.add(f"/{path}")

    def plug(self, place: int, *, serial: str = "S", minor: int | None = None) -> None:
        """Plug a serial adapter in, with its node and its link."""
        if place in self.present:
            self.unplug(place)
        self.present.add(place)
        usb, tty = usb_of(place), tty_of(place)
        self.device(
            usb,
            "bus/usb",
            "DEVTYPE=usb_device\n",
            serial=serial,
            idVendor="0403",
            busnum="1",
            devnum=str(place + 5),
        )
        self.device(interface_of(place), "bus/usb", "DEVTYPE=usb_interface\n")
        self._node(tty, "class/tty", self._free(place, place if minor is None else minor))
        self.turn(f"dev/serial/by-id/{serial}-{place}", f"../../ttyUSB{place}")

    def _free(self, place: int, minor: int) -> int:
        """Give the number, or another one if a device has it: no kernel gives it twice."""
        self.minors = {one: its for one, its in self.minors.items() if one in self.present}
        self.minors.pop(place, None)
        free = minor if minor not in self.minors.values() else 10 * (place + 1) + minor
        self.minors[place] = free
        return free

    def renumber(self, place: int, minor: int) -> None:
        """Give the tty another number, as after a replug of its driver."""
        if place in self.present:
            self._without_node(tty_of(place), "class/tty")
            self._node(tty_of(place), "class/tty", self._free(place, minor))

    def unplug(self, place: int) -> None:
        """Take an adapter away, all that sits on it first."""
        self.present.discard(place)
        self.drop_camera(place)
        self._without_node(tty_of(place), "class/tty")
        self._gone(interface_of(place), "bus/usb")
        self._gone(usb_of(place), "bus/usb")
        for link in (self.tree.folder / "dev/serial/by-id").glob(f"*-{place}"):
            self.vanish(f"dev/serial/by-id/{link.name}")

    def add_camera(self, place: int) -> None:
        """Let a second device appear on the same USB device."""
        if place in self.present:
            self._node(camera_of(place), "class/video4linux", place, major=81)

    def drop_camera(self, place: int) -> None:
        """And vanish."""
        self._without_node(camera_of(place), "class/video4linux")

    def _node(self, at: str, subsystem: str, minor: int, *, major: int = 188) -> None:
        name = at.rpartition("/")[2]
        self.device(at, subsystem, f"MAJOR={major}\nMINOR={minor}\nDEVNAME={name}\n")
        self.tree.link(f"sys/dev/char/{major}:{minor}", f"../../{at}")
        self.touch(f"dev/{name}")

    def _without_node(self, at: str, subsystem: str) -> None:
        for link in (self.tree.folder / "sys/dev/char").iterdir():
            if link.readlink().name == at.rpartition("/")[2]:
                link.unlink()
        self.vanish(f"dev/{at.rpartition('/')[2]}")
        self._gone(at, subsystem)

    def set_attribute(self, place: int, name: str, text: str) -> None:
        """Change what the USB device says of itself, with an event of it."""
        if place in self.present:
            self.tree.write(f"sys/{usb_of(place)}/{name}", f"{text}\n")
            self.told.syspaths.add(f"/sys/{usb_of(place)}")

    def set_numa_node(self, node: str, online: str) -> None:
        """Change where the controller hangs, and what is online."""
        self.tree.write(f"sys/{PCI}/numa_node", f"{node}\n")
        self.tree.write("sys/devices/system/node/online", f"{online}\n")
        self.told.syspaths.add(f"/sys/{PCI}")

    def record(self, minor: int, text: str) -> None:
        """Let udev write what it knows of a tty; nothing: the record is removed."""
        name = f"c188:{minor}"
        self.unlink(f"run/udev/data/{name}")
        if text:
            self.tree.write(f"run/udev/data/{name}", f"E:ID_KIND={text}\n")
        self.told.records.add(name)

    def write_outside(self, place: int, text: str) -> None:
        """Change a file outside sysfs; some event comes later."""
        self.tree.write(f"proc/driver/1-{place}", f"{text}\n")
        self.told.syspaths.add(MISC)

    def replace_folder(self, *, kept: bool) -> None:
        """Remove a folder of links, and perhaps make it again, empty."""
        shutil.rmtree(self.tree.folder / "dev/serial", ignore_errors=True)
        if kept:
            (self.tree.folder / "dev/serial/by-id").mkdir(parents=True)
        self.told.paths.add("/dev/serial")


def usb_of(place: int) -> str:
    """The folder of an adapter, below /sys."""
    return f"{PCI}/usb1/1-{place}"


def interface_of(place: int) -> str:
    return f"{usb_of(place)}/1-{place}:1.0"


def tty_of(place: int) -> str:
    return f"{interface_of(place)}/ttyUSB{place}/tty/ttyUSB{place}"


def camera_of(place: int) -> str:
    return f"{interface_of(place)}/video4linux/video{place}"
