"""Device nodes that are made and removed at will.

As root they are real: numbers without a driver in a folder below /dev, and loop devices that the
kernel plugs and unplugs. Otherwise plain files of a copied tree stand for them (``--root``).
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = f"genericdp-bench-{os.getpid()}"
"""Below /dev, of this run alone."""
_MAJOR = 241
"""For local use, says the kernel's list of devices: no driver answers."""
LOOPS = range(80, 100)
_LOOP_ADD = 0x4C80  # of linux/loop.h
_LOOP_REMOVE = 0x4C81


@dataclass(frozen=True, kw_only=True, slots=True)
class Nodes:
    """A host with the nodes that a measurement needs."""

    root: Path
    real: bool

    @property
    def folder(self) -> Path:
        """Where ``make`` puts them, on this machine."""
        return self.root / "dev" / FOLDER

    def make(self, number: int) -> None:
        """Make ``thing-NUMBER``."""
        path = self.folder / f"thing-{number}"
        if self.real:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(_MAJOR, number))
        else:
            path.touch()

    def remove(self, number: int) -> None:
        """Remove ``thing-NUMBER``."""
        (self.folder / f"thing-{number}").unlink()

    def describe(self, numbers: range) -> None:
        """Describe these in the sysfs of a copied tree, as if they were devices."""
        if self.real:
            return
        by_number = self.root / "sys/dev/char"
        by_number.mkdir(parents=True, exist_ok=True)
        for number in numbers:
            name = f"thing-{number}"
            device = self.root / "sys/devices/virtual/bench" / name
            device.mkdir(parents=True)
            uevent = f"MAJOR={_MAJOR}\nMINOR={number}\nDEVNAME={FOLDER}/{name}\n"
            (device / "uevent").write_text(uevent, encoding="ascii")
            (by_number / f"{_MAJOR}:{number}").symlink_to(f"../../devices/virtual/bench/{name}")


@contextmanager
def nodes(count: int, scratch: Path) -> Iterator[Nodes]:
    """Make so many nodes, in a tree in ``scratch`` if we may make no real ones."""
    real = _may_make_nodes()
    made = Nodes(root=Path("/") if real else scratch / "tree", real=real)
    made.folder.mkdir(parents=True)
    try:
        made.describe(range(count))
        for number in range(count):
            made.make(number)
        yield made
    finally:
        shutil.rmtree(made.folder if real else made.root)


def _may_make_nodes() -> bool:
    probe = Path("/dev/genericdp-bench-probe")
    try:
        os.mknod(probe, stat.S_IFCHR | 0o600, os.makedev(_MAJOR, 0))
    except OSError:
        return False
    probe.unlink()
    return os.geteuid() == 0


def has_loops() -> bool:
    """Return whether loop devices can be plugged and unplugged here."""
    return os.geteuid() == 0 and os.access("/dev/loop-control", os.W_OK)


def add_loop(number: int) -> None:
    """Plug ``/dev/loopNUMBER``: the kernel has made the node when this returns."""
    _control(_LOOP_ADD, number)


def remove_loop(number: int) -> None:
    """Unplug ``/dev/loopNUMBER`` as soon as nobody has it open."""
    for attempt in range(100):
        try:
            _control(_LOOP_REMOVE, number)
        except OSError as error:
            if error.errno != errno.EBUSY or attempt == 99:
                raise
            time.sleep(0.01)
        else:
            return


def remove_loops() -> None:
    """Unplug every one of the benchmark's numbers that is there."""
    for number in LOOPS:
        with suppress(OSError):
            _control(_LOOP_REMOVE, number)


def _control(request: int, number: int) -> None:
    control = os.open("/dev/loop-control", os.O_RDWR)
    try:
        fcntl.ioctl(control, request, number)
    finally:
        os.close(control)
