"""The mounts of this process, and which paths of the host it sees because of them."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from genericdp.host.root import upwards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from genericdp.host.root import Root

_OCTAL = re.compile(r"\\([0-7]{3})")
_OF_CONTAINERS = frozenset({"/dev/termination-log", "/etc/hostname", "/run/.containerenv"})
"""What kubelets, container runtimes and Podman mount into each container."""


class Mount(NamedTuple):
    """A line of ``/proc/self/mountinfo``."""

    root: str
    """Which folder or file of its filesystem is mounted."""
    point: str
    filesystem: str
    """Its type, such as ext4."""


def mounts() -> Iterator[Mount]:
    """Yield the mounts of this process; none if they cannot be read."""
    with suppress(OSError), Path("/proc/self/mountinfo").open("rb") as lines:
        for fields in (os.fsdecode(line).split(" ") for line in lines):
            root, point = (_OCTAL.sub(lambda at: chr(int(at[1], 8)), one) for one in fields[3:5])
            yield Mount(root, point, fields[fields.index("-") + 1])


def seeing(root: Root) -> Callable[[str], bool]:
    """Return what says of a path whether what is there can be seen.

    Of a copy of a machine, that is below the top-level folders that it has.
    """
    if root.is_machine:
        folders = folders_of_host(mounts())
    else:
        folders = frozenset(f"/{name}" for name in root.entries_if_any("/", {}))
    return lambda path: folders is None or not folders.isdisjoint(upwards(path))


def folders_of_host(found: Iterable[Mount]) -> frozenset[str] | None:
    """Return the folders of the host that a container sees, by its mounts; None: it is none.

    Its root is that of its image. Where that cannot be told, it counts as one.
    """
    types = {mount.point: mount.filesystem for mount in found}
    is_container = "overlay" in types.get("/", "overlay") or not _OF_CONTAINERS.isdisjoint(types)
    return frozenset(types) - {"/"} if is_container else None
