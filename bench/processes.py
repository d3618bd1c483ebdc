"""Processes: the benchmark's own helpers, and what the kernel reports about any process."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import socket
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator

REPOSITORY = Path(__file__).parent.parent
_MAX_LINE = 1 << 24


@dataclass(frozen=True, kw_only=True, slots=True)
class Helper:
    """A module of the benchmark in a process of its own, which speaks in lines."""

    stdin: StreamWriter
    stdout: StreamReader


@asynccontextmanager
async def helper(module: str, *arguments: str | os.PathLike[str]) -> AsyncIterator[Helper]:
    """Run a module of the benchmark; it is killed at the end.

    In a process of its own neither delays the other: what the benchmark does is not measured.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        cwd=REPOSITORY,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_MAX_LINE,
    )
    try:
        if process.stdin is None or process.stdout is None:
            raise AssertionError
        yield Helper(stdin=process.stdin, stdout=process.stdout)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def resident_memory(pid: int) -> float:
    """Return the resident memory of a process, in MB of a million bytes."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    (kilobytes,) = re.findall(r"^Rss: +(\d+) kB$", rollup, re.MULTILINE)
    return int(kilobytes) * 1024 / 1e6


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far, with all its threads, without its children."""
    # The clock that clock_getcpuclockid(3) returns: to the nanosecond.
    return time.clock_gettime((~pid << 3) | 2)


def free_port() -> int:
    """Return a port at which no process listens on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def machine(load_before: float) -> dict[str, str]:
    """Return what figures depend on."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cores": str(len(os.sched_getaffinity(0))),
        "load": f"{load_before:.1f} before and {os.getloadavg()[0]:.1f} after",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "grpc": version("grpcio"),
    }
