"""The directory of specs among real faults: full, read-only, and a process that is killed."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
from typing import TYPE_CHECKING

import pytest
from genericdp.simulator.kubelet import Kubelet

from tests.programs import last_line
from tests.test_daemon import GOOD, Place
from tests.test_faults import CAN_MOUNT, MOUNT_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.test_daemon import Daemon

pytestmark = pytest.mark.slow

NAME, OTHER = "example.com/serial", "example.com/modem"
FILE = "genericdp_example.com_serial.json"
BOTH = f"""{GOOD}    inject: {{by: cdi}}
  - name: {OTHER}
    match: [{{path: "/dev/ttyACM*"}}]
"""
NOT_MOUNTED = pytest.mark.skipif(not CAN_MOUNT, reason="only root can mount a filesystem")

FULL = """
mount -t tmpfs -o size=4k tmpfs "$1"
head -c 4096 /dev/zero > "$1/full"
shift
exec "$0" "$@"
"""
READ_ONLY = """
mount -t tmpfs -o ro tmpfs "$1"
shift
exec "$0" "$@"
"""


@pytest.fixture
def place(short_directory: Path) -> Place:
    place = Place(short_directory)
    place.config.write_text(BOTH)
    place.host.plug("ttyACM0", major=166)
    directory_of(place).mkdir()
    return place


def directory_of(place: Place) -> Path:
    return place.config.with_name("cdi")


def make_room(daemon: Daemon, directory: Path) -> None:
    os.unlink(f"/proc/{daemon.process.pid}/root{directory}/full")


def remount(daemon: Daemon, directory: Path) -> None:
    inside = ("nsenter", "--mount", f"-t{daemon.process.pid}")
    assert (
        os.spawnvp(os.P_WAIT, inside[0], [*inside, "mount", "-o", "remount,rw", str(directory)])
        == 0
    )


def raise_limit(daemon: Daemon, _: Path) -> None:
    limits = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, limits)


def allow(_: Daemon, directory: Path) -> None:
    directory.chmod(0o755)


# Root may write wherever it likes: not without this capability.
AS_OTHERS = ("setpriv", "--bounding-set=-dac_override") if os.geteuid() == 0 else ()


@pytest.mark.parametrize(
    ("launch", "why", "mend"),
    [
        pytest.param((*MOUNT_NAMESPACE, FULL), "no space left on device", make_room,
                     marks=NOT_MOUNTED, id="full"),
        pytest.param((*MOUNT_NAMESPACE, READ_ONLY), "read-only file system", remount,
                     marks=NOT_MOUNTED, id="read-only"),
        pytest.param(("sh", "-c", 'ulimit -Sf 0; shift; exec "$0" "$@"'), "file too large",
                     raise_limit, id="limited"),
        pytest.param((*AS_OTHERS, "sh", "-c", 'chmod 555 "$1"; shift; exec "$0" "$@"'),
                     "permission denied", allow, id="not allowed"),
    ],
)  # fmt: skip
async def test_a_directory_that_takes_no_spec_is_told_and_heals_without_a_restart(
    place: Place,
    launch: tuple[str, ...],
    why: str,
    mend: Callable[[Daemon, Path], None],
) -> None:
    if not shutil.which(launch[0]):
        pytest.skip(f"no {launch[0]} here")
    directory = directory_of(place)
    async with (
        Kubelet(place.kubelet_directory) as kubelet,
        place.daemon(
            f"--cdi-dir={directory}", launch=(*launch, sys.executable, str(directory))
        ) as daemon,
    ):
        assert why.lower() in (await daemon.says("Unhealthy")).lower()
        await kubelet.wait_for(lambda: kubelet.allocatable(OTHER) == 1)
        await kubelet.wait_for(lambda: kubelet.devices(NAME) == {"ttyUSB0": "Unhealthy"})
        mend(daemon, directory)
        place.host.plug("ttyACM1", major=166)  # and everything is read again
        await kubelet.wait_for(lambda: kubelet.devices(NAME) == {"ttyUSB0": "Healthy"})
        inside = f"/proc/{daemon.process.pid}/root{directory}"
        assert os.listdir(inside) == [FILE]
        daemon.process.terminate()
        assert await daemon.ends() == 0


KILLED = """
import os, signal, sys
from pathlib import Path
from genericdp import cdi, durable
from genericdp.cdi import SpecDirectory, rendered

