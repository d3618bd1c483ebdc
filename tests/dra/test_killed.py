"""Claims of a daemon that is killed at any step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs import last_line

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

async def prepared_again(directory):
    # The kubelet calls again, and at the end of the pod once more.
    allocate([USB0])
    process = Process(machine, directory)
    before = len(process.hooks())
    was_done = any(one.is_prepared for one in process.preparer.records.claims.values())
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

async def given_up(directory):
    # The pod is deleted before the kubelet calls again.
    allocate([USB0])
    process = Process(machine, directory)
    assert not await process.unprepare("first")
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
ENDINGS = (prepared_again, given_up, gone_after_a_reboot)
for scenario, start, endings in (
    (prepares, empty, ENDINGS),
    (unprepares, ready, ENDINGS),
    (prepares_anew, ready, ENDINGS),
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
