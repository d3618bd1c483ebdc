"""The daemon among real faults of its surroundings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from genericdp.simulator.kubelet import Kubelet
from tests.test_daemon import GOOD, Place

if TYPE_CHECKING:
    from pathlib import Path

SERIAL = "example.com/serial"
USER_NAMESPACE = ("unshare", "--user", "--map-root-user", "sh", "-c")
MOUNT_NAMESPACE = ("unshare", "--mount", "sh", "-ec")


def can_be_run(*command: str) -> bool:
    if not shutil.which(command[0]):
        return False
    return subprocess.run([*command, "true"], check=False, capture_output=True).returncode == 0


@pytest.fixture
def place(short_folder: Path) -> Place:
    place = Place(short_folder)
    place.config.write_text(GOOD)
    return place


@pytest.mark.skipif(not can_be_run(*USER_NAMESPACE), reason="no user namespace can be made here")
@pytest.mark.parametrize(("what", "why"), [("instances", "Too many open files"),
                                           ("watches", "No space left on device")])  # fmt: skip
async def test_without_inotify_everything_is_polled_and_that_is_said_once(
    place: Place, what: str, why: str
) -> None:
    script = f'echo 0 > /proc/sys/user/max_inotify_{what}; exec "$0" "$@"'
    launch = (*USER_NAMESPACE, script, sys.executable)
    async with Kubelet(place.kubelet_folder) as kubelet, place.daemon(launch=launch) as daemon:
        await kubelet.wait_for(lambda: kubelet.capacity(SERIAL) == 1, 20)
        place.host.plug("ttyUSB1")
        await kubelet.wait_for(lambda: kubelet.capacity(SERIAL) == 2, 20)
        await kubelet.restart()
        await kubelet.wait_for(lambda: kubelet.capacity(SERIAL) == 2, 20)
        place.config.write_text(GOOD.replace("serial", "other"))
        await kubelet.wait_for(lambda: kubelet.capacity("example.com/other") == 2, 20)
        daemon.process.terminate()
        assert await daemon.ends() == 0
    said = [line for line in daemon.lines if "inotify" in line]
    assert len(said) == 1, said
    assert f"({why}): polling instead; raise fs.inotify.max_user_instances" in said[0]


FULL = """
mount -t tmpfs -o {options} tmpfs "$1"
shift
exec "$0" "$@"
"""


@pytest.mark.skipif(
    not can_be_run(*MOUNT_NAMESPACE, "mount -t tmpfs tmpfs /mnt") or os.geteuid() != 0,
    reason="no filesystem can be mounted here",
)
async def test_a_full_disk_for_the_state_is_a_warning_and_no_more(place: Place) -> None:
    state = place.config.with_name("state")
    state.mkdir()
    _, entry, rest = GOOD.partition("  - name: example.com/serial")
    big = GOOD + "".join(f"{entry}{i}{rest}" for i in range(40))
    place.config.write_text(big)
    launch = (*MOUNT_NAMESPACE, FULL.format(options="size=4k"), sys.executable, str(state))
    arguments = (f"--state-dir={state}",)
    async with (
        Kubelet(place.kubelet_folder) as kubelet,
        place.daemon(*arguments, launch=launch) as daemon,
    ):
        await daemon.says(f"the last good config cannot be kept in {state}: ")
        await kubelet.wait_for(lambda: kubelet.capacity(SERIAL) == 1, 10)
        place.config.write_text(big.replace("serial", "other"))
        await kubelet.wait_for(lambda: kubelet.capacity("example.com/other") == 1, 10)
        left = os.listdir(f"/proc/{daemon.process.pid}/root{state}")
        daemon.process.terminate()
        assert await daemon.ends() == 0
    assert not [one for one in left if one.startswith(".last-good")], "half written files"
