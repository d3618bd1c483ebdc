"""Whether nothing is in flight in this process, by what the kernel says of threads and children.

A call, a look or a write that is on its way is somebody's turn: that of a thread of gRPC or of
ours, or of a child. If all threads but this one sleep, and slept all the while between two looks
at each of them, then nothing moves unless this thread or a timer of theirs moves it: what they
wrote before has arrived (sockets of this machine hand it over within the call), and what they
wait for would have woken them. A thread of ours that has work may sleep for other reasons (a
folder that hangs): it counts as busy until it is idle.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from genericdp.host import workers
from genericdp.processes import own_children

_TASKS = Path("/proc/self/task")


class Threads:
    """Looks at the other threads of this process; for one thread alone."""

    def __init__(self) -> None:
        self._own = str(threading.get_native_id())
        self._files: dict[str, tuple[int, int]] = {}
        """``schedstat`` and ``stat`` of each."""

    def all_sleep(self) -> bool:
        """Say whether there was a moment just now in which all of them slept.

        One that was put on a core between the first look and the last is counted (``schedstat``);
        one that was woken and waits for a core does not sleep. Each look lets go of Python's lock,
        so whoever only waits for that is seen as well.
        """
        try:
            names = [one for one in os.listdir(_TASKS) if one != self._own]
            self._keep(names)
            turns = [self._turns(one) for one in names]
            return (
                all(self._sleeps(one) for one in names)
                and all(self._sleeps(one) for one in names)
                and turns == [self._turns(one) for one in names]
                and len(names) + 1 == len(os.listdir(_TASKS))
            )
        except (FileNotFoundError, ProcessLookupError):
            return False  # one has just ended

    def close(self) -> None:
        """Let go of the files."""
        self._keep([])

    def _keep(self, names: list[str]) -> None:
        for ended in self._files.keys() - set(names):
            for one in self._files.pop(ended):
                os.close(one)
        for name in names:
            if name not in self._files:
                schedstat = os.open(_TASKS / name / "schedstat", os.O_RDONLY)
                self._files[name] = schedstat, os.open(_TASKS / name / "stat", os.O_RDONLY)

    def _turns(self, name: str) -> bytes:
        """Give how often it was put on a core."""
        return os.pread(self._files[name][0], 100, 0).split()[2]

    def _sleeps(self, name: str) -> bool:
        # The name of the thread, in brackets, may hold any letter.
        text = os.pread(self._files[name][1], 100, 0)
        return text.rpartition(b") ")[2][:1] == b"S"


def is_quiet(threads: Threads) -> bool:
    """Say whether nothing is in flight."""
    return _no_worker_is_busy() and no_child_runs() and threads.all_sleep()


def _no_worker_is_busy() -> bool:
    workers_here = [one for one in threading.enumerate() if one.name == "worker"]
    return len(workers_here) <= len(workers._idle)


def no_child_runs() -> bool:
    """Say whether all our children are dead; who reaps them may do so in its own time."""
    return all(_is_dead(pid) for pid in own_children())


def _is_dead(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] == "Z"
    return True
