"""Claims of a daemon that is killed, or whose disk takes no record and no CDI spec."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.cdi.test_faults import NOT_MOUNTED, make_room, raise_limit
from tests.dra.kubelet import DraCallError
from tests.dra.node import DRIVER, NAME, OTHER, POOL, USB0, DraNode, by_dra
from tests.programs import last_line
from tests.test_daemon import Daemon, Place
from tests.test_faults import MOUNT_NAMESPACE
from tests.world import config, resource

pytestmark = pytest.mark.slow

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
    directory = place / name
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(source, directory)
    return directory

def allocate(first, other=()):
    machine.claims.clear()
    if first is not None:
        machine.allocate("first", first)
    if other:
        machine.allocate("other", other)

async def prepared_again(directory, boot="boot-1"):
    # The kubelet calls again, and at the end of the pod once more.
    allocate([USB0])
    process = Process(machine, directory, boot=boot)
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

async def prepared_after_a_reboot(directory):
    shutil.rmtree(directory / "cdi", ignore_errors=True)
    await prepared_again(directory, boot="boot-2")

async def given_up(directory):
    # The pod is deleted before the kubelet calls again.
    allocate([USB0])
    process = Process(machine, directory)
    assert not await process.unprepare("first")
    assert not await process.unprepare("other")
    assert process.files() == []

async def gone(directory):
    # The claim is missing in the API; the next one gets the device once it is unprepared.
    allocate(None, [USB0])
    process = Process(machine, directory)
    if "first" in process.preparer.records.claims:
        assert "no longer has: waiting" in await process.prepare("other")
        assert "claims/first.json" in process.files()
    assert not await process.unprepare("first")
    assert not await process.prepare("other")
    assert {*process.files()} == files_of("other"), process.files()
    assert not await process.unprepare("other")
    assert process.files() == []

async def gone_after_a_reboot(directory):
    allocate(None, [USB0])
    process = Process(machine, directory, boot="boot-2")
    assert not await process.prepare("other")
    assert {*process.files()} == files_of("other"), process.files()
    assert not await process.unprepare("other")
    assert process.files() == []

async def released_again(directory):
    process = Process(machine, directory)
    release_marker(directory / "claims", "first").touch()
    assert await process.preparer.honor_markers()
    assert process.files() == []
    assert process.hooks()[-1:] == ["release ttyUSB0"]

async def prepares(directory):
    allocate([USB0])
    assert not await Process(machine, directory).prepare("first")

async def unprepares(directory):
    assert not await Process(machine, directory).unprepare("first")

async def reclaims(directory):
    allocate(None, [USB0])
    assert not await Process(machine, directory, boot="boot-2").prepare("other")

async def releases(directory):
    release_marker(directory / "claims", "first").touch()
    assert await Process(machine, directory).preparer.honor_markers()

async def prepares_anew(directory):
    allocate([USB1, USB0])
    assert not await Process(machine, directory).prepare("first")

empty = place / "empty"
empty.mkdir()
ready = fresh(empty, "ready")
assert forked(lambda: prepares(ready)) == 0

def content(directory):
    found = {}
    for path in directory.rglob("*"):
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
        directory = fresh(start, "state")
        async def run():
            killed_after(step)
            await scenario(directory)
            sys.setprofile(None)
        code = forked(run)
        assert code in (0, -signal.SIGKILL), (scenario.__name__, step, code)
        if (state := content(directory)) in seen:
            continue
        seen.append(state)
        async def end():
            for ending in endings:
                await ending(fresh(directory, "copy"))
        assert forked(end) == 0, (scenario.__name__, step)
    assert len(seen) > 3
    total += step
print(total)
"""


def test_killed_at_any_step_no_claim_is_lost_and_no_device_is_given_twice(
    short_directory: Path,
) -> None:
    steps = int(last_line(f"import sys; sys.argv[1:] = [{str(short_directory)!r}]\n{KILLED}"))
    assert steps > 40


@pytest.fixture
def place(node: DraNode) -> Place:
    """A place of daemons whose hooks kill them, each when it runs for the first time."""
    hooks = {}
    for name in ("allocate", "release"):
        kill = node.directory / f"kill-{name}"
        kill.touch()
        hooks[name] = node.hook(name, f"if rm {kill} 2>/dev/null; then kill -9 $PPID; fi")
    place = Place(node.world.directory / "p")
    place.config.write_text(config(by_dra(hooks=hooks)))
    node.state_directory.mkdir(parents=True)
    (node.state_directory / ".genericdp-temporary").touch()
    node.settings.served_file.write_text(json.dumps({"version": 1, "resources": [NAME]}))
    return place


