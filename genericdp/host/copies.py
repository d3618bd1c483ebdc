"""Device nodes of a copied tree, where plain files stand for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.host.sysfs import read_attribute
from genericdp.model import FileType

if TYPE_CHECKING:
    from genericdp.host.root import Root


def device_names(root: Root) -> dict[str, tuple[FileType, tuple[int, int]]]:
    """Return type and number of each device file that sysfs names, by its path below /dev.

    In a copied tree a plain file stands for a device node if it is named here.
    """
    names: dict[str, tuple[FileType, tuple[int, int]]] = {}
    for file_type in (FileType.CHAR, FileType.BLOCK):
        try:
            entries = root.entries(f"/sys/dev/{file_type}")
        except OSError:
            continue
        for entry in entries:
            major, _, minor = entry.partition(":")
            if not (major.isdecimal() and minor.isdecimal()):
                continue
            number = (int(major), int(minor))
            for line in read_attribute(
                root.read_text, f"/sys/dev/{file_type}/{entry}", "uevent"
            ).splitlines():
                key, _, value = line.partition("=")
                if key == "DEVNAME" and value:
                    names[value.removeprefix("/dev/")] = (file_type, number)
    return names
