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
    POOL,
    HookRunner,
    Slots,
    command_environment,
    run_for,
    why_not_permitted,
)
from genericdp.health.kinds.file import FileCheck
from genericdp.host.root import Root
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


async def test_so_many_run_at_once_and_no_more(runs: Runs) -> None:
    many = [device(f"d{number}") for number in range(POOL + 8)]
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(HookRunner(runs).run("allocate", R, many))
        await poll_until(lambda: len(runs.begun) >= POOL)
        runs.go.set()
    assert runs.most["all"] == POOL + 1  # one is the resource's own


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


@pytest.mark.parametrize(("wanted", "reason"), [("a", ""), ("b", "exited with 1: a")])
async def test_the_command_decides(wanted: str, reason: str) -> None:
    script = 'echo "$GENERICDP_DEVICE_ID"; test "$GENERICDP_DEVICE_ID" = "$WANTED"'
    check = Command(argv=("/bin/sh", "-c", script), env={"WANTED": wanted})
    async with Commands() as commands:
        outcome = await run_for(device("a"), check, resource=R, timeout_seconds=5, run=commands.run)
    assert (outcome.ok, outcome.reason, outcome.output) == (not reason, reason, "a\n")


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
    await HookRunner(runs).run("allocate", R, [replace(of, policy=pinned(script))])
    assert runs.begun == [(str(script),)]


async def test_a_program_that_cannot_be_read_or_takes_too_long_is_not_run(script: Path) -> None:
    policy, path = pinned(script), str(script)
    assert "longer than 0 s" in await why_not_permitted(policy, path, timeout_seconds=0)
    script.unlink()
    gone = await why_not_permitted(policy, path, timeout_seconds=5)
    assert "cannot be read: No such file or directory" in gone
    unpinned = policy_of(script.parent, f"commands: [{{path: {script}}}]\n")
    for reads_nothing in (None, unpinned):
        assert await why_not_permitted(reads_nothing, path, timeout_seconds=1) == ""


def test_a_file_that_leads_elsewhere_is_not_read(tmp_path: Path) -> None:
    for directory in ("dev", "run", "etc"):
        (tmp_path / directory).mkdir()
    (tmp_path / "etc/shadow").write_text("secret")
    (tmp_path / "run/state").write_text("up")
    allowed = replace(device("a"), policy=policy_of(tmp_path, "files: [/run]\n"))
    check: FileCheck[str, float] = FileCheck(path="/run/state", equals="up")
    assert check.look(allowed, Root(tmp_path)).ok
    (tmp_path / "run/state").unlink()
    (tmp_path / "run/state").symlink_to("../etc/shadow")
    said = check.look(allowed, Root(tmp_path)).reason
    assert "/etc/shadow is not among the files that are allowed (policy" in said
    assert "secret" not in said


Job = tuple[str, int]


class Jobs:
    """Jobs that run until they have to end."""

    def __init__(self, slots: Slots, tasks: asyncio.TaskGroup) -> None:
        self.running: list[Job] = []
        self.started: list[Job] = []
        self._slots = slots
        self._tasks = tasks
        self._jobs: dict[Job, asyncio.Task[None]] = {}
        self._ends: dict[Job, asyncio.Event] = {}

    async def enter(self, *owners: str) -> None:
        """Add a job of each, and let start what may."""
        for owner in owners:
            job = owner, len(self._jobs)
            self._ends[job] = asyncio.Event()
            self._jobs[job] = self._tasks.create_task(self._run(job))
            await settled()

    async def _run(self, job: Job) -> None:
        async with self._slots.slot(job[0]):
            self.running.append(job)
            self.started.append(job)
            try:
                await self._ends[job].wait()
            finally:
                self.running.remove(job)

    async def end(self, job: Job) -> None:
        """Let a job end."""
        self._ends[job].set()
        await settled()

    async def cancel(self, job: Job) -> None:
        """Cancel a job, whether it runs or waits."""
        self._jobs[job].cancel()
        await settled()

    @property
    def waiting(self) -> list[Job]:
        """The jobs that have neither started nor ended."""
        idle = (job for job, task in self._jobs.items() if not task.done())
        return [job for job in idle if job not in self.running]

    def cancel_all(self) -> None:
        for task in self._jobs.values():
            task.cancel()


@asynccontextmanager
async def jobs_in(**limits: Any) -> AsyncIterator[Jobs]:
    async with asyncio.TaskGroup() as tasks:
        jobs = Jobs(Slots(**limits), tasks)
        yield jobs
        jobs.cancel_all()


@pytest.mark.parametrize(
    ("limits", "owners", "running"),
    [
        # Each owner has a slot of its own when the pool is taken.
        ({"pool": 2}, ["hanging"] * 5 + list("aabbcc"), [0, 1, 2, 5, 7, 9]),
        ({"pool": 32, "max_per_owner": 4}, ["many"] * 40, [0, 1, 2, 3]),
        ({"pool": 0}, list("aab"), [0, 2]),
    ],
    ids=["own slots", "a limit below the pool", "no pool"],
)
async def test_so_many_of_an_owner_run_at_once(
    limits: dict[str, int], owners: list[str], running: list[int]
) -> None:
    async with jobs_in(**limits) as jobs:
        await jobs.enter(*owners)
        assert [number for _, number in jobs.running] == running


async def test_a_slot_of_the_pool_goes_to_each_waiting_owner_in_turn() -> None:
    async with jobs_in(pool=1) as jobs:
        await jobs.enter(*"aaabbbccc")
        assert jobs.running == [("a", 0), ("a", 1), ("b", 3), ("c", 6)]
        for job in (("a", 1), ("a", 2), ("b", 4), ("c", 7)):
            await jobs.end(job)
        assert jobs.started[4:] == [("a", 2), ("b", 4), ("c", 7), ("b", 5)]


async def test_a_job_canceled_in_the_moment_of_its_turn_frees_its_slot() -> None:
    async with jobs_in(pool=0) as jobs:
        await jobs.enter(*"aaa")
        async with asyncio.TaskGroup() as tasks:  # both before any task runs again
            tasks.create_task(jobs.end(("a", 0)))
            tasks.create_task(jobs.cancel(("a", 1)))
        assert jobs.running == [("a", 2)]


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
                running = Counter(owner for owner, _ in jobs.running)
                of_pool = sum(count - 1 for count in running.values())
                assert of_pool <= 3
                assert max(running.values(), default=0) <= 3
                for owner, _ in jobs.waiting:
                    assert running[owner] == 3 or (running[owner] and of_pool == 3)
            for owner in "abcde":
                numbers = [number for process, number in jobs.started if process == owner]
                assert numbers == sorted(numbers)

    asyncio.run(play())
