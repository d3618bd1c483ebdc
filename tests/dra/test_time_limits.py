"""Hooks of all claims of a pod run at once, since the kubelet waits 45 s for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from genericdp.devices.device import Device
from genericdp.dra.slices import shares_of
from genericdp.model import HookName

from tests.dra.claims import DRIVER, HOOKS, NAME, Machine, Process, ref
from tests.world import PATIENCE_SECONDS, resource

OTHER = "example.com/modem"


class MeetingProcess(Process):
    """A daemon each of whose hooks ends once three hooks run at the same time."""

    def __init__(self, machine: Machine, directory: Path) -> None:
        super().__init__(machine, directory)
        self._all = asyncio.Barrier(3)

    async def run_hooks(
        self, name: HookName, _resource: str, devices: Iterable[Device], _: dict[str, str]
    ) -> None:
        await asyncio.wait_for(self._all.wait(), PATIENCE_SECONDS)
        await super().run_hooks(name, _resource, devices, _)


def process_of(directory: Path) -> MeetingProcess:
    """Return a daemon with two resources: the claim ``both`` has devices of both."""
    machine = Machine(directory, "ttyUSB0", "ttyUSB1")
    machine.host.plug("ttyACM0", major=166)
    keys = {"servedBy": "dra", "hooks": HOOKS}
    machine.configure(
        resource(NAME, "/dev/ttyUSB*", **keys), resource(OTHER, "/dev/ttyACM*", **keys)
    )
    machine.look()
    first, second = machine.shares
    machine.allocate("both", [first])
    (modem,) = shares_of(machine.lists[OTHER])
    other = {"request": "r", "driver": DRIVER, "pool": f"node-1/{OTHER}", "device": modem}
    machine.claims["both"]["status"]["allocation"]["devices"]["results"].append(other)
    machine.allocate("second", [second])
    return MeetingProcess(machine, directory)


async def test_hooks_of_all_claims_and_resources_of_a_call_run_at_once(tmp_path: Path) -> None:
    process = process_of(tmp_path)
    claims = [ref("both"), ref("second")]
    answers = await process.preparer.prepare(claims)
    assert not any(isinstance(answer, str) for answer in answers.values()), answers
    assert await process.preparer.unprepare(claims) == {"both": "", "second": ""}
    assert sorted(process.hooks()) == sorted(
        f"{name} {device}" for name in HOOKS for device in ("ttyACM0", "ttyUSB0", "ttyUSB1")
    )
    assert process.files() == []
