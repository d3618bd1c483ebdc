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
          /1-1:1.0/ttyUSB0/tty/ttyUSB0:
            {subsystem: tty, node: 188:0, links: [serial/by-id/usb-A1]}

All values are strings, as written. ``node`` is a number, and a name unless it is the device's.
``plugged: false``: it is not there before ``$ plug NAME``. ``driver`` and ``iommu_group`` are
links, as in sysfs. What has no subsystem is not a device, only a directory.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.testbeds import loading
from tests.testbeds.loading import OF_UDEV, Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_MACHINES = Path(__file__).parent / "machines"
_TESTS = Path(__file__).parents[1]
_KEYS = {"host", "nodes", "files", "links", "devices"}
_UDEV = tuple(key.removeprefix("E: ") for key in OF_UDEV)


class MachineError(Exception):
    """A mistake in a ``machine.yaml``."""


class Machine:
    """A machine as a copied tree, whose devices come and go."""

    def __init__(self, description: Path, root: Path) -> None:
        """Make the tree below ``root``; raise MachineError."""
        self.root = root
        self.entries: dict[str, Entry] = {}
        """All devices by path, also those that are not plugged."""
        (root / "sys/devices").mkdir(parents=True)
        self._add(description)

    def _add(self, description: Path) -> None:
        # Strings only: 116:1 would be a number of seconds, 0403 one of base 8.
        document: Any = yaml.load(description.read_text(), yaml.BaseLoader)
        if not isinstance(document, dict) or (unknown := document.keys() - _KEYS):
            what = sorted(unknown) if isinstance(document, dict) else "no mapping"
            raise MachineError(f"{what}; the keys are {', '.join(sorted(_KEYS))}")
        if name := document.get("host"):
            self._add_host(name)
        nodes = {
            f"/virtual/misc/{name}": {"subsystem": "misc", "node": f"{number} {name}"}
            for name, number in document.get("nodes", {}).items()
        }
        devices = dict(_flattened("/devices", {**nodes, **document.get("devices", {})}))
        absent = [path for path, keys in devices.items() if keys.pop("plugged", "") == "false"]
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
        example = _TESTS / "hosts" / name / "machine.umockdev"
        recorded = example if example.exists() else loading.path_of(name.rpartition("/")[2])
        text = recorded.read_text()
        self._add_devices(loading.parse(text))

    def _add_devices(self, entries: Sequence[Entry]) -> None:
        self.entries |= {entry.path: entry for entry in entries}
        loading.build_entries(entries, self.root)
        for entry in entries:
            if group := entry.pointers.get("iommu_group", "").rpartition("/")[2]:
                member = f"/sys/kernel/iommu_groups/{group}/devices/{entry.path.rpartition('/')[2]}"
                if not self.path(member).is_symlink():
                    self.link(member, f"../../../..{entry.path}")

    def below(self, name: str) -> list[Entry]:
        """Return a device and all below it, those above first; raise MachineError."""
        paths = [path for path in self.entries if path.rpartition("/")[2] == name]
        if len(paths) != 1:
            raise MachineError(f"{len(paths)} devices are named {name}")
        return [entry for path, entry in self.entries.items() if _is_at(path, paths[0])]

    def plug(self, name: str, changes: Mapping[str, str]) -> None:
        """Add a device and all below it, with other attributes than it had.

        A USB device gets the next number, as from the kernel.
        """
        first, *others = self.below(name)
        attributes = {key: f"{value}\n".encode() for key, value in changes.items()}
        if number := first.attributes.get("devnum"):
            attributes.setdefault("devnum", b"%d\n" % (int(number) + 1))
        first = replace(first, attributes={**first.attributes, **attributes})
        self.entries[first.path] = first
        loading.build_entries([first, *others], self.root)

    def unplug(self, name: str) -> None:
        """Remove a device and all below it."""
        for entry in reversed(self.below(name)):
            loading.remove_entry(entry, self.root)

    def write(self, path: str, text: str) -> None:
        """Write a file, or make a directory if its path ends in a slash."""
        file = self.path(path)
        if path.endswith("/"):
            file.mkdir(parents=True, exist_ok=True)
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def link(self, path: str, target: str) -> None:
        """Make a link, or turn one elsewhere."""
        link = self.path(path)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)

    def remove(self, path: str) -> None:
        """Remove a file, link or directory."""
        file = self.path(path)
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink()

    def path(self, path: str) -> Path:
        """Return where a path of the machine is."""
        return self.root / path.strip("/")


def _is_at(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")


def _flattened(above: str, devices: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, keys in devices.items():
        if not (name.startswith("/") and isinstance(keys, dict)):
            raise MachineError(f"{name!r} is not a device: /PATH: {{subsystem: NAME, …}}")
        path = above + name
        yield path, {key: value for key, value in keys.items() if not key.startswith("/")}
        below = {key: value for key, value in keys.items() if key.startswith("/")}
        yield from _flattened(path, below)


def entry_of(path: str, keys: dict[str, Any]) -> Entry:
    """Return a device of its keys; raise MachineError."""
    name = path.rpartition("/")[2].replace("!", "/")
    properties = {"SUBSYSTEM": keys.pop("subsystem")}
    number, _, node = keys.pop("node", "").partition(" ")
    if number:
        properties["MAJOR"], _, properties["MINOR"] = number.partition(":")
    links = tuple(keys.pop("links", ()))
    pointers = {}
    top = "../" * path.count("/")
    if driver := keys.pop("driver", ""):
        pointers["driver"] = f"{top}bus/{properties['SUBSYSTEM']}/drivers/{driver}"
        properties["DRIVER"] = driver
    if group := keys.pop("iommu_group", ""):
        pointers["iommu_group"] = f"{top}kernel/iommu_groups/{group}"
    properties |= {key: value for key, value in keys.items() if key.isupper()}
    recorded = {key: value for key, value in properties.items() if key.startswith(_UDEV)}
    attributes = {key: f"{value}\n".encode() for key, value in keys.items() if not key.isupper()}
    return Entry(
        path=path,
        node=(node or name) if number else "",
        links=links,
        kernel={key: value for key, value in properties.items() if not key.startswith(_UDEV)},
        udev={"USEC_INITIALIZED": "1", **recorded} if recorded else {},
        attributes=attributes,
        pointers=pointers,
    )
