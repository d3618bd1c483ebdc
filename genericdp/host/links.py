"""Links of the host: where one leads that leads to nothing yet, and who can turn it elsewhere."""

from __future__ import annotations

import errno
import stat
from typing import TYPE_CHECKING

from genericdp.devices.inventory import Way

if TYPE_CHECKING:
    from genericdp.host.root import Root


def lost_way(root: Root, path: str) -> Way:
    """Give where a path would lead if all that is missing were there; raises nothing."""
    walk = root.walk(path, past_missing=True)
    if walk.error is not None and walk.error.errno == errno.ELOOP:
        return Way(target=walk.at, trouble="its links lead in a circle")
    try:
        return Way(target=walk.at, trouble=turnable_trouble(root, walk.links))
    except OSError as error:
        return Way(target=walk.at, trouble=f"its links cannot be read ({error.strerror})")


def turnable_trouble(root: Root, links: tuple[str, ...]) -> str:
    """Say which link somebody without rights could let lead elsewhere, at any time.

    In a sticky folder, as /tmp, only the owners of link and folder can. Raises OSError.
    """
    trusted = {0, root.lstat("/dev").st_uid} if links else set()
    for link in links:
        folder = root.lstat(link.rpartition("/")[0] or "/")
        owners = {folder.st_uid}
        if folder.st_mode & stat.S_IWOTH:
            if not folder.st_mode & stat.S_ISVTX:
                return f"the link {link} lies in a folder that anybody can write to"
            owners.add(root.lstat(link).st_uid)
        if not owners <= trusted:
            return f"the link {link} can be turned by a user who is not root"
    return ""
