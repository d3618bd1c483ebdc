"""The daemon among real faults of its surroundings."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from genericdp.simulator.pods import Container, Pod

from tests.process.cgroups import cgroup
from tests.test_daemon import GOOD, Place

pytestmark = pytest.mark.slow

SERIAL = "example.com/serial"
USER_NAMESPACE = ("unshare", "--user", "--map-root-user", "sh", "-c")
MOUNT_NAMESPACE = ("unshare", "--mount", "sh", "-ec")


def can_be_run(*command: str) -> bool:
    if not shutil.which(command[0]):
        return False
    return subprocess.run([*command, "true"], check=False, capture_output=True).returncode == 0


CAN_MOUNT = can_be_run(*MOUNT_NAMESPACE, "mount -t tmpfs tmpfs /mnt") and os.geteuid() == 0


@pytest.fixture
def place(short_directory: Path) -> Place:
    place = Place(short_directory)
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
    async with place.serving(launch=launch) as (kubelet, daemon):
        await kubelet.wait_for(lambda: kubelet.capacity(SERIAL) == 1, 20)
        place.host.plug("ttyUSB1")
        await kubelet.wait_for(lambda: kubelet.capacity(SERIAL) == 2, 20)
        await kubelet.restart()
        await kubelet.wait_for(lambda: kubelet.capacity(SERIAL) == 2, 20)
        place.config.write_text(GOOD.replace("serial", "other"))
        await kubelet.wait_for(lambda: kubelet.capacity("example.com/other") == 2, 20)
        inside = ("nsenter", "--user", "--preserve-credentials", f"-t{daemon.process.pid}")
        raised = f"echo 128 > /proc/sys/user/max_inotify_{what}"
        done = await asyncio.create_subprocess_exec(*inside, "sh", "-c", raised)
        assert await done.wait() == 0
        await daemon.says("device directories can be watched again")
        place.host.plug("ttyUSB2")
        await kubelet.wait_for(lambda: kubelet.capacity("example.com/other") == 3, 20)
    said = [line for line in daemon.lines if "cannot be watched" in line or "inotify" in line]
    for watched in ("device directories", "the config", "the kubelet's directory"):
        (line,) = [text for text in said if watched in text]
        assert f"({why}): polled instead; raise fs.inotify.max_user_instances" in line
    assert len(said) == 3, said


WITHOUT_LIBUDEV = """
for library in /lib/*/libudev.so.1 /usr/lib/*/libudev.so.1; do
    [ ! -e "$library" ] || mount --bind /dev/null "$library"
done
exec "$0" "$@"
"""


@pytest.mark.skipif(not CAN_MOUNT, reason="no filesystem can be mounted here")
async def test_without_events_of_the_kernel_devices_are_served_and_that_is_said_once(
    place: Place,
) -> None:
    place.config.write_text(GOOD.replace("ttyUSB*", "null"))
    launch = (*MOUNT_NAMESPACE, WITHOUT_LIBUDEV, sys.executable)
    async with place.serving("--root=/", launch=launch) as (kubelet, daemon):
        await daemon.says("polling instead")
        await kubelet.wait_for(lambda: kubelet.capacity(SERIAL) == 1, 20)
    (said,) = [line for line in daemon.lines if "polling instead" in line]
    assert "kernel events are unavailable (" in said


RUNNING = """
    health: [{exec: {command: [/bin/true]}, periodSeconds: 1, failureThreshold: 9}]
    hooks: {allocate: {exec: {command: [/bin/true]}}}
"""

FULL = """
mount -t tmpfs -o size=4k tmpfs "$1"
shift
exec "$0" "$@"
"""


@pytest.mark.skipif(not CAN_MOUNT, reason="no filesystem can be mounted here")
async def test_a_full_disk_for_the_state_is_a_warning_and_no_more(place: Place) -> None:
    state = place.config.with_name("state")
    state.mkdir()
    big = f"{GOOD}# {'x' * 8192}\n"
    place.config.write_text(big)
    launch = (*MOUNT_NAMESPACE, FULL, sys.executable, str(state))
    arguments = (f"--state-dir={state}",)
    async with place.serving(*arguments, launch=launch) as (kubelet, daemon):
        await daemon.says(f"the last good config cannot be kept in {state}: ")
        await kubelet.wait_for(lambda: kubelet.capacity(SERIAL) == 1)
        place.config.write_text(big.replace("serial", "other"))
        await kubelet.wait_for(lambda: kubelet.capacity("example.com/other") == 1)
        left = os.listdir(f"/proc/{daemon.process.pid}/root{state}")
    assert not [name for name in left if name.startswith(".last-good")], "half written files"


@pytest.mark.skipif(not CAN_MOUNT, reason="no filesystem can be mounted here")
async def test_a_kubelets_directory_that_is_read_only_for_a_while_is_told_once(
    place: Place,
) -> None:
    """At the start that is exit code 2. Later everything continues that can."""
    directory = str(place.kubelet_directory)
    launch = (*MOUNT_NAMESPACE, 'mount --bind "$1" "$1"; shift; exec "$0" "$@"', sys.executable)
    async with place.serving(launch=(*launch, directory)) as (kubelet, daemon):

        async def remount(how: str) -> None:
            inside = ("nsenter", "-m", "-t", str(daemon.process.pid))
            command = (*inside, "mount", "-o", f"remount,bind,{how}", directory)
            done = await asyncio.create_subprocess_exec(*command)
            assert await done.wait() == 0

        await daemon.says("registered")
        await remount("ro")
        await daemon.says("the kubelet's directory cannot be used just now: no permission to make")
        place.host.plug("ttyUSB1")  # present devices continue
        await kubelet.wait_for(lambda: kubelet.capacity(SERIAL) == 2)
        await kubelet.restart()
        line = await daemon.says("cannot make a socket in ")
        assert "Read-only file system" in line
        await remount("rw")
        await daemon.says("the kubelet's directory can be used again")
        await kubelet.wait_for(lambda: kubelet.capacity(SERIAL) == 2, 20)
    assert sum("cannot be used just now" in line for line in daemon.lines) == 1
    assert sum("cannot make a socket in" in line for line in daemon.lines) == 1


async def test_no_more_processes_and_threads_end_nothing(place: Place) -> None:
    """The pod's limit is reached: probes fail, pods are refused, and a new kubelet is served.

    gRPC would abort the daemon."""
    place.config.write_text(GOOD + RUNNING)
    with cgroup(pids=1000) as (group,):
        launch = ("sh", "-c", f'echo $$ > {group}; exec "$0" "$@"', sys.executable)
        async with place.serving(launch=launch) as (kubelet, daemon):
            await kubelet.wait_for(lambda: kubelet.allocatable(SERIAL) == 1, 20)
            group.with_name("pids.max").write_text("1")
            await kubelet.restart()
            await kubelet.wait_for(lambda: kubelet.capacity(SERIAL) == 1, 20)
            container = Container(name="main", limits={SERIAL: 1})
            refused = await kubelet.admit(Pod(uid="one", containers=(container,)))
            assert "its allocate hook /bin/true cannot be started: Resource temp" in refused.message
            assert "(a limit on processes is reached)" in refused.message
            await daemon.says("is Unhealthy: exec /bin/true: cannot be started: Resource tempora")
            await kubelet.wait_for(lambda: kubelet.allocatable(SERIAL) == 0, 20)
            group.with_name("pids.max").write_text("1000")
            await kubelet.wait_for(lambda: kubelet.allocatable(SERIAL) == 1, 20)
            admitted = await kubelet.admit(Pod(uid="two", containers=(container,)))
            assert admitted.admitted, admitted.message
