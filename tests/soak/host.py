"""The host that the daemon sees: nodes of the soak's own, and the files that its probes read."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster import loop
from tests.soak.config import KINDS, LOOPS, Places, nodes_of
from tests.world import Host as CopiedTree

_MAJOR = 241
"""For local use, says the kernel's list of devices: no driver answers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """Real nodes as root; otherwise plain files of a copied tree stand for them."""

    root: Path
    places: Places
    kinds: tuple[str, ...]
    copy: CopiedTree | None = None
    without: str = ""
    """What is left out on this machine, and why."""

    async def plug(self, node: str) -> None:
        if node.startswith("loop-"):
            await asyncio.to_thread(loop.add, _loop(node))
        elif self.copy is not None:
            self.copy.plug(self._below_dev(node), major=_MAJOR, minor=_minor(node))
        else:
            number = os.makedev(_MAJOR, _minor(node))
            os.mknod(f"/dev/{self._below_dev(node)}", stat.S_IFCHR | 0o600, number)

    async def unplug(self, node: str) -> None:
        if node.startswith("loop-"):
            await asyncio.to_thread(loop.remove, _loop(node))
        else:
            (self.root / "dev" / self._below_dev(node)).unlink()

    def set_health(self, node: str, *, well: bool) -> None:
        """Let the node's probe find it well, or not."""
        file = self.root / self.places.health[1:] / self.places.id_of(node)
        fresh = file.with_name(f".{file.name}")
        fresh.write_text("ok\n" if well else "bad\n")
        fresh.rename(file)

    def _below_dev(self, node: str) -> str:
        return f"{self.places.directory}/{node}"


@contextmanager
def host(scratch: Path) -> Iterator[Host]:
    """Give a host without any node; what is made of it is removed at the end."""
    real = os.geteuid() == 0 and _may_make_nodes()
    why_no_loops = _why_no_loops() if real else "no loop devices, no exec probes: not root"
    lacking = () if not why_no_loops else ("loop",) if real else ("loop", "exec")
    kinds = tuple(kind for kind in KINDS if kind not in lacking)
    # A file's probe looks below the root, as everything does; a program's does not.
    health = scratch / "health" if real else Path("/health")
    found = Host(
        root=Path("/") if real else scratch / "tree",
        places=Places(directory=f"genericdp-soak-{os.getpid()}", health=str(health)),
        kinds=kinds,
        copy=None if real else CopiedTree(scratch / "tree"),
        without=why_no_loops,
    )
    nodes, files = found.root / "dev" / found.places.directory, found.root / str(health)[1:]
    nodes.mkdir(parents=True)
    files.mkdir(parents=True)
    try:
        yield found
    finally:
        shutil.rmtree(nodes)
        if "loop" in kinds:
            loop.remove_all(LOOPS)


def _minor(node: str) -> int:
    kind, _, number = node.rpartition("-")
    return 16 * list(KINDS).index(kind) + int(number)


def _loop(node: str) -> int:
    return LOOPS[nodes_of("loop").index(node)]


def _may_make_nodes() -> bool:
    probe = Path(f"/dev/genericdp-soak-probe-{os.getpid()}")
    try:
        os.mknod(probe, stat.S_IFCHR | 0o600, os.makedev(_MAJOR, 0))
    except OSError:
        return False
    probe.unlink()
    return True


def _why_no_loops() -> str:
    if not os.access("/dev/loop-control", os.W_OK):
        return "no loop devices: /dev/loop-control cannot be written"
    if taken := [f"loop{n}" for n in LOOPS if Path(f"/sys/block/loop{n}").exists()]:
        return f"no loop devices: in use are {', '.join(taken)}"
    return ""
