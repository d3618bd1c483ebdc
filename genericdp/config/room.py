"""How much memory is left in the cgroups of this process: those of its container."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILES = {
    # of version 1: limit, use, prefix of what is in memory.stat; of version 2
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    "": ("memory.max", "memory.current", ""),
}
_CACHE = ("inactive_file", "active_file")
"""What the kernel gives back before anybody lacks memory."""


def memory_left(root: Path = Path("/")) -> int | None:
    """Give how many bytes may still be used; None: there is no limit, or it cannot be known."""
    rooms = (room for folder, files in _cgroups(root) if (room := _room(folder, files)) is not None)
    return min(rooms, default=None)


def _cgroups(root: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Give the folders of our own cgroup and all above it, as far as they are to be seen."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        controller = "memory" if "memory" in controllers.split(",") else controllers
        if controller in _FILES:
            top = root / "sys/fs/cgroup" / controller
            # In a container the path may be that of the node, of which its top is ours.
            folder = top / path.lstrip("/")
            while folder != top:
                yield folder, _FILES[controller]
                folder = folder.parent
            yield top, _FILES[controller]


def _room(folder: Path, files: tuple[str, str, str]) -> int | None:
    limit, used, prefix = files
    try:
        most = int((folder / limit).read_text())
        taken = int((folder / used).read_text())
        lines = (folder / "memory.stat").read_text().splitlines()
    except (OSError, ValueError):  # no such folder here, or "max"
        return None
    counts = dict(line.split(" ", 1) for line in lines if " " in line)
    return most - taken + sum(int(counts.get(prefix + name, "0")) for name in _CACHE)
