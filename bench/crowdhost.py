"""A folder of device nodes for each of very many resources, and what the kubelet has to know."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.nodes import describe
from genericdp.devices.device import as_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDER = "genericdp-bench-crowd"
_MAJOR = 241
"""For local use, says the kernel's list of devices: no driver answers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Crowd:
    """A folder of device nodes for each resource; real ones, or plain files of a copied tree."""

    root: Path
    real: bool
    resources: int
    devices: int
    """Of each resource."""

    @property
    def folder(self) -> Path:
        """Where they are, on this machine."""
        return self.root / "dev" / FOLDER

    @property
    def globs(self) -> dict[str, str]:
        """What each resource is made of."""
        return {self.name(one): self.glob(one) for one in range(self.resources)}

    @property
    def kind(self) -> str:
        """What the nodes are, in words."""
        return "real device nodes" if self.real else "plain files of a copied tree (no root)"

    def glob(self, resource: int) -> str:
        """Give what finds all devices of a resource."""
        return f"/dev/{FOLDER}/{resource}/*"

    def name(self, resource: int) -> str:
        """Give the name of a resource; one more than there are has a folder as well."""
        return f"bench.example.com/crowd-{resource}"

    def path(self, resource: int, device: int) -> str:
        """Give where a device is, as the daemon sees it."""
        return f"/dev/{FOLDER}/{resource}/{device}"

    def device_id(self, resource: int, device: int) -> str:
        """Give what the kubelet has to call a device."""
        if not self.real:
            return f"crowd-{self._number(resource, device)}"  # sysfs has a name for it
        return as_id(self.path(resource, device).removeprefix("/dev/"))

    def ids(self, resource: int) -> set[str]:
        """Give what the kubelet has to call all devices of a resource."""
        return {self.device_id(resource, one) for one in range(self.devices)}

    def make(self, resource: int, device: int) -> None:
        """Make a node."""
        path = self.folder / str(resource) / str(device)
        if self.real:
            number = os.makedev(_MAJOR, self._number(resource, device))
            os.mknod(path, stat.S_IFCHR | 0o600, number)
        else:
            path.touch()

    def remove(self, resource: int, device: int) -> None:
        """Remove it again."""
        (self.folder / str(resource) / str(device)).unlink()

    def make_all(self) -> None:
        """Make all, and a folder of one node for a resource that comes later."""
        for resource in range(self.resources + 1):
            (self.folder / str(resource)).mkdir(parents=True)
            for device in range(self.devices if resource < self.resources else 1):
                self.make(resource, device)
                if not self.real:
                    self._describe(resource, device)

    def _number(self, resource: int, device: int) -> int:
        return resource * self.devices + device

    def _describe(self, resource: int, device: int) -> None:
        number = self._number(resource, device)
        node = self.path(resource, device).removeprefix("/dev/")
        describe(self.root, (_MAJOR, number), f"crowd-{number}", node)


@contextmanager
def crowd(resources: int, devices: int, scratch: Path, *, real: bool) -> Iterator[Crowd]:
    """Make so many nodes; they are removed whatever happens, and what an earlier run has left."""
    root = Path("/") if real else scratch / "tree"
    made = Crowd(root=root, real=real, resources=resources, devices=devices)
    shutil.rmtree(made.folder, ignore_errors=True)
    try:
        made.make_all()
        yield made
    finally:
        shutil.rmtree(made.folder if real else made.root)


def wrong(listed: Mapping[str, Mapping[str, str]], expected: Crowd) -> list[str]:
    """Say what of these lists, health by id and resource, is not as it has to be.

    Each resource has exactly its own devices, and all are healthy.
    """
    found = []
    for number in range(expected.resources):
        name, ids = expected.name(number), expected.ids(number)
        its = listed.get(name, {})
        if lacking := ids - its.keys():
            found.append(f"{name} lacks {len(lacking)}, as {min(lacking)}")
        if foreign := its.keys() - ids:
            found.append(f"{name} has {len(foreign)} too many, as {min(foreign)}")
        if ill := [one for one, health in its.items() if health != "Healthy"]:
            found.append(f"{name}: {len(ill)} are not healthy, as {min(ill)}")
    return found
