"""Commands that run for a container: how many at once, their environment, and the policy."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.devices.device import Device
from genericdp.devices.identity import HardwareIdentity
from genericdp.devices.inventory import Identity
from genericdp.errors import Outcome, UnusableDeviceError
from genericdp.health.execution import (
    PATH,
    HookRunner,
    Slots,
    command_environment,
    run_for,
    why_not_permitted,
)
from genericdp.model import Command, Hook, HookName
from genericdp.process.run import Commands
from genericdp.tally import ResourceTally, Tally
from genericdp.template import parse
from hypothesis import given
from hypothesis import strategies as st

from tests.config.bounded import policy_of
from tests.polling import others_run, poll_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from genericdp.policy import Policy

R = "example.com/r"


def device(name: str, *argv: str, which: HookName = "allocate", **env: str) -> Device:
    command = Command(
        argv=tuple(map(parse, argv or ("/x",))),
        env={name: parse(text) for name, text in env.items()},
    )
    hook = Hook(command=command, timeout_seconds=4)
    identity = Identity(inode=1)
    return Device(id=name, key=name, path=f"/dev/{name}", identity=identity, hooks={which: hook})


class Runs:
    """Commands of a test: each waits until it is let go."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.begun: list[Sequence[str]] = []
        self.go = asyncio.Event()

    async def __call__(
        self, argv: Sequence[str], env: Mapping[str, str], *, timeout_seconds: float
    ) -> Outcome:
        self.begun.append(argv)
        names = (env["GENERICDP_DEVICE_ID"], "all")
        for name in names:
            self.running[name] += 1
            self.most[name] = max(self.most[name], self.running[name])
        try:
            await self.go.wait()
            await others_run()
        finally:
            self.running.subtract(names)
        return Outcome()


@pytest.fixture
async def runs() -> Runs:
    return Runs()


async def settled() -> None:
    """Let every task do what it can do now."""
    for _ in range(10):
        await others_run()


async def test_the_hook_runs_once_for_each_device_that_has_it_in_parallel(runs: Runs) -> None:
    runs.go.set()
    hooks = HookRunner(runs)
    await hooks.run("allocate", R, [device("a"), device("b"), device("c", which="preStart")])
    assert runs.most == {"a": 1, "b": 1, "all": 2}
    await hooks.run("release", R, [device("a"), device("d", which="release")])
    assert runs.most == {"a": 1, "b": 1, "d": 1, "all": 2}
    await hooks.run("preStart", R, [device("e")])
    assert len(runs.begun) == 3


async def test_hooks_of_one_device_never_overlap_and_wait_for_no_other_device(runs: Runs) -> None:
    hooks = HookRunner(runs)
    async with asyncio.TaskGroup() as tasks:
        for name in "aab":
            tasks.create_task(hooks.run("allocate", R, [device(name)]))
        tasks.create_task(hooks.run("preStart", R, [device("a", which="preStart")]))
        await poll_until(lambda: len(runs.begun) >= 2)
        await settled()
        assert runs.running == {"a": 1, "b": 1, "all": 2}
        runs.go.set()
    assert len(runs.begun) == 4
    assert runs.most["a"] == 1


async def test_hooks_of_one_piece_of_hardware_never_overlap_whatever_its_name(runs: Runs) -> None:
    """Two resources with ``exclusive: false`` have it, one of them in a group."""
    hooks = HookRunner(runs)
    card, render = (
        HardwareIdentity(location="pci 0000:03:00.0", part=part) for part in ("drm", "drm renderD")
    )
    encode = replace(device("encode-0"), identities=(render,))
    whole = replace(device("whole"), key="group all", identities=(render, card))
    other = replace(device("other"), identities=(card,))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hooks.run("allocate", R, [encode]))
        await poll_until(lambda: len(runs.begun) == 1)
        tasks.create_task(hooks.run("allocate", "example.com/whole", [whole]))
        await settled()
        tasks.create_task(hooks.run("allocate", "example.com/other", [other]))
        await settled()
        assert runs.running["whole"] == 0
        runs.go.set()
    assert runs.most == {"encode-0": 1, "whole": 1, "other": 1, "all": 1}


async def test_a_hook_that_is_given_up_with_its_call_is_told_as_failed(runs: Runs) -> None:
    results = {"success": 0, "failure": 0}
    hooks = HookRunner(runs, Tally({R: ResourceTally(hooks={"allocate": results})}))
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(hooks.run("allocate", R, [device("a")]))
        await poll_until(lambda: runs.begun)
        call.cancel()
    assert results == {"success": 0, "failure": 1}


