"""Claims while the daemon is killed, calls are cancelled, and the machine starts anew."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from genericdp.devices.resourcenames import label
from tests.dra.kubelet import DraCallError
from tests.dra.node import DRIVER, NAME, by_dra
from tests.programs import close_pipes, last_line
from tests.test_faults import CAN_MOUNT, MOUNT_NAMESPACE
from tests.world import config

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from genericdp.kubelet.api.dra_pb2 import Claim as ClaimRef
    from tests.dra.node import DraNode

pytestmark = pytest.mark.slow

USB0 = label("ttyUSB0")

KILLED = """
import asyncio, os, shutil, signal, sys, threading
from pathlib import Path
from genericdp import durable
from genericdp.dra import claims, given, prepare
from genericdp.dra.claims import release_marker
from genericdp.devices.resourcenames import label
from tests.dra import claims as world
from tests.dra.claims import Machine, Process, files_of

place, USB0, USB1 = Path(sys.argv[1]), label("ttyUSB0"), label("ttyUSB1")
machine = Machine(place, "ttyUSB0", "ttyUSB1")
OURS = {durable.__file__, claims.__file__, given.__file__, prepare.__file__, world.__file__}
LIBRARIES = ("/pathlib.py", "/tempfile.py", "/os.py")
CHANGES = {"mkdir", "open", "write", "fchmod", "replace", "unlink"}

def killed_after(steps):
    def count(frame, event, argument):
        nonlocal steps
        name = frame.f_code.co_filename
        if event == "c_return" and (name in OURS or name.endswith(LIBRARIES)):
            if argument.__name__ in CHANGES:
                steps -= 1
                if not steps:
                    os.kill(os.getpid(), signal.SIGKILL)
    threading.setprofile(count)
    sys.setprofile(count)

def forked(work):
    child = os.fork()
    if not child:
        try:
            asyncio.run(work())
        except BaseException as error:
            import traceback
            traceback.print_exception(error)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def fresh(source, name):
    folder = place / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    return folder

def allocate(first, other=()):
    machine.claims.clear()
    if first is not None:
        machine.allocate("first", first)
    if other:
        machine.allocate("other", other)

async def prepared_again(folder, boot="boot-1"):
    # The kubelet calls again, and at the end of the pod once more.
    allocate([USB0])
    process = Process(machine, folder, boot=boot)
    before = len(process.hooks())
    was_done = any(
        one.is_prepared and one.boot_id == boot for one in process.preparer.records.claims.values()
    )
    assert not await process.prepare("first")
    assert {*process.files()} == files_of("first"), process.files()
    ran = process.hooks()[before:]
    assert was_done or ran[-1:] == ["allocate ttyUSB0"], ran
    assert process.hooks()[-1:] == ["allocate ttyUSB0"]
    allocate([USB0], [USB0])
    assert "prepared for claim default/first" in await process.prepare("other")
    assert not await process.unprepare("first")
    assert process.hooks()[-1:] == ["release ttyUSB0"]
    assert process.files() == []

async def prepared_after_a_reboot(folder):
    shutil.rmtree(folder / "cdi", ignore_errors=True)
    await prepared_again(folder, boot="boot-2")

async def given_up(folder):
    # The pod is deleted before the kubelet calls again.
    allocate([USB0])
    process = Process(machine, folder)
    assert not await process.unprepare("first")
    assert not await process.unprepare("other")
    assert process.files() == []

async def gone(folder):
    # The claim is gone in the API; the next one gets the device once it is unprepared.
    allocate(None, [USB0])
    process = Process(machine, folder)
    if "first" in process.preparer.records.claims:
        assert "no longer has: waiting" in await process.prepare("other")
        assert "claims/first.json" in process.files()
    assert not await process.unprepare("first")
    assert not await process.prepare("other")
    assert {*process.files()} == files_of("other"), process.files()
    assert not await process.unprepare("other")
    assert process.files() == []

async def gone_after_a_reboot(folder):
    allocate(None, [USB0])
    process = Process(machine, folder, boot="boot-2")
    assert not await process.prepare("other")
    assert {*process.files()} == files_of("other"), process.files()
    assert not await process.unprepare("other")
    assert process.files() == []

