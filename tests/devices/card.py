"""A host with one card, its control node, and a folder of further nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.devices.allocation import edits
from tests.devices.making import decide, node, nodes, plain, resource

if TYPE_CHECKING:
    from genericdp.devices.device import ContainerEdits
    from genericdp.model import Inject, Resource

GPU = node("/dev/gpu0", (195, 0), syspath="/sys/devices/pci0/gpu0")
CTL = node("/dev/gpuctl", (195, 255))
CAPS = [node(f"/dev/caps/cap{i}", (240, i)) for i in (10, 2)]
FOLDER = plain("/dev/caps", folder=True)
HOST = [GPU, CTL, *CAPS, FOLDER]
SELF = nodes("$(device.path)")


def gpu(given: Inject, *, exclude: tuple[str, ...] = ()) -> Resource:
    """The resource of the card."""
    return resource("gpu", "/dev/gpu[0-9]", given=given, exclude=exclude)


def given(one: Inject) -> ContainerEdits:
    """What a container gets for every device of the resource."""
    offered = decide([gpu(one)], HOST)["example.com/gpu"].devices
    assert offered, "nothing is on offer"
    return edits(each.device for each in offered.values())
