"""Names and numbers of /dev for a snapshot; never file contents.

In a copy a plain file stands for a device node if ``sys/dev/*/MAJ:MIN/uevent`` names it. Nodes
whose number sysfs does not have, as those of NVIDIA's driver, get such a file with nothing else.
"""

from __future__ import annotations

import os
import posixpath
import stat
from typing import TYPE_CHECKING

from genericdp.host.copies import device_names
from genericdp.model import FileType
from genericdp.snapshot.archive import MOST_FILE_BYTES, Entry, Kind, led_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from genericdp.host.root import Root

    Number = tuple[FileType, tuple[int, int]]

_OF_SESSIONS = {"dev/pts", "dev/shm", "dev/mqueue", "dev/hugepages", "dev/fd"}
"""What is in them belongs to somebody who is logged in, or to a program."""
_MOST_DEPTH = 16
_ELSEWHERE = "not on the filesystem mounted at /dev, so never offered"
_MISNAMED = "not what sysfs calls by that name"


class NodeCopy:
    """Copies /dev into entries that hold sysfs already."""

    def __init__(
        self, root: Root, entries: dict[str, Entry], note: Callable[[str, str], None]
    ) -> None:
        self._root = root
        self._entries = entries
        self._note = note
        self._names = device_names(root)
        self._others: dict[Number, list[str]] = {}
        """The names of nodes, below /dev, that sysfs does not tell."""

    def copy(self, add: Callable[[Entry], None]) -> None:
        """Add what is in /dev."""
        top = self._root.lstat("/dev")
        if not stat.S_ISDIR(top.st_mode) and not self._root.is_machine:
            return  # a link could lead out of the copy
        for entry in self._below("dev", top.st_dev):
            add(entry)
        for number, names in sorted(self._others.items()):
            self._name(number, names, add)

    def _below(self, folder: str, filesystem: int) -> Iterator[Entry]:
        try:
            names = os.listdir(self._root.real(f"/{folder}"))  # noqa: PTH208
        except OSError as error:
            self._note(folder, (error.strerror or str(error)).lower())
            return
        for name in names:
            path = f"{folder}/{name}"
            try:
                status = self._root.lstat(f"/{path}")
            except OSError:
                continue  # just gone
            if stat.S_ISDIR(status.st_mode):
                yield Entry(path, Kind.FOLDER)
                inside = status.st_dev == filesystem and path not in _OF_SESSIONS
                if inside and path.count("/") < _MOST_DEPTH:
                    yield from self._below(path, filesystem)
            elif stat.S_ISLNK(status.st_mode):
                yield from self._link(path)
            elif status.st_dev != filesystem:
                self._note(path, _ELSEWHERE)
            else:
                yield from self._file(path, status)

    def _link(self, path: str) -> Iterator[Entry]:
        """Copy a link, relative; what leads out of /dev is of a process, or a session."""
        try:
            text = self._root.read_link(f"/{path}")
        except OSError:
            return  # just gone
        if text.startswith("/"):
            text = posixpath.relpath(text, f"/{posixpath.dirname(path)}")
        target = led_to(path, text)
        if target is None or not f"{target}/".startswith("dev/"):
            return
        if self._root.walk(f"/{path}").trouble:
            self._note(path, "a link that somebody who is not root can turn, so never offered")
            return
        yield Entry(path, Kind.LINK, target=text)

    def _file(self, path: str, status: os.stat_result) -> Iterator[Entry]:
        name = path.removeprefix("dev/")
        known = self._names.get(name)
        number = _number(status)
        if number is None:
            # On a machine a file with the name of a node is none; in a copy it stands for it.
            if known is not None and self._root.is_machine:
                self._note(path, _MISNAMED)
                return
        elif known is None and "\n" not in name:
            self._others.setdefault(number, []).append(name)
        elif known != number:
            self._note(path, _MISNAMED)
            return
        yield Entry(path, Kind.FILE)

    def _name(self, number: Number, names: list[str], add: Callable[[Entry], None]) -> None:
        file_type, (major, minor) = number
        folder = f"sys/dev/{file_type}/{major}:{minor}"
        listed = "".join(f"DEVNAME={name}\n" for name in sorted(names))
        content = listed.encode(errors="surrogateescape")
        known = self._entries.get(folder)
        if known is None:
            add(Entry(folder, Kind.FOLDER))
            add(Entry(f"{folder}/uevent", Kind.FILE, content))
            return
        uevent = f"{led_to(folder, known.target)}/uevent"
        own = self._entries.get(uevent)
        too_long = own is not None and len(own.content) + len(content) > MOST_FILE_BYTES
        if own is None or too_long or b"DEVNAME=" not in own.content:
            for name in names:
                self._entries.pop(f"dev/{name}", None)
                self._note(f"dev/{name}", _MISNAMED)
            return
        # The last name counts as the device's: its own stays that.
        add(Entry(uevent, Kind.FILE, content + own.content))


def _number(status: os.stat_result) -> Number | None:
    if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
        file_type = FileType.CHAR if stat.S_ISCHR(status.st_mode) else FileType.BLOCK
        return file_type, (os.major(status.st_rdev), os.minor(status.st_rdev))
    return None
