"""The mounts of this process, and which paths of the host it sees because of them."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

_OCTAL = re.compile(r"\\([0-7]{3})")
_OF_CONTAINERS = frozenset({"/dev/termination-log", "/etc/hostname", "/run/.containerenv"})
"""What kubelets, container runtimes and Podman mount into each container."""
_OF_KERNEL = {"devtmpfs": "/dev", "proc": "/proc", "sysfs": "/sys"}
_BY_FILE = frozenset({"debugfs", "devpts", "devtmpfs", "proc", "sysfs", "tmpfs"})
"""Where it is a driver that hangs, with one file. A container's /dev is a tmpfs."""
_PARTITIONS = ("", "/home", "/opt", "/run", "/srv", "/usr", "/var")
"""Where hosts mount the filesystems of which containers are given a folder."""


def mounts() -> Iterator[tuple[str, str, str]]:
    """Yield what of its filesystem each mount shows, its mount point, and the filesystem's type.

    Nothing if that cannot be read.
    """
    for _, root, point, filesystem in _mounts():
        yield root, point, filesystem


def filesystems() -> dict[str, str]:
    """Return the number of the filesystem at each mount point; empty: none that hangs as a whole.

    No mount is touched for this.
    """
    numbers = {
        point: "" if filesystem in _BY_FILE else number
        for number, _, point, filesystem in _mounts()
    }
    # Whatever hangs there: without it nothing runs.
    return {point: "" if one == numbers.get("/") else one for point, one in numbers.items()}


def _mounts() -> Iterator[tuple[str, str, str, str]]:
    with suppress(OSError), Path("/proc/self/mountinfo").open("rb") as lines:
        for fields in (os.fsdecode(line).split(" ") for line in lines):
            root, point = (_OCTAL.sub(lambda at: chr(int(at[1], 8)), one) for one in fields[3:5])
            yield fields[2], root, point, fields[fields.index("-") + 1]


def seeing(copied: Collection[str] | None) -> Callable[[str], bool]:
    """Return what says of a path whether what is there can be seen.

    Of a copy of a machine, that is below the top-level folders that are ``copied``.
    """
    if copied is None:
        return seeing_host(tuple(mounts()))
    folders = frozenset(copied)
    return lambda path: path[1:].partition("/")[0] in folders


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
