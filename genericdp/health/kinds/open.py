"""``open``: the device's nodes, which must open."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.errors import Outcome, reason_of
from genericdp.health import ThreadCheck
from genericdp.printing import printable

if TYPE_CHECKING:
    from genericdp.devices.device import Device, DeviceNode
    from genericdp.host.root import Root

_ACCESS = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}
# So that opening neither waits for a carrier nor gives the daemon a controlling terminal.
_ALWAYS = os.O_NONBLOCK | os.O_NOCTTY
_FORBIDDEN = " (the pod's device cgroup or capabilities may forbid it)"


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenCheck(ThreadCheck):
    """Checks that the device's nodes can be opened."""

    kind = "open"
    mode: str = "rw"

    def activity(self, device: Device) -> str:
        """Name the nodes."""
        return f"opening {' and '.join(printable(node.host_path) for node in device.nodes)}"

    def look(self, device: Device, root: Root, before: bytes) -> Outcome:  # noqa: ARG002
        """Open the nodes one after the other, and close each immediately."""
        if not device.nodes:
            return Outcome(reason="the device has no node that could be opened")
        reasons = (_why_not_opened(node, _ACCESS[self.mode], root) for node in device.nodes)
        return Outcome(reason=next((reason for reason in reasons if reason), ""))


def _why_not_opened(node: DeviceNode, access: int, root: Root) -> str:
    # Imported here because checking a config needs this module, but nothing that reads the host.
    from genericdp.host.devicefiles import is_same

    path = printable(node.host_path)
    try:
        # This check comes first, because opening a different device could have side effects.
        same = is_same(root, node.host_path, node.identity)
        if same is None:
            return f"{path} does not exist"
        if not same:
            return f"{path} is another device now"
        os.close(root.descriptor(node.host_path, access | _ALWAYS))
    except OSError as error:
        forbidden = _FORBIDDEN if error.errno in {errno.EPERM, errno.EACCES} else ""
        return f"{path} cannot be opened: {reason_of(error)}{forbidden}"
    return ""
