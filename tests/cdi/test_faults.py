"""The directory of specs among real faults: full, limited, and written by several at once."""

from __future__ import annotations

import os
import resource
import sys
from typing import TYPE_CHECKING

import pytest
from genericdp.simulator.kubelet import Kubelet

from tests.programs import last_line
from tests.test_daemon import GOOD, Place
from tests.test_faults import CAN_MOUNT, MOUNT_NAMESPACE

if TYPE_CHECKING:
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


def raise_limit(daemon: Daemon, _: Path) -> None:
    limits = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, limits)


async def test_a_spec_that_cannot_be_brought_up_to_date_is_removed(place: Place) -> None:
    """Its nodes may be those of other devices by now."""
    directory = directory_of(place)
    async with (
        Kubelet(place.kubelet_directory) as kubelet,
        place.daemon(f"--cdi-dir={directory}") as daemon,
    ):
        await kubelet.wait_for(lambda: kubelet.devices(NAME) == {"ttyUSB0": "Healthy"})
        limits = (0, resource.RLIM_INFINITY)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, limits)
        place.host.plug("ttyUSB1")
        await kubelet.wait_for(lambda: [*kubelet.devices(NAME).values()] == ["Unhealthy"] * 2)
        assert os.listdir(directory) == []
        raise_limit(daemon, directory)
        place.host.plug("ttyACM1", major=166)  # and everything is read again
        await kubelet.wait_for(lambda: [*kubelet.devices(NAME).values()] == ["Healthy"] * 2)
        assert os.listdir(directory) == [FILE]


@NOT_MOUNTED
async def test_a_directory_that_takes_no_spec_is_told_and_heals_without_a_restart(
    place: Place,
) -> None:
    directory, launch = directory_of(place), (*MOUNT_NAMESPACE, FULL)
    async with (
        Kubelet(place.kubelet_directory) as kubelet,
        place.daemon(
            f"--cdi-dir={directory}", launch=(*launch, sys.executable, str(directory))
        ) as daemon,
    ):
        assert "no space left on device" in (await daemon.says("Unhealthy")).lower()
        await kubelet.wait_for(lambda: kubelet.allocatable(OTHER) == 1)
        await kubelet.wait_for(lambda: kubelet.devices(NAME) == {"ttyUSB0": "Unhealthy"})
        make_room(daemon, directory)
        place.host.plug("ttyACM1", major=166)  # and everything is read again
        await kubelet.wait_for(lambda: kubelet.devices(NAME) == {"ttyUSB0": "Healthy"})
        inside = f"/proc/{daemon.process.pid}/root{directory}"
        assert os.listdir(inside) == [FILE]
        daemon.process.terminate()
        assert await daemon.ends() == 0


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
