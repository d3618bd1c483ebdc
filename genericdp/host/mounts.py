"""The mounts of this process, and which paths of the host it sees because of them."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.host.root import upwards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from genericdp.host.root import Root

_OCTAL = re.compile(r"\\([0-7]{3})")
_OF_CONTAINERS = frozenset({"/dev/termination-log", "/etc/hostname", "/run/.containerenv"})
"""What kubelets, container runtimes and Podman mount into each container."""
_OF_KERNEL = {"devtmpfs": "/dev", "proc": "/proc", "sysfs": "/sys"}
_PARTITIONS = ("", "/home", "/opt", "/run", "/srv", "/usr", "/var")
"""Where hosts mount the filesystems of which containers are given a folder."""


def mounts() -> Iterator[tuple[str, str, str]]:
    """Yield what of its filesystem each mount shows, its mount point, and the filesystem's type.

    Nothing if that cannot be read.
    """
    with suppress(OSError), Path("/proc/self/mountinfo").open("rb") as lines:
        for fields in (os.fsdecode(line).split(" ") for line in lines):
            root, point = (_OCTAL.sub(lambda at: chr(int(at[1], 8)), one) for one in fields[3:5])
            yield root, point, fields[fields.index("-") + 1]


def seeing(root: Root) -> Callable[[str], bool]:
    """Return what says of a path whether what is there can be seen.

    Of a copy of a machine, that is below the top-level folders that it has.
    """
    if root.is_machine:
        return seeing_host(tuple(mounts()))
    folders = frozenset(f"/{name}" for name in root.entries_if_any("/", {}))
    return lambda path: not folders.isdisjoint(upwards(path))


def seeing_host(found: Sequence[tuple[str, str, str]]) -> Callable[[str], bool]:
    """Return what says of a path whether the host's own is seen there, by the mounts of a process.

    A container's root is that of its image. Without any mounts it counts as a container.
    """
    types = {point: filesystem for _, point, filesystem in found}
    if "overlay" not in types.get("/", "overlay") and _OF_CONTAINERS.isdisjoint(types):
        return lambda _: True
    # What is mounted last hides what was below.
    latest = [(one[1], _is_of_host(*one)) for one in reversed(found) if one[1] != "/"]
    return lambda path: next((its for at, its in latest if f"{path}/".startswith(f"{at}/")), False)


def _is_of_host(root: str, point: str, filesystem: str) -> bool:
    """Return whether a container's mount surely shows what the host has at the same path."""
    if (kernels := _OF_KERNEL.get(filesystem)) is not None:
        return point == f"{kernels}{root}".rstrip("/")
    # What is mounted as a whole may be a volume.
    return root != "/" and point.endswith(root) and point.removesuffix(root) in _PARTITIONS
