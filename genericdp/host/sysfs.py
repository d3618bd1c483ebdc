"""What sysfs knows of a device number."""

from __future__ import annotations

import errno
import posixpath
from typing import TYPE_CHECKING

from genericdp.host.root import ABSENT
from genericdp.model import FileType

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.host.root import Root


def syspath_of(root: Root, file_type: FileType, number: tuple[int, int]) -> str | None:
    """Give the sysfs folder of a device number, as ``/sys/devices/…``, if it has one.

    Raises OSError where nobody can know.
    """
    folder = f"/sys/dev/{file_type}"
    try:
        target = root.read_link(f"{folder}/{number[0]}:{number[1]}")
    except OSError as error:
        if error.errno not in {*ABSENT, errno.EINVAL}:  # in a damaged copy it may be no link
            raise
        return None
    # There are no links below /sys/devices, so this needs no look at each folder.
    path = posixpath.normpath(posixpath.join(folder, target))
    return path if path.startswith("/sys/devices/") else None


def plugged_of(read: Callable[[str], str], file_type: FileType, syspath: str | None) -> str:
    """Give what grows with each replug: a disk's ``diskseq``, or the USB device number.

    Empty where the kernel has neither. A device number alone does not tell a replug (D5).
    ``read`` gives a file's content, and raises OSError.
    """
    if syspath is None:
        return ""
    if file_type is FileType.BLOCK:
        # A partition has none of its own: it lies in its disk's folder.
        for folder in (syspath, syspath.rpartition("/")[0]):
            if sequence := read_attribute(read, folder, "diskseq"):
                return f"diskseq {sequence}"
    folder = syspath
    # Only what hangs on a USB bus is worth the look at each folder above.
    while "/usb" in folder:
        number = read_attribute(read, folder, "devnum")
        if number and (bus := read_attribute(read, folder, "busnum")):
            return f"usb {bus}:{number}"
        folder = folder.rpartition("/")[0]
    return ""


def read_attribute(read: Callable[[str], str], syspath: str, name: str) -> str:
    """Give an attribute's text, stripped; empty if it cannot be read."""
    try:
        return read(f"{syspath}/{name}").strip()
    except OSError:
        return ""


def device_names(root: Root) -> dict[str, tuple[FileType, tuple[int, int]]]:
    """Give type and number of each device file that sysfs names, by its path below /dev.

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