async def released_again(folder):
    process = Process(machine, folder)
    release_marker(folder / "claims", "first").touch()
    assert await process.preparer.honor_markers()
    assert process.files() == []
    assert process.hooks()[-1:] == ["release ttyUSB0"]

async def prepares(folder):
    allocate([USB0])
    assert not await Process(machine, folder).prepare("first")

async def unprepares(folder):
    assert not await Process(machine, folder).unprepare("first")

async def reclaims(folder):
    allocate(None, [USB0])
    assert not await Process(machine, folder, boot="boot-2").prepare("other")

async def releases(folder):
    release_marker(folder / "claims", "first").touch()
    assert await Process(machine, folder).preparer.honor_markers()

async def prepares_anew(folder):
    allocate([USB1, USB0])
    assert not await Process(machine, folder).prepare("first")

empty = place / "empty"
empty.mkdir()
ready = fresh(empty, "ready")
assert forked(lambda: prepares(ready)) == 0

def content(folder):
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            name = "temporary" if path.name.startswith(".genericdp-") else path.name
            found[name] = path.read_bytes()
    return found

total = 0
ENDINGS = (prepared_again, prepared_after_a_reboot, given_up, gone, gone_after_a_reboot)
for scenario, start, endings in (
    (prepares, empty, ENDINGS),
    (unprepares, ready, ENDINGS),
    (prepares_anew, ready, ENDINGS),
    (reclaims, ready, (gone_after_a_reboot,)),
    (releases, ready, (released_again,)),
):
    seen, step, code = [], 0, -signal.SIGKILL
    while code:
        step += 1
        folder = fresh(start, "state")
        async def run():
            killed_after(step)
            await scenario(folder)
            sys.setprofile(None)
        code = forked(run)
        assert code in (0, -signal.SIGKILL), (scenario.__name__, step, code)
        if (state := content(folder)) in seen:
            continue
        seen.append(state)
        async def end():
            for ending in endings:
                await ending(fresh(folder, "copy"))
        assert forked(end) == 0, (scenario.__name__, step)
    assert len(seen) > 3
    total += step
print(total)
"""


def test_killed_at_any_step_no_claim_is_lost_and_no_device_is_given_twice(
    short_folder: Path,
) -> None:
    steps = int(last_line(f"import sys; sys.argv[1:] = [{str(short_folder)!r}]\n{KILLED}"))
    assert steps > 40


DAEMONS = """
import asyncio, os, signal, sys, threading
from pathlib import Path
from genericdp.config.load import load
from genericdp.daemon import serve
from genericdp.observed import Signal
from genericdp.settings import Settings
from genericdp.dra import driver
from genericdp.settings import DraSettings
from genericdp.process.run import Commands

root, cdi_folder, kubelet_folder, host, kubeconfig, file = map(Path, sys.argv[1:])

def kill_at(uid, steps):
    # Before a change of a record or spec of the claim.
    def look(frame, event, argument):
        nonlocal steps
        if event == "c_call" and argument.__name__ in ("replace", "unlink"):
            if any(uid in str(frame.f_locals.get(name)) for name in ("path", "self")):
                steps -= 1
                if not steps:
                    os.kill(os.getpid(), signal.SIGKILL)
    threading.setprofile(look)

async def load_here(paths, *, policy=None):
    return load(paths, policy=policy)

async def run():
    settings = Settings(
        configs=(file,), kubelet_folder=kubelet_folder, cdi_folder=cdi_folder, root=host,
        node_name="node-1",
        dra=DraSettings(driver="genericdp.io", kubelet_root=root, kubeconfig=kubeconfig),
    )
    async with Commands() as commands:
        await serve(settings, reload=Signal(), commands=commands, load=load_here)

load([file])  # what that imports is there from now on
for line in sys.stdin:
    uid, steps = line.split()
    if not (child := os.fork()):
        kill_at(uid, int(steps))
        try:
            asyncio.run(run())
        finally:
            os._exit(1)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
BOUND = """
mount --bind "$1" /proc/sys/kernel/random/boot_id
shift
exec "$0" "$@"
"""