KIND, place = "example.com/serial", Path(sys.argv[1])
file = place / "genericdp_example.com_serial.json"

def spec(names):
    entries = [{"name": one, "containerEdits": {"env": ["A=b"]}} for one in names]
    return rendered({"cdiVersion": "0.3.0", "kind": KIND, "devices": entries})

old, new = spec(["a"]), spec(["a", "b"] * 200)
for before in (old, None):
    step, found, ended = 0, [], False
    while not ended:
        if before is None:
            file.unlink(missing_ok=True)
        else:
            file.write_bytes(before)
        step += 1
        child = os.fork()
        if not child:
            left = step
            def count(frame, event, argument):
                global left
                if frame.f_code.co_filename in (cdi.__file__, durable.__file__):
                    left -= 1
                    if not left:
                        os.kill(os.getpid(), signal.SIGKILL)
            sys.setprofile(count)
            os._exit(1 if SpecDirectory(place).maintain({KIND: new}) else 0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, -signal.SIGKILL), code
        ended = code == 0
        content = file.read_bytes() if file.exists() else None
        assert content in (before, new), step
        found.append(content == new)
        specs = SpecDirectory(place)
        assert specs.maintain({KIND: new}) == {}
        assert file.read_bytes() == new
        assert os.listdir(place) == [file.name], os.listdir(place)
        assert oct(file.stat().st_mode)[-3:] == "644"
        specs.close()
    assert found == sorted(found) and {*found} == {False, True}
    print(step)
"""


def test_killed_at_any_step_it_leaves_the_old_spec_or_the_new_one(tmp_path: Path) -> None:
    steps = int(last_line(f"import sys; sys.argv[1:] = [{str(tmp_path)!r}]\n{KILLED}"))
    assert steps > 50


TOGETHER = """
import os, sys
from pathlib import Path
from genericdp.cdi import SpecDirectory, rendered

place = Path(sys.argv[1])

def write(number):
    kind, specs = f"example.com/kind{number}", SpecDirectory(place)
    file = place / f"genericdp_example.com_kind{number}.json"
    for count in range(500):
        entries = [{"name": f"a{count}", "containerEdits": {"env": ["A=b"]}}]
        content = rendered({"cdiVersion": "0.3.0", "kind": kind, "devices": entries})
        troubles = specs.maintain({kind: content})
        if troubles or not file.exists() or file.read_bytes() != content:
            print(count, troubles, file=sys.stderr)
            return 1
    return 0

children = []
for number in range(3):
    children.append(os.fork())
    if not children[-1]:
        os._exit(write(number))
print(sum(os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in children))
"""


def test_processes_that_share_a_directory_never_remove_each_others_files(tmp_path: Path) -> None:
    assert last_line(f"import sys; sys.argv[1:] = [{str(tmp_path)!r}]\n{TOGETHER}") == "0"


async def test_a_killed_daemon_leaves_nothing_that_the_next_one_trips_over(place: Place) -> None:
    directory = directory_of(place)
    async with Kubelet(place.kubelet_directory) as kubelet:
        for number in range(1, 4):
            async with place.daemon(f"--cdi-dir={directory}") as daemon:
                await kubelet.wait_for(lambda: kubelet.allocatable(NAME) == number)  # noqa: B023
                place.host.plug(f"ttyUSB{number}")
                daemon.process.send_signal(signal.SIGKILL)
                await daemon.process.wait()
            if (directory / FILE).exists():
                assert json.loads((directory / FILE).read_bytes())["kind"] == NAME
        async with place.daemon(f"--cdi-dir={directory}"):
            await kubelet.wait_for(lambda: kubelet.allocatable(NAME) == 4)
            assert os.listdir(directory) == [FILE]
