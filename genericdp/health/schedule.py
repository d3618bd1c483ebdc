"""When probes run: spread over their period, and never too many at once."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from genericdp import sha256

MOST_OF_RESOURCE = 4
MOST_IN_ALL = 32

Job = TypeVar("Job")


def share_of_period(*names: str) -> float:
    """Give where in its period a probe runs, from 0 to 1: the same after each restart."""
    digest = sha256.digest("\0".join(names).encode(errors="surrogatepass"))
    return int.from_bytes(digest[:6], "big") / 2**48


def second_run(first: float, period: float, share: float) -> float:
    """Give when a probe runs again that ran first with all the others at once."""
    return first + period * (0.5 + share)


def next_run(due: float, now: float, period: float) -> float:
    """Give when it runs again: what was missed is not made up for."""
    return max(due + period, now)


def in_step(due: float, period: float) -> float:
    """Put off a look at a file, so that those of many devices come in batches.

    40 of them in a period: that is still spread, and handing one look to a thread costs more
    than the look.
    """
    step = period / 40
    return math.ceil(due / step) * step


@dataclass(slots=True)
class Slots(Generic[Job]):
    """Who runs and who waits: a resource whose probes hang delays no other one."""

    of_resource: int = MOST_OF_RESOURCE
    in_all: int = MOST_IN_ALL
    _waiting: dict[str, deque[Job]] = field(default_factory=dict)
    """By resource, that which has waited longest first."""
    _running: dict[str, int] = field(default_factory=dict)

    def enter(self, resource: str, job: Job) -> None:
        """Let a job wait for its turn."""
        self._waiting.setdefault(resource, deque()).append(job)

    def start(self) -> list[Job]:
        """Give the jobs whose turn it is now; each must ``leave`` when it is done."""
        started: list[Job] = []
        free = self.in_all - sum(self._running.values())
        progress = True
        # One of each resource in turn, so that none takes all that has become free.
        while free and progress:
            progress = False
            for resource in list(self._waiting):
                if not free:
                    break
                if self._running.get(resource, 0) >= self.of_resource:
                    continue
                started.append(self._take(resource))
                free -= 1
                progress = True
        return started

    def _take(self, resource: str) -> Job:
        # To the end of the dict: the others come first next time.
        jobs = self._waiting.pop(resource)
        job = jobs.popleft()
        if jobs:
            self._waiting[resource] = jobs
        self._running[resource] = self._running.get(resource, 0) + 1
        return job

    def leave(self, resource: str) -> None:
        """Free the slot of a job."""
        self._running[resource] -= 1
        if not self._running[resource]:
            del self._running[resource]

    @property
    def running(self) -> int:
        """How many run now."""
        return sum(self._running.values())