class Daemons:
    """Daemons, one after another, each of which is killed at a step of a claim."""

    def __init__(self, node: DraNode, process: asyncio.subprocess.Process) -> None:
        self.node = node
        self.process = process
        self.pid = 0
        self.killed = 0

    async def start(self, uid: str, steps: int) -> None:
        """Start the next one, to be killed at so many steps of the claim with this UID."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{uid} {steps}\n".encode())
        self.pid = await self.line()

    async def line(self) -> int:
        assert self.process.stdout is not None
        return int(await self.process.stdout.readline())

    async def call(self, call: str, claim: ClaimRef, then: tuple[str, int]) -> None:
        """Call until it succeeds, as the kubelet does; another daemon replaces a killed one."""
        while True:
            await self.node.kubelet.wait_for(DRIVER)
            try:
                answer = await getattr(self.node.kubelet, call)(DRIVER, claim)
            except DraCallError:
                if self.pid and not os.path.exists(f"/proc/{self.pid}/exe"):
                    assert await self.line() == -signal.SIGKILL
                    self.killed += 1
                    await self.start(*then)
            else:
                assert not isinstance(answer[claim.uid], str) or answer[claim.uid] == "", answer
                return


@asynccontextmanager
async def daemons(
    node: DraNode, boot_file: Path, *resources: Mapping[str, object]
) -> AsyncIterator[Daemons]:
    """Run daemons that have been imported already: that takes longer than all the rest."""
    folder = boot_file.parent
    (folder / "config.yaml").write_text(config(*resources))
    node.state_folder.mkdir(parents=True)
    (node.state_folder / ".genericdp-temporary").touch()
    served = json.dumps({"version": 1, "resources": [NAME]})
    (node.state_folder / "served.json").write_text(served)
    paths = (node.root, node.cdi_folder, node.world.kubelet.folder, node.host.folder)
    process = await asyncio.create_subprocess_exec(
        *((*MOUNT_NAMESPACE, BOUND, sys.executable, boot_file) if CAN_MOUNT else (sys.executable,)),
        *("-c", DAEMONS, *map(str, (*paths, node.settings.kubeconfig, folder / "config.yaml"))),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    found = Daemons(node, process)
    try:
        yield found
    finally:
        if found.pid:
            os.kill(found.pid, signal.SIGKILL)
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        close_pipes(process)


HOOK = """#!/bin/sh
echo {name} >> {log}
if rm {log}.{name} 2>/dev/null; then kill -9 $PPID; fi
"""


def hooks_that_kill(log: Path) -> dict[str, object]:
    """Return hooks that log their names; each kills the daemon when it runs for the first time."""
    hooks: dict[str, object] = {}
    for name in ("allocate", "release"):
        program = log.with_name(name)
        program.write_text(HOOK.format(name=name, log=log))
        program.chmod(0o755)
        hooks[name] = {"exec": {"command": [str(program)]}}
        log.with_suffix(f".{name}").touch()
    return hooks


async def test_whenever_the_daemon_is_killed_the_next_one_goes_on(
    node: DraNode, short_folder: Path
) -> None:
    """It is before each change of a record or spec, and within each hook. At last, a boot."""
    log, boot_file = short_folder / "log", short_folder / "boot"
    boot_file.write_text("boot-0")
    async with daemons(node, boot_file, by_dra(hooks=hooks_that_kill(log))) as running:
        claim, steps, was_killed = node.allocate(USB0, name="claim-0"), 0, True
        await running.start(claim.uid, steps)
        while was_killed:
            following = node.allocate(USB0, name=f"claim-{steps + 1}")
            log.unlink(missing_ok=True)
            killed, then = running.killed, (following.uid, steps + 1)
            await running.call("prepare", claim, then)
            assert "allocate" in log.read_text()
            assert node.record(claim)
            assert len(node.given(claim)) == 1
            assert "is prepared for claim default/claim" in await node.refusal(following)
            await running.call("unprepare", claim, then)
            assert log.read_text().endswith("release\n")
            assert [*node.cdi_folder.iterdir(), *(node.state_folder / "claims").iterdir()] == []
            was_killed, claim, steps = running.killed > killed, following, steps + 1
        if CAN_MOUNT:
            await running.call("prepare", claim, ("none", 0))
            os.kill(running.pid, signal.SIGKILL)
            boot_file.write_text("boot-1")
            for file in (log, *node.cdi_folder.iterdir()):
                file.unlink()
            await running.call("prepare", claim, ("none", 0))
            assert log.read_text() == "allocate\n"
            assert node.given(claim)
    assert steps > 6
    assert not [*node.state_folder.rglob(".genericdp-*")]
