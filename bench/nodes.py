"""Device nodes that can be made and removed at will.

As root they are real: unbound numbers in a folder below /dev, and loop devices that the kernel
plugs and unplugs. Otherwise plain files of a copied tree stand for them (``--root``).
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

FOLDER = "genericdp-bench"
_MAJOR = 241
"""For local use, says the kernel's list of devices: no driver answers."""
LOOPS = range(80, 100)
_LOOP_ADD = 0x4C80  # of linux/loop.h
_LOOP_REMOVE = 0x4C81
_ZRAM = Path("/sys/class/zram-control")


@dataclass(frozen=True, kw_only=True, slots=True)
class Nodes:
    """A host that has the nodes which a measurement needs."""

    root: Path
    real: bool

    @property
    def kind(self) -> str:
        """What the nodes are, in words."""
        return "real device nodes" if self.real else "plain files of a copied tree (no root)"

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
        """Remove it again."""
        (self.folder / f"thing-{number}").unlink()

    def describe(self, numbered: range) -> None:
        """Let sysfs know these, where it is ours to write."""
        if self.real:
            return
        for number in numbered:
            name = f"thing-{number}"
            describe(self.root, (_MAJOR, number), name, f"{FOLDER}/{name}")


def describe(root: Path, number: tuple[int, int], name: str, node: str) -> None:
    """Let the sysfs of a copied tree know a device; ``node``: its file below /dev."""
    major, minor = number
    thing = root / "sys" / "devices" / "virtual" / "bench" / name
    thing.mkdir(parents=True)
    uevent = f"MAJOR={major}\nMINOR={minor}\nDEVNAME={node}\n"
    (thing / "uevent").write_text(uevent, encoding="ascii")
    numbers = root / "sys" / "dev" / "char"
    numbers.mkdir(parents=True, exist_ok=True)
    (numbers / f"{major}:{minor}").symlink_to(f"../../devices/virtual/bench/{name}")


@contextmanager
def nodes(count: int, scratch: Path) -> Iterator[Nodes]:
    """Make so many nodes; the tree of a machine on which we may not goes into ``scratch``."""
    real = os.geteuid() == 0 and may_make_nodes()
    made = Nodes(root=Path("/") if real else scratch / "tree", real=real)
    shutil.rmtree(made.folder, ignore_errors=True)
    made.folder.mkdir(parents=True)
    try:
        made.describe(range(count))
        for number in range(count):
            made.make(number)
        yield made
    finally:
        shutil.rmtree(made.folder if real else made.root)


def may_make_nodes() -> bool:
    """Say whether real device nodes can be made here."""
    probe = Path("/dev/genericdp-bench-probe")
    try:
        os.mknod(probe, stat.S_IFCHR | 0o600, os.makedev(_MAJOR, 0))
    except OSError:
        return False
    probe.unlink()
    return True


def has_loops() -> bool:
    """Say whether loop devices can be plugged and unplugged here."""
    return os.geteuid() == 0 and os.access("/dev/loop-control", os.W_OK)


def add_loop(number: int) -> None:
    """Plug ``/dev/loopNUMBER``: the kernel has made the node when this returns."""
    _control(_LOOP_ADD, number)


def remove_loop(number: int) -> None:
    """Unplug it, as soon as nobody has it open."""
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


def has_zram() -> bool:
    """Say whether zram devices can be plugged and unplugged here."""
    return os.geteuid() == 0 and (_ZRAM / "hot_add").exists()


class Zram:
    """One zram device at a time; the kernel numbers it."""

    def __init__(self) -> None:
        self._number = ""

    def add(self, _: int = 0) -> None:
        """Plug it."""
        self._number = (_ZRAM / "hot_add").read_text().strip()

    def remove(self, _: int = 0) -> None:
        """Unplug it, if it is there."""
        if self._number:
            (_ZRAM / "hot_remove").write_text(self._number)
            self._number = ""


def _control(request: int, number: int) -> None:
    control = os.open("/dev/loop-control", os.O_RDWR)
    try:
        fcntl.ioctl(control, request, number)
    finally:
        os.close(control)
