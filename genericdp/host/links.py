"""Where a path of the host leads, also where there is nothing yet."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from genericdp.devices.sysdevice import Way

if TYPE_CHECKING:
    from genericdp.host.root import Root


def way_of(root: Root, path: str) -> Way:
    """Return where a path leads, or would lead if all that is missing were there."""
    walk = root.walk(path, past_missing=True)
    if walk.error is not None and walk.error.errno == errno.ELOOP:
        said = walk.error.strerror or ""
        circle = said == os.strerror(errno.ELOOP)
        return Way(target=walk.at, trouble="its links lead in a circle" if circle else said)
    return Way(target=walk.at, trouble=walk.trouble)
