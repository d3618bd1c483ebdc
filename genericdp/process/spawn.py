"""Start a program in a session of its own, wait for it, and kill it with its process group."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.process.orphans import CLOCK_TICKS, descendants

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LIMITS = {
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_NOFILE: 1024,
    # What a process can really use of memory: writable, private.
    resource.RLIMIT_DATA: 4 * 1024**3,
    # Also counts what is only reserved: a program in Go 1 GiB, CUDA all memory of node and cards.
    resource.RLIMIT_AS: 4096 * 1024**3,
}
NICENESS = 10
"""Of commands: hundreds of them must not starve the daemon that has to end them."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Child:
    """A program that was started here. It stays a zombie until it is reaped through ``process``."""

    process: subprocess.Popen[bytes]
    started: int
    """Clock ticks since boot: nothing that it starts is older."""
    argv: Sequence[str]
    env: Mapping[str, str]

    @property
    def pid(self) -> int:
        """The process ID, which is also that of its group and session."""
        return self.process.pid

    @property
    def has_exited(self) -> bool:
        """Whether it has exited, reaped or not."""
        if self.process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def kill(self) -> None:
        """Kill its process group, and its descendants in other groups.

        Not after it has been reaped: its process ID may belong to another process by then.
        """
        elsewhere = [] if self.has_exited else descendants(self.pid)
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        for pid in elsewhere:  # a bomb would be faster than sweeps
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    stdout: int,
    stderr: int,
    restricted: bool,
) -> Child:
    """Start a program without input; raise OSError or ValueError if it cannot be started.

    If ``restricted``, it starts in / and gets resource limits and a niceness right afterwards.
    """
    started = int(time.clock_gettime(time.CLOCK_BOOTTIME) * CLOCK_TICKS)
    process = subprocess.Popen(  # noqa: S603  # what to run is the config's, and the policy's
        argv,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        env=env,
        cwd="/" if restricted else None,
        start_new_session=True,
    )
    if restricted:
        _restrict(process.pid)
    # When memory runs out, the kernel might otherwise kill the daemon, which is bigger.
    with suppress(OSError):
        Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
    return Child(process=process, started=started, argv=argv, env=env)


def _restrict(pid: int) -> None:
    for what, limit in LIMITS.items():
        with suppress(OSError):  # it has exited already, or this limit cannot be set
            _, hard = resource.getrlimit(what)  # which it inherited
            most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.prlimit(pid, what, (most, most))
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, NICENESS)
