"""A machine of the testbeds whose devices can be unplugged and plugged in again."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from genericdp.devices.decide import decide
from genericdp.host.cache import HostCache
from genericdp.host.events import Uevent
from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from genericdp.devices.decide import DeviceLists
    from genericdp.model import Resource


class Machine:
    """A copied tree; what is unplugged is told as the kernel would."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder / "tree"
        self._scratch = folder
        self.root = loading.build(loading.path_of(name), self.folder)
        self._blocks = {
            f"/{block.partition('P: /')[2].partition(chr(10))[0]}": block
            for block in loading.path_of(name).read_text().split("\n\n")
            if block.strip()
        }

    def below(self, folder: str) -> list[str]:
        """The paths of a device and of all that sits on it, those above first."""
        return [path for path in self._blocks if f"{path}/".startswith(f"{folder}/")]

    def unplug(self, folder: str) -> list[Uevent]:
        """Remove a device with all that sits on it."""
        paths = self.below(folder)
        for path in paths:
            (entry,) = loading.parse(self._blocks[path])
            record = self.folder / "run/udev/data" / loading.record_name(entry)
            record.unlink(missing_ok=True)
            name = path.rpartition("/")[2]
            (self.folder / f"sys/bus/{entry.subsystem}/devices" / name).unlink(missing_ok=True)
            (self.folder / f"sys/class/{entry.subsystem}" / name).unlink(missing_ok=True)
            if entry.node:
                kind = "block" if entry.subsystem == "block" else "char"
                (self.folder / f"sys/dev/{kind}/{entry.number}").unlink(missing_ok=True)
                for link in (entry.node, *entry.links):
                    (self.folder / "dev" / link).unlink(missing_ok=True)
        shutil.rmtree(self.folder / f"sys{folder}")
        return [self.event("remove", path) for path in reversed(paths)]

    def plug(
        self, folder: str, changes: Mapping[str, str] | None = None, *, recorded: bool = True
    ) -> list[Uevent]:
        """Add it again; ``changes`` of its text make another device of it."""
        text = "\n\n".join(self._blocks[path] for path in self.below(folder))
        for old, new in (changes or {}).items():
            text = text.replace(old, new)
        part = self._scratch / "part.umockdev"
        part.write_text(text + "\n")
        loading.build(part, self.folder)
        if not recorded:
            for path in self.below(folder):
                (entry,) = loading.parse(self._blocks[path])
                record = self.folder / "run/udev/data" / loading.record_name(entry)
                record.unlink(missing_ok=True)
        return [self.event("add", path) for path in self.below(folder)]

    def record(self, folder: str) -> list[str]:
        """Have udev record what has been plugged; gives the records' names."""
        names = []
        for path in self.below(folder):
            (entry,) = loading.parse(self._blocks[path])
            if entry.udev:
                names.append(loading.record_name(entry))
                record = self.folder / "run/udev/data" / names[-1]
                record.write_text(loading.record_of(entry))
        return names

    def event(self, action: str, path: str) -> Uevent:
        """What the kernel tells of one device."""
        return Uevent(action=action, syspath=f"/sys{path}")

    def offers(self, *resources: Resource) -> DeviceLists:
        """One look at everything."""
        host = HostCache(self.root)
        return decide(resources, host, node_name="n", previous={}, now=0.0).lists
