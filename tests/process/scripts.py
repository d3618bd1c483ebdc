"""Commands as scripts, and what running them must leave as it was."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genericdp.config import child
from genericdp.process.run import Commands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.config.files import Loaded
    from genericdp.errors import Outcome

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


async def shell(
    commands: Commands, script: str, *, timeout_seconds: float = 10.0, **env: str
) -> Outcome:
    """Run a script of a shell."""
    argv = ["/bin/sh", "-c", script]
    return await commands.run(argv, {**ENV, **env}, timeout_seconds=timeout_seconds)


async def load_in_child(paths: Sequence[Path], **settings: Any) -> Loaded:
    """Load a config as the daemon does."""
    async with Commands() as commands:
        return await child.load_in_child(commands, paths, **settings)


def children() -> list[int]:
    """Return the children of this process, dead ones too."""
    pid = os.getpid()
    return [int(entry) for entry in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    """Return whether a process runs: one that only has not been reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def resident() -> int:
    """Return how much memory this process has, in bytes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def held() -> tuple[int, int]:
    """Return how many threads and descriptors this process has."""
    return threading.active_count(), len(os.listdir("/proc/self/fd"))
