"""The mounts of this process, and which paths of the host it sees because of them."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.host.root import upwards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from genericdp.host.root import Root

_OCTAL = re.compile(r"\\([0-7]{3})")
_OF_CONTAINERS = frozenset({"/dev/termination-log", "/etc/hostname", "/run/.containerenv"})
"""What kubelets, container runtimes and Podman mount into each container."""


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
        folders = folders_of_host(mounts())
    else:
        folders = frozenset(f"/{name}" for name in root.entries_if_any("/", {}))
    return lambda path: folders is None or not folders.isdisjoint(upwards(path))


def folders_of_host(found: Iterable[tuple[str, str, str]]) -> frozenset[str] | None:
    """Return the folders of the host that a container sees, by its mounts; None: all.

    Its root is that of its image. Without any mounts it counts as a container.
    """
    types = {point: filesystem for _, point, filesystem in found}
    is_container = "overlay" in types.get("/", "overlay") or not _OF_CONTAINERS.isdisjoint(types)
    return frozenset(types) - {"/"} if is_container else None