async def test_the_command_finds_what_the_config_declares_and_whom_it_is_about(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    async with Commands() as commands:
        of = device("a", "/bin/sh", "-c", f"env > {out}", MODE="quick", GENERICDP_DEVICE_ID="other")
        await HookRunner(commands.run).run("allocate", R, [of])
    found = dict(line.split("=", 1) for line in out.read_text().splitlines())
    own_of_shell = {"PWD", "SHLVL", "_"}
    assert {name: text for name, text in found.items() if name not in own_of_shell} == {
        "PATH": PATH,
        "MODE": "quick",
        "GENERICDP_RESOURCE": R,
        "GENERICDP_DEVICE_ID": "a",
        "GENERICDP_DEVICE_PATHS": "",
    }
    assert command_environment(R, of, {"PATH": "/opt/bin"})["PATH"] == "/opt/bin"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "check"
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(0o755)
    return path


def pinned(script: Path) -> Policy:
    digest = hashlib.sha256(script.read_bytes()).hexdigest().upper()
    return policy_of(script.parent, f"commands: [{{path: {script}, sha256: '{digest}'}}]\n")


async def test_a_probe_whose_program_has_changed_is_not_run_and_says_the_line(script: Path) -> None:
    of = replace(device("a"), policy=pinned(script))
    check = Command(argv=(str(script),))
    async with Commands() as commands:
        probe = partial(run_for, of, check, resource=R, timeout_seconds=5, run=commands.run)
        assert (await probe()).ok
        marker = script.with_name("ran")
        script.write_text(f"#!/bin/sh\ntouch {marker}\n")
        after = await probe()
    assert not after.ok
    assert f"{script} has the SHA-256 " in after.reason
    assert f"(policy {script.parent}/p.yaml:3 says " in after.reason
    assert not marker.exists()


async def test_a_hook_that_is_not_allowed_is_not_run_and_says_why(script: Path, runs: Runs) -> None:
    runs.go.set()
    of = replace(device("a", str(script)), policy=policy_of(script.parent, ""))
    with pytest.raises(UnusableDeviceError, match=r"p\.yaml:1 has no 'commands', which allows non"):
        await HookRunner(runs).run("allocate", R, [of])
    assert runs.begun == []
    unpinned = policy_of(script.parent, f"commands: [{{path: {script}}}]\n")
    for policy in (pinned(script), unpinned):
        await HookRunner(runs).run("allocate", R, [replace(of, policy=policy)])
    assert runs.begun == [(str(script),)] * 2


async def test_a_program_that_cannot_be_read_or_takes_too_long_is_not_run(script: Path) -> None:
    policy, path = pinned(script), str(script)
    assert "longer than 0 s" in await why_not_permitted(policy, path, timeout_seconds=0)
    script.unlink()
    gone = await why_not_permitted(policy, path, timeout_seconds=5)
    assert "cannot be read: No such file or directory" in gone


class Jobs:
    """Jobs of owners, by number, that run until they have to end."""

    def __init__(self, slots: Slots, tasks: asyncio.TaskGroup) -> None:
        self.owners: list[str] = []
        self.running: list[int] = []
        self.started: list[int] = []
        self._slots = slots
        self._tasks = tasks
        self._jobs: list[asyncio.Task[None]] = []
        self._ends: list[asyncio.Event] = []

    async def enter(self, *owners: str) -> None:
        """Add a job of each, and let start what may."""
        for owner in owners:
            self.owners.append(owner)
            self._ends.append(asyncio.Event())
            self._jobs.append(self._tasks.create_task(self._run(len(self._jobs))))
            await settled()

    async def _run(self, job: int) -> None:
        async with self._slots.slot(self.owners[job]):
            self.running.append(job)
            self.started.append(job)
            try:
                await self._ends[job].wait()
            finally:
                self.running.remove(job)

    async def end(self, job: int) -> None:
        """Let a job end."""
        self._ends[job].set()
        await settled()

    async def cancel(self, job: int) -> None:
        """Cancel a job, whether it runs or waits."""
        self._jobs[job].cancel()
        await settled()

    @property
    def waiting(self) -> list[int]:
        """The jobs that have neither started nor ended."""
        left = (job for job, task in enumerate(self._jobs) if not task.done())
        return [job for job in left if job not in self.running]


@asynccontextmanager
async def jobs_in(**limits: Any) -> AsyncIterator[Jobs]:
    async with asyncio.TaskGroup() as tasks:
        jobs = Jobs(Slots(**limits), tasks)
        yield jobs
        for job in (*jobs.running, *jobs.waiting):
            await jobs.cancel(job)


async def test_a_slot_of_the_pool_goes_to_each_waiting_owner_in_turn() -> None:
    async with jobs_in(pool=1) as jobs:
        await jobs.enter(*"aaabbbccc")
        assert jobs.running == [0, 1, 3, 6]
        for job in (1, 2, 4, 7):
            await jobs.end(job)
        assert jobs.started[4:] == [2, 4, 7, 5]


async def test_a_job_canceled_in_the_moment_of_its_turn_frees_its_slot() -> None:
    async with jobs_in(pool=0) as jobs:
        await jobs.enter(*"aaa")
        async with asyncio.TaskGroup() as tasks:  # both before any task runs again
            tasks.create_task(jobs.end(0))
            tasks.create_task(jobs.cancel(1))
        assert jobs.running == [2]


STEPS = st.tuples(st.sampled_from("abcde"), st.sampled_from(["enter", "end", "cancel"]))


@given(st.lists(STEPS, max_size=60))
def test_the_limits_hold_and_nobody_waits_for_a_free_slot(steps: list[tuple[str, str]]) -> None:
    async def play() -> None:
        async with jobs_in(pool=3, max_per_owner=3) as jobs:
            for owner, step in steps:
                if step == "enter":
                    await jobs.enter(owner)
                elif step == "end" and jobs.running:
                    await jobs.end(jobs.running[0])
                elif step == "cancel" and jobs.waiting:
                    await jobs.cancel(jobs.waiting[-1])
                running = Counter(jobs.owners[job] for job in jobs.running)
                of_pool = sum(count - 1 for count in running.values())
                assert of_pool <= 3
                assert max(running.values(), default=0) <= 3
                for job in jobs.waiting:
                    count = running[jobs.owners[job]]
                    assert count == 3 or (count and of_pool == 3)

    asyncio.run(play())
