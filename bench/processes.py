"""What the kernel says of a process."""

from __future__ import annotations

import os
import platform
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """In MB of a million bytes."""

    resident: float
    proportional: float
    own: float
    """What would be free without this process: unique set size."""

    def __str__(self) -> str:
        return f"PSS {self.proportional:.1f}, USS {self.own:.1f} MB"


def memory(pid: int) -> Memory:
    """Read how much memory a process has now."""
    found: dict[str, float] = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]:
        key, amount, _ = line.split()
        found[key] = int(amount) * 1024 / 1e6
    return Memory(
        resident=found["Rss:"],
        proportional=found["Pss:"],
        own=found["Private_Clean:"] + found["Private_Dirty:"],
    )


def peak_memory(pid: int) -> float:
    """Give the most memory that was ever resident, in MB of a million bytes."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    (kib,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(kib) * 1024 / 1e6


def threads(pid: int) -> int:
    """Count the threads of a process."""
    return len(tuple(Path(f"/proc/{pid}/task").iterdir()))


def cpu_seconds(pid: int) -> float:
    """Give how long a process has computed so far, all its threads, without its children."""
    # What clock_getcpuclockid(3) gives: the clock of a process, to the nanosecond.
    return time.clock_gettime((~pid << 3) | 2)


def descriptors(pid: int) -> int:
    """Count the open files of a process."""
    return len(tuple(Path(f"/proc/{pid}/fd").iterdir()))


def waits(pid: int) -> dict[int, int]:
    """Give how often each thread of a process has begun to wait, by its number."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has ended
            found[int(task.name)] = _waits((task / "status").read_text(encoding="utf-8"))
    return found


def _waits(status: str) -> int:
    name = "voluntary_ctxt_switches:"
    (count,) = (line.split()[1] for line in status.splitlines() if line.startswith(name))
    return int(count)


def machine() -> dict[str, str]:
    """Give what a figure depends on, in words."""
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "load": f"{os.getloadavg()[0]:.1f}",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "grpc": version("grpcio"),
        "user": "root" if os.geteuid() == 0 else "not root",
    }
