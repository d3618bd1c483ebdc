"""Probes ``open``: each of the device's nodes must open, and still be that device's."""

from __future__ import annotations

import errno
import os
from functools import partial
from typing import TYPE_CHECKING

from genericdp.health.looks import FileLook, look_at_all
from genericdp.host.devicefiles import is_same
from genericdp.printing import printable

if TYPE_CHECKING:
    from genericdp.devices.device import Device, Node, NodeOpening
    from genericdp.host.root import Root
    from genericdp.process.outcome import Outcome

_ACCESS = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}
# Not to wait for a carrier, nor to become the terminal of a daemon that has none.
_ALWAYS = os.O_NONBLOCK | os.O_NOCTTY
_FORBIDDEN = " (the pod's device cgroup or capabilities may forbid it)"


async def probe(
    check: NodeOpening, device: Device, *, resource: str, root: Root, timeout_seconds: float
) -> Outcome:
    """Open the nodes one after the other, and close each at once."""
    paths = " and ".join(printable(node.host_path) for node in device.nodes)
    look = FileLook(f"opening {paths}", partial(_look, check, device, root))
    done = await look_at_all([look], resource=resource, timeout_seconds=timeout_seconds)
    return done[0]


def _look(check: NodeOpening, device: Device, root: Root) -> str:
    if not device.nodes:
        return "the device has no node that could be opened"
    reasons = (_trouble(node, _ACCESS[check.mode], root) for node in device.nodes)
    return next((reason for reason in reasons if reason), "")


def _trouble(node: Node, access: int, root: Root) -> str:
    path = printable(node.host_path)
    try:
        # First, because opening can do something to whatever has taken its place.
        same = is_same(root, node.host_path, node.identity)
        if same is None:
            return f"{path} does not exist"
        if not same:
            return f"{path} is another device now"
        os.close(root.descriptor(node.host_path, access | _ALWAYS))
    except OSError as error:
        forbidden = _FORBIDDEN if error.errno in {errno.EPERM, errno.EACCES} else ""
        return f"{path} cannot be opened: {error.strerror or error}{forbidden}"
    return ""
