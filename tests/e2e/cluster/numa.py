"""A made-up machine of several NUMA nodes, which only the processes that know of it see.

Its files lie over those of sysfs in a mount namespace of such a process: the kernel's own view
stays as it is for all others.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_NODES = "sys/devices/system/node"
_LOOPS = "sys/devices/virtual/block"
_MEGABYTE = 1024
"""In kB, as meminfo counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """A mount over sysfs, and a program that sees it."""

    directories: Mapping[str, Path]
    """Directory below ``/`` → the one that lies over it."""

    def command(self, *words: str) -> tuple[str, ...]:
        """Give a command for a program: its process id is the one that is started."""
        binds = [
            f"mount --bind {shlex.quote(str(made))} /{below}"
            for below, made in self.directories.items()
        ]
        script = " && ".join([*binds, 'exec "$@"'])
        # Slave: what containerd mounts later is seen, and these mounts stay in here.
        return ("unshare", "--mount", "--propagation", "slave", "sh", "-c", script, "sh", *words)


def machine_in(
    directory: Path,
    processors: Sequence[Sequence[int]],
    loops: Mapping[int, Mapping[str, str]] | None = None,
) -> View:
    """Make a machine whose NUMA nodes have these processors.

    ``loops`` are loop devices, which must be plugged in, with attributes that are made up.
    """
    nodes = directory / _NODES
    for number, own in enumerate(processors):
        _node(nodes / f"node{number}", number, len(processors), own)
    (nodes / "online").write_text(f"0-{len(processors) - 1}\n")
    directories = {_NODES: nodes}
    for number, attributes in (loops or {}).items():
        below = f"{_LOOPS}/loop{number}"
        directories[below] = _loop(directory / below, number, attributes)
    return View(directories=directories)


def _node(node: Path, number: int, count: int, processors: Sequence[int]) -> None:
    """Write what cadvisor reads, which is how the kubelet knows its machine."""
    pages = node / "hugepages/hugepages-2048kB"
    pages.mkdir(parents=True)
    (pages / "nr_hugepages").write_text("0\n")
    for processor in processors:
        (node / f"cpu{processor}").symlink_to(f"../../cpu/cpu{processor}")
    (node / "cpulist").write_text(",".join(map(str, processors)) + "\n")
    (node / "meminfo").write_text(f"Node {number} MemTotal: {512 * _MEGABYTE} kB\n")
    distances = ("10" if other == number else "20" for other in range(count))
    (node / "distance").write_text(" ".join(distances) + "\n")


def _loop(made: Path, number: int, attributes: Mapping[str, str]) -> Path:
    made.mkdir(parents=True)
    name = f"loop{number}"
    (made / "uevent").write_text(f"MAJOR=7\nMINOR={number}\nDEVNAME={name}\nDEVTYPE=disk\n")
    (made / "dev").write_text(f"7:{number}\n")
    (made / "subsystem").symlink_to("../../../../class/block")
    for attribute, text in attributes.items():
        (made / attribute).write_text(f"{text}\n")
    return made
