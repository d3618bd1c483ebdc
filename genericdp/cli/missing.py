"""What a config names and the host lacks: told to people, and no hindrance for the daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.glob import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.devices.devicelist import DeviceList
    from genericdp.host.cache import HostCache
    from genericdp.host.root import Root


def dangling_target(path: str, root: Root) -> str:
    """Give what is written in a link that leads nowhere; empty if the path is none."""
    folder, _, name = path.rpartition("/")
    parent = root.walk(folder)
    link = f"{parent.at.rstrip('/')}/{name}"
    walk = root.walk(link)
    return root.read_link(link) if walk.error is not None and link in walk.links else ""


def missing_mounts(offer: DeviceList, host: HostCache, root: Root) -> Iterator[str]:
    """Give the host paths that would be mounted and do not exist, once each.

    Nothing is said of a copy of a machine that lacks all of the tree they would lie in.
    """
    mounts = (mount.host_path for one in offer.devices.values() for mount in one.device.mounts)
    for path in dict.fromkeys(mounts):
        found = host.look(escape(path))  # None: it does not answer
        if found is not None and not found.files and _is_missing(path, root):
            yield path


def _is_missing(path: str, root: Root) -> bool:
    top = "/" + path.split("/")[1]
    if not root.is_machine and root.walk(top).error is not None:
        return False
    return isinstance(root.walk(path).error, FileNotFoundError | NotADirectoryError)
