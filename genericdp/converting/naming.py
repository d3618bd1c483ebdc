"""Names of resources that the kubelet takes, and names as globs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.config.names import name_problem
from genericdp.glob import escape

if TYPE_CHECKING:
    from genericdp.converting.parts import Part

FOLDERS = frozenset(
    {"accel", "block", "bus", "bus/usb", "char", "disk", "dma_heap", "dri", "dvb", "infiniband"}
    | {"input", "mapper", "net", "serial", "snd", "usb", "v4l", "vfio"}
)
"""What is known to be a folder of device files below /dev; from a name alone nobody can tell."""


def checked_name(name: str, part: Part) -> str:
    """Give a name as it is; what is wrong with it is a problem of the part it comes from."""
    if (problem := name_problem(name)) is not None:
        part.fail(f"{name[:80]!r} cannot be a resource: {problem}")
    return name


def exactly(text: str) -> str:
    """Give a glob for exactly this text."""
    return no_template(escape(text))


def no_template(glob: str) -> str:
    """Give a glob that nobody takes for a template."""
    return glob.replace("$(", "$[(]")