async def test_a_daemon_that_is_killed_within_a_hook_is_gone_on_with_by_the_next_one(
    node: DraNode, place: Place
) -> None:
    """The test above is about each change of records and specs."""
    claim = node.allocate(USB0)
    async with place.daemon(*node.options) as daemon:
        await node.offers(POOL, USB0)
        with pytest.raises(DraCallError):
            await node.prepare(claim)
        assert await daemon.ends() == -signal.SIGKILL
    await node.kubelet.wait_for_end(DRIVER)
    async with place.daemon(*node.options) as daemon:
        await node.prepare(claim)
        assert node.ran() == ["allocate ttyUSB0"] * 2
        assert len(node.given(claim)) == 1
        await node.is_held(USB0)
        with pytest.raises(DraCallError):
            await node.unprepare(claim)
        assert await daemon.ends() == -signal.SIGKILL
    await node.kubelet.wait_for_end(DRIVER)
    async with place.daemon(*node.options):
        assert await node.unprepare(claim) == ""
        assert node.ran() == ["release ttyUSB0"] * 2
        assert [*node.cdi_directory.iterdir(), *(node.state_directory / "claims").iterdir()] == []
    assert not [*node.state_directory.rglob(".genericdp-*")]


FULL = """
mount -t tmpfs -o size=16k tmpfs "$1"
head -c 16384 /dev/zero > "$1/full"
shift
exec "$0" "$@"
"""
READ_ONLY = """
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
shift
exec "$0" "$@"
"""
FULL_DISK, LIMIT = "no space left on device", "file too large"


async def more_room(daemon: Daemon, directory: Path) -> None:
    make_room(daemon, directory)


async def no_limit(daemon: Daemon, directory: Path) -> None:
    raise_limit(daemon, directory)


async def remount(daemon: Daemon, directory: Path) -> None:
    inside = ("nsenter", "--mount", f"-t{daemon.process.pid}")
    command = (*inside, "mount", "-o", "remount,bind,rw", str(directory))
    assert await (await asyncio.create_subprocess_exec(*command)).wait() == 0


@pytest.mark.parametrize(
    ("what", "launch", "why", "mend"),
    [
        pytest.param("claims", (*MOUNT_NAMESPACE, FULL), FULL_DISK, more_room,
                     marks=NOT_MOUNTED, id="full, records"),
        pytest.param("metadata", (*MOUNT_NAMESPACE, FULL), FULL_DISK, more_room,
                     marks=NOT_MOUNTED, id="full, metadata"),
        pytest.param("cdi", (*MOUNT_NAMESPACE, READ_ONLY), "read-only file system", remount,
                     marks=NOT_MOUNTED, id="read-only, specs"),
        pytest.param("claims", ("sh", "-c", 'ulimit -Sf 0; shift; exec "$0" "$@"'), LIMIT,
                     no_limit, id="limited"),
    ],
)  # fmt: skip
async def test_a_claim_waits_for_a_disk_that_takes_its_record_its_spec_and_its_metadata(
    node: DraNode,
    what: str,
    launch: tuple[str, ...],
    why: str,
    mend: Callable[[Daemon, Path], Awaitable[None]],
) -> None:
    place = Place(node.world.directory / "p")
    place.host.plug("ttyACM0", major=166)
    place.config.write_text(config(by_dra(metadata=True), resource(OTHER, "/dev/ttyACM*")))
    for name in ("claims", "metadata"):
        (node.state_directory / name).mkdir(parents=True)
    node.settings.served_file.write_text(json.dumps({"version": 1, "resources": [NAME]}))
    directory = node.cdi_directory if what == "cdi" else node.state_directory / what
    async with place.daemon(
        *node.options, launch=(*launch, sys.executable, str(directory))
    ) as daemon:
        await node.offers(POOL, USB0)
        claim = node.allocate(USB0)
        refusal = (await node.refusal(claim)).lower()
        assert why in refusal
        assert str(directory) in refusal
        assert why in (await daemon.says("claim default/claim cannot be prepared")).lower()
        await node.world.container(modem=1)
        await mend(daemon, directory)
        await node.prepare(claim)
        inside = f"/proc/{daemon.process.pid}/root{directory}"
        assert [name for name in os.listdir(inside) if claim.uid in name]
        assert await node.unprepare(claim) == ""
        assert os.listdir(inside) == []
        daemon.process.terminate()
        assert await daemon.ends() == 0
