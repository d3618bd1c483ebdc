"""Names of resources that the kubelet takes, and names as globs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.config.names import name_problem
from genericdp.glob import escape

if TYPE_CHECKING:
    from genericdp.converting.parts import Part

_FLAT = ("accel", "dma_heap", "dri", "infiniband", "input", "mapper", "net", "snd", "usb", "vfio")
_LINKS = ("block", "char", "disk", "serial", "v4l")
FOLDERS = (
    dict.fromkeys(_FLAT, "*")
    | {"bus": "usb/*/*", "bus/usb": "*/*", "dvb": "*/*"}
    | dict.fromkeys(_LINKS, "")
)
"""What is known to be a folder below /dev, with the glob of the device files in it; empty: there
are only links, of which a runtime gives a container nothing. From a name alone nobody can tell."""
ONLY_LINKS = "a folder with nothing but links, and of these a container gets no device"


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
