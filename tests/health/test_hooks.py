"""genericdp.health.execution: which commands run for a container, and what their failure says."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp.devices.device import Device
from genericdp.devices.identity import HardwareIdentity
from genericdp.devices.inventory import Identity
from genericdp.errors import Outcome
from genericdp.health.execution import POOL, HookRunner
from genericdp.model import Command, Hook, HookName
from genericdp.process.run import Commands
from genericdp.tally import ResourceTally, Tally
from tests.polling import poll_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

R = "example.com/r"


def device(
    name: str, *argv: str, env: Mapping[str, str] | None = None, which: HookName = "allocate"
) -> Device:
    hook = Hook(command=Command(argv=argv, env=env or {}), timeout_seconds=4)
    return Device(
        id=name,
        key=name,
        path=f"/dev/{name}",
        identity=Identity(inode=1),
        hooks={which: hook},
    )


class Runs:
    """Stands for commands: each waits until it is let go."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.count = 0
        self.go = asyncio.Event()

    async def __call__(
        self, argv: Sequence[str], env: Mapping[str, str], *, timeout_seconds: float
    ) -> Outcome:
        name = env["GENERICDP_DEVICE_ID"]
        self.count += 1
        for one in (name, "all"):
            self.running[one] += 1
            self.most[one] = max(self.most[one], self.running[one])
        try:
            await self.go.wait()
            await asyncio.sleep(0)
        finally:
            for one in (name, "all"):
                self.running[one] -= 1
        return Outcome()


async def test_the_hook_runs_once_for_each_device_in_parallel() -> None:
    runs = Runs()
    hooks = HookRunner(run=runs)
    runs.go.set()
    await hooks.run("allocate", R, [device("a", "/x"), device("b", "/x"), device("c", "/x")])
    assert runs.count == 3
    assert runs.most == {"a": 1, "b": 1, "c": 1, "all": 3}


async def test_hooks_of_one_device_never_overlap_and_wait_for_no_other_device() -> None:
    runs = Runs()
    hooks = HookRunner(run=runs)
    async with asyncio.TaskGroup() as tasks:
        for name in "aab":
            tasks.create_task(hooks.run("allocate", R, [device(name, "/x")]))
        tasks.create_task(hooks.run("preStart", R, [device("a", "/x", which="preStart")]))
        await poll_until(lambda: runs.count >= 2)
        for _ in range(10):
            await asyncio.sleep(0)
        assert dict(runs.running) == {"a": 1, "b": 1, "all": 2}
        runs.go.set()
    assert runs.count == 4
    assert runs.most["a"] == 1


async def test_so_many_run_at_once_and_no_more() -> None:
    runs = Runs()
    hooks = HookRunner(run=runs)
    async with asyncio.TaskGroup() as tasks:
        many = [device(f"d{i}", "/x") for i in range(POOL + 8)]
        tasks.create_task(hooks.run("allocate", R, many))
        await poll_until(lambda: runs.count >= POOL)
        runs.go.set()
    assert runs.most["all"] == POOL + 1  # one is the resource's own


async def test_a_device_without_that_hook_costs_nothing() -> None:
    runs = Runs()
    hooks = HookRunner(run=runs)
    await hooks.run("allocate", R, [device("a", "/x", which="preStart")])
    await hooks.run("preStart", R, [device("a", "/x")])
    await hooks.run("release", R, [device("a", "/x")])
    assert runs.count == 0


async def test_a_release_hook_is_the_only_one_that_runs_at_the_release() -> None:
    runs = Runs()
    runs.go.set()
    both = [device("a", "/x"), device("b", "/x", which="release")]
    await HookRunner(run=runs).run("release", R, both)
    assert dict(runs.most) == {"b": 1, "all": 1}


async def test_a_hook_that_is_given_up_with_its_call_is_told_as_failed() -> None:
    results = {"success": 0, "failure": 0}
    runs = Runs()
    hooks = HookRunner(runs, Tally({R: ResourceTally(hooks={"allocate": results})}))
    async with asyncio.TaskGroup() as tasks:
        call = tasks.create_task(hooks.run("allocate", R, [device("a", "/x")]))
        await poll_until(lambda: runs.count)
        call.cancel()
    assert results == {"success": 0, "failure": 1}


async def test_the_command_finds_what_the_config_declares_and_whom_it_is_about(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    async with Commands() as commands:
        one = device("a", "/bin/sh", "-c", f"env > {out}", env={"MODE": "quick"})
        await HookRunner(commands.run).run("allocate", R, [one])
    found = dict(line.split("=", 1) for line in out.read_text().splitlines())
    assert found.pop("PWD", "/") == "/"  # the shell's own
    assert found.pop("SHLVL", "0") == "0"
    found.pop("_", None)
    assert found.pop("PATH")
    assert found == {
        "MODE": "quick",
        "GENERICDP_RESOURCE": R,
        "GENERICDP_DEVICE_ID": "a",
        "GENERICDP_DEVICE_PATHS": "",
    }


async def test_hooks_of_one_piece_of_hardware_never_overlap_whatever_its_name() -> None:
    """Two resources with ``exclusive: false`` have it, one of them in a group."""
    runs = Runs()
    hooks = HookRunner(run=runs)
    card, render = (
        HardwareIdentity(location="pci 0000:03:00.0", part=part) for part in ("drm", "drm renderD")
    )
    encode = replace(device("encode-0", "/x"), identities=(render,))
    whole = replace(device("whole", "/x"), key="group all", identities=(render, card))
    other = replace(device("other", "/x"), identities=(card,))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hooks.run("allocate", R, [encode]))
        await poll_until(lambda: runs.count == 1)
        tasks.create_task(hooks.run("allocate", "example.com/whole", [whole]))
        for _ in range(10):
            await asyncio.sleep(0)
        tasks.create_task(hooks.run("allocate", "example.com/other", [other]))
        for _ in range(10):
            await asyncio.sleep(0)
        assert runs.running["whole"] == 0
        runs.go.set()
    assert runs.count == 3
    assert dict(runs.most) | {"all": 0} == {"encode-0": 1, "whole": 1, "other": 1, "all": 0}
    assert runs.most["all"] == 1
