"""Commands as scripts, and what running them must leave as it was."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.health.commands import run

if TYPE_CHECKING:
    from genericdp.health.outcome import Outcome

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


async def shell(script: str, *, timeout_seconds: float = 10.0, **env: str) -> Outcome:
    """Run a script of a shell."""
    return await run(["/bin/sh", "-c", script], {**ENV, **env}, timeout_seconds=timeout_seconds)


def resident() -> int:
    """Give how much memory this process has, in bytes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def held() -> tuple[int, int]:
    """Give how many threads and descriptors this process has."""
    return threading.active_count(), len(os.listdir("/proc/self/fd"))
