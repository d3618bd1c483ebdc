"""genericdp.health.execution: how many jobs run at once, and whose turn is next."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from genericdp.health.execution import Slots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Jobs:
    """Jobs that run until they are told to end."""

    def __init__(self, slots: Slots, tasks: asyncio.TaskGroup) -> None:
        self.running: list[tuple[str, int]] = []
        self.started: list[tuple[str, int]] = []
        self._slots = slots
        self._tasks = tasks
        self._job: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._end: dict[tuple[str, int], asyncio.Event] = {}

    async def enter(self, owner: str) -> None:
        """Add a job, and let start what may."""
        job = owner, len(self._job)
        self._end[job] = asyncio.Event()
        self._job[job] = self._tasks.create_task(self._run(job))
        await settled()

    async def _run(self, job: tuple[str, int]) -> None:
        async with self._slots.slot(job[0]):
            self.running.append(job)
            self.started.append(job)
            try:
                await self._end[job].wait()
            finally:
                self.running.remove(job)

    async def end(self, job: tuple[str, int]) -> None:
        """Let a job end."""
        self._end[job].set()
        await settled()

    async def cancel(self, job: tuple[str, int]) -> None:
        """Cancel a job, whether it runs or waits."""
        self._job[job].cancel()
        await settled()

    @property
    def waiting(self) -> list[tuple[str, int]]:
        """The jobs that have neither started nor ended."""
        idle = (job for job, task in self._job.items() if not task.done())
        return [job for job in idle if job not in self.running]

    def cancel_all(self) -> None:
        """Cancel every job."""
        for task in self._job.values():
            task.cancel()


async def settled() -> None:
    """Let every task do what it can do now."""
    for _ in range(6):
        await asyncio.sleep(0)


@asynccontextmanager
async def jobs_in(slots: Slots) -> AsyncIterator[Jobs]:
    async with asyncio.TaskGroup() as tasks:
        jobs = Jobs(slots, tasks)
        yield jobs
        jobs.cancel_all()


async def test_each_owner_has_a_slot_of_its_own_when_the_pool_is_taken() -> None:
    async with jobs_in(Slots(pool=2)) as jobs:
        for _ in range(5):
            await jobs.enter("hanging")
        assert len(jobs.running) == 3
        for owner in ("a", "b", "c"):
            await jobs.enter(owner)
            await jobs.enter(owner)
        assert [owner for owner, _ in jobs.running[3:]] == ["a", "b", "c"]


async def test_a_slot_of_the_pool_goes_to_each_waiting_owner_in_turn() -> None:
    async with jobs_in(Slots(pool=1)) as jobs:
        for owner in "aaabbbccc":
            await jobs.enter(owner)
        assert jobs.running == [("a", 0), ("a", 1), ("b", 3), ("c", 6)]
        for job in (("a", 1), ("a", 2), ("b", 4), ("c", 7)):
            await jobs.end(job)
        assert jobs.started[4:] == [("a", 2), ("b", 4), ("c", 7), ("b", 5)]


async def test_an_owner_may_have_a_limit_below_the_pool() -> None:
    async with jobs_in(Slots(pool=32, max_per_owner=4)) as jobs:
        for _ in range(40):
            await jobs.enter("many")
        assert len(jobs.running) == 4


async def test_without_a_pool_the_jobs_of_an_owner_never_overlap() -> None:
    async with jobs_in(Slots(pool=0)) as jobs:
        for owner in "aab":
            await jobs.enter(owner)
        assert jobs.running == [("a", 0), ("b", 2)]


async def test_a_job_canceled_in_the_moment_of_its_turn_frees_its_slot() -> None:
    slots = Slots(pool=0)
    async with jobs_in(slots) as jobs:
        await jobs.enter("a")
        await jobs.enter("a")
        await jobs.enter("a")
        async with asyncio.TaskGroup() as tasks:  # both before any task runs again
            tasks.create_task(jobs.end(("a", 0)))
            tasks.create_task(jobs.cancel(("a", 1)))
        assert jobs.running == [("a", 2)]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcde"), st.sampled_from(["enter", "end", "cancel"])),
        max_size=60,
    )
)
def test_the_limits_hold_and_nobody_waits_for_a_free_slot(steps: list[tuple[str, str]]) -> None:
    async def play() -> None:
        async with jobs_in(Slots(pool=3, max_per_owner=3)) as jobs:
            for owner, step in steps:
                if step == "enter":
                    await jobs.enter(owner)
                elif step == "end" and jobs.running:
                    await jobs.end(jobs.running[0])
                elif step == "cancel" and jobs.waiting:
                    await jobs.cancel(jobs.waiting[-1])
                running = Counter(owner for owner, _ in jobs.running)
                of_pool = sum(count - 1 for count in running.values())
                assert of_pool <= 3
                assert max(running.values(), default=0) <= 3
                for owner, _ in jobs.waiting:
                    assert running[owner] == 3 or (running[owner] and of_pool == 3)
            for owner in "abcde":
                mine = [job for job in jobs.started if job[0] == owner]
                assert mine == sorted(mine, key=lambda job: job[1])

    asyncio.run(play())
