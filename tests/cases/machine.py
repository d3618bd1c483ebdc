"""The machine of a case: a copied tree, made of ``machine.yaml`` or of a recorded host.

::

    host: sticks   # of tests/cases/machines, tests/hosts or tests/testbeds; testbeds/can is there
    nodes: {fuse: 10:229, net/tun: 10:200}   # device nodes of no bus, with their numbers
    files: {/opt/firmware: "text", /opt/empty/: ""}
    links: {/dev/serial/by-id/usb-A1: ../../ttyUSB0}
    devices:
      /pci0000:00/0000:00:14.0:          # below /sys/devices
        subsystem: pci
        driver: xhci_hcd
        vendor: "0x8086"                 # an attribute; KEYS in capitals are properties
        /usb1/1-1:                       # a device below that one
          subsystem: usb
          DEVTYPE: usb_device
          serial: A1
          busnum: 1                      # plugged in again it gets the next number, and its node
          devnum: 5
          node: 189:4 bus/usb/001/005
          /1-1:1.0/ttyUSB0/tty/ttyUSB0:
            {subsystem: tty, node: 188:0, links: [serial/by-id/usb-A1]}

All values are strings, as written. ``node`` is a number, and a name unless it is the device's.
``plugged: false``: it is not there before ``$ plug NAME``. ``driver`` and ``iommu_group`` are
links, as in sysfs. A path without keys is not a device, only a directory.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.host.root import Root

from tests.cases.description import (
    OF_DEVICES,
    CaseError,
    entry_of,
    flattened,
    mistake,
    nearest,
    read,
    shown,
)
from tests.testbeds import loading
from tests.testbeds.loading import Entry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MACHINES = Path(__file__).parent / "machines"
_TESTS = Path(__file__).parents[1]


class Machine:
    """A machine as a copied tree, whose devices come and go."""

    def __init__(self, directory: Path, description: Path | None = None) -> None:
        """Make the tree below a directory, empty if it is not described; raise CaseError."""
        self.directory = directory
        self.root = Root(directory)
        self.entries: dict[str, Entry] = {}
        """All devices by path, also those that are not plugged."""
        self._seen: set[str] = set()
        """Paths of those that were plugged at some time."""
        for name in ("dev", "sys/devices", "sys/dev/char", "sys/dev/block"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        if description is None:
            return
        try:
            self._add(description)
        except FileExistsError as error:
            path = str(error.filename2 or error.filename).removeprefix(str(directory))
            raise CaseError(f"{shown(description)}:1: {path} is given twice") from error

    def _add(self, description: Path) -> None:
        document = read(description)
        if name := document.get("host"):
            self._add_host(name)
        nodes = {
            f"/virtual/misc/{name}": {"subsystem": "misc", "node": f"{number} {name}"}
            for name, number in document.get("nodes", {}).items()
        }
        devices = dict(flattened("/devices", {**nodes, **document.get("devices", {})}))
        absent = [path for path, keys in devices.items() if keys.pop("plugged", "")]
        entries = [entry_of(path, keys) for path, keys in devices.items() if "subsystem" in keys]
        self._add_devices(
            [path for path in entries if not any(_is_at(path.path, at) for at in absent)]
        )
        self.entries |= {entry.path: entry for entry in entries}
        for path, text in document.get("files", {}).items():
            self.write(path, text)
        for path, target in document.get("links", {}).items():
            self.link(path, target)

    def _add_host(self, name: str) -> None:
        """Add the devices of a machine that others share, or that was recorded."""
        if (described := _MACHINES / f"{name}.yaml").exists():
            self._add(described)
            return
        recorded = {file.stem: file for file in loading.DIRECTORY.glob("*.umockdev")}
        recorded |= {f"testbeds/{testbed}": file for testbed, file in recorded.items()}
        recorded |= {file.parent.name: file for file in _TESTS.glob("hosts/*/machine.umockdev")}
        if name not in recorded:
            names = [*(file.stem for file in _MACHINES.iterdir()), *recorded]
            raise mistake(name, f"there is no host {name}: {nearest(name, sorted(names))}")
        self._add_devices(loading.parse(recorded[name].read_text()))

    def _add_devices(self, entries: Sequence[Entry]) -> None:
        self.entries |= {entry.path: entry for entry in entries}
        self._seen |= {entry.path for entry in entries}
        loading.build_entries(entries, self.directory)
        for entry in entries:
            if group := entry.pointers.get("iommu_group", "").rpartition("/")[2]:
                member = f"/sys/kernel/iommu_groups/{group}/devices/{entry.path.rpartition('/')[2]}"
                if not self.path(member).is_symlink():
                    self.link(member, f"../../../..{entry.path}")

    def node(
        self,
        name: str,
        number: str,
        *,
        at: str = "virtual/misc",
        kernel_name: str = "",
        block: bool = False,
        **attributes: str,
    ) -> Path:
        """Add a device of a node and, unless it is a block device, no subsystem; return the node.

        ``at`` is where it is below /sys/devices, without its name. It replaces another one there,
        and takes the number from the one that has it: most tests name devices only.
        """
        major, _, minor = number.partition(":")
        entry = Entry(
            path=f"/devices/{at}/{kernel_name or name.rpartition('/')[2]}",
            node=name,
            kernel={"MAJOR": major, "MINOR": minor, **({"SUBSYSTEM": "block"} if block else {})},
            attributes={key: f"{text}\n".encode() for key, text in attributes.items()},
        )
        there, node = self.entries.get(entry.path), self.path(f"/dev/{name}")
        if there == entry and node.exists():
            return node
        if there is not None:
            loading.remove_entry(there, self.directory)
        self.path(f"/sys/dev/{'block' if block else 'char'}/{number}").unlink(missing_ok=True)
        self._add_devices([entry])
        return node

    def below(self, name: str) -> list[Entry]:
        """Return a device and all below it, those above first; raise CaseError."""
        paths = [path for path in self.entries if path.endswith(f"/{name}")]
        if not paths:
            names = [path.rpartition("/")[2] for path in self.entries]
            raise CaseError(f"no device is named {name}: {nearest(name, names)}")
        if len(paths) > 1:
            raise CaseError(f"{name} is the end of more than one: write more of {paths[0]}")
        return [entry for path, entry in self.entries.items() if _is_at(path, paths[0])]

    def plug_in(self, name: str, changes: Mapping[str, str]) -> None:
        """Add a device and all below it, with other attributes than it had; raise CaseError.

        A USB device gets the next number, as from the kernel.
        """
        first, *others = self.below(name)
        if self._is_plugged(first):
            raise CaseError(f"{name} is plugged in: '$ unplug {name}' first")
        above = [entry for path, entry in self.entries.items() if _is_at(first.path, path)]
        if absent := [entry for entry in above if entry != first and not self._is_plugged(entry)]:
            raise CaseError(
                f"its parent is not: '$ plug {absent[0].path.rpartition('/')[2]}' first"
            )
        if wrong := [key for key in changes if key.isupper() or key in (*OF_DEVICES, "devnum")]:
            raise CaseError(f"{wrong[0]} cannot be changed: describe another device, not plugged")
        attributes = {key: f"{value}\n".encode() for key, value in changes.items()}
        first = replace(first, attributes={**first.attributes, **attributes})
        for entry in (first, *others):
            self.entries[entry.path] = self._numbered(entry)
            self._seen.add(entry.path)
        loading.build_entries(self.below(name), self.directory)

    def _is_plugged(self, entry: Entry) -> bool:
        return self.path(f"/sys{entry.path}/uevent").exists()

    def _numbered(self, entry: Entry) -> Entry:
        """Return a USB device with the next number of its bus, or its own if that is to come."""
        if not {"busnum", "devnum"} <= entry.attributes.keys():
            return entry
        bus, number = (int(entry.attributes[key]) for key in ("busnum", "devnum"))
        seen = (other.attributes for path, other in self.entries.items() if path in self._seen)
        given = [int(a["devnum"]) for a in seen if int(a.get("busnum", 0)) == bus and "devnum" in a]
        number = max(number, 1 + max(given, default=0))
        attributes = {**entry.attributes, "devnum": b"%d\n" % number}
        if not entry.node.startswith("bus/usb/"):
            return replace(entry, attributes=attributes)
        kernel = {**entry.kernel, "MINOR": f"{(bus - 1) * 128 + number - 1}"}
        kernel |= {"DEVNUM": f"{number:03}"} if "DEVNUM" in kernel else {}
        node = f"bus/usb/{bus:03}/{number:03}"
        return replace(entry, node=node, kernel=kernel, attributes=attributes)

    def pull_out(self, name: str) -> None:
        """Remove a device and all below it; raise CaseError."""
        first, *others = self.below(name)
        if not self._is_plugged(first):
            raise CaseError(f"{name} is not plugged in: '$ plug {name}' first")
        for entry in reversed([first, *filter(self._is_plugged, others)]):
            loading.remove_entry(entry, self.directory)

    def write(self, path: str, text: str) -> Path:
        """Write a file, or make a directory if its path ends in a slash."""
        file = self.path(path)
        if path.endswith("/"):
            file.mkdir(parents=True, exist_ok=True)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return file

    def link(self, path: str, target: str) -> Path:
        """Make a link, or turn one elsewhere."""
        link = self.path(path)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        return link

    def remove(self, path: str) -> None:
        """Remove a file, link or directory."""
        file = self.path(path)
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink()

    def path(self, path: str) -> Path:
        """Return where a path of the machine is; raise CaseError."""
        if ".." in path.split("/"):
            raise CaseError(f"{path} may leave the machine: write it without '..'")
        return self.directory / path.strip("/")


def _is_at(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")
