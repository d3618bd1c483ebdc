"""Events of the kernel where the daemon runs: in a pod's namespaces, on a machine of umockdev's."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import struct
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.host.hearing import NULL, as_root, tell

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[2]
TUN, TUNSETIFF, IFF_TUN, IFF_NO_PI = "/dev/net/tun", 0x400454CA, 0x1, 0x1000
BARE = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--")


LISTENER = """
import asyncio, dataclasses, json, os, sys
from genericdp.host.events import Uevents

def changed(event):
    print(json.dumps(event and dataclasses.asdict(event)), flush=True)
    if event is None:
        print(open("/proc/self/status").read().partition("CapEff:")[2].split()[0], flush=True)

async def main():
    listening = asyncio.create_task(Uevents(changed, again_seconds=30).run())
    await asyncio.to_thread(sys.stdin.read)  # until the other end closes it
    listening.cancel()

asyncio.run(main())
"""


@contextmanager
def listener(*prefix: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that prints what it hears, once it listens."""
    with subprocess.Popen(
        [*prefix, sys.executable, "-c", LISTENER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
    ) as process:
        assert process.stdin is not None
        try:
            assert line_of(process) == "null"
            yield process
        finally:
            process.stdin.close()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def told_until(process: subprocess.Popen[str], syspath: str) -> list[str]:
    """The syspaths that it learns of, up to this one."""
    reported: list[str] = []
    while not reported or reported[-1] != syspath:
        reported.append(json.loads(line_of(process))["syspath"])
    return reported


@contextmanager
def network_interface(name: str) -> Iterator[str]:
    """One of this network namespace, gone at the end; gives its syspath."""
    descriptor = os.open(TUN, os.O_RDWR)
    try:
        fcntl.ioctl(
            descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI)
        )
        yield f"/sys/devices/virtual/net/{name}"
    finally:
        os.close(descriptor)


@as_root
@pytest.mark.skipif(
    not (shutil.which("unshare") and shutil.which("setpriv")), reason="needs unshare and setpriv"
)
def test_a_pod_without_capabilities_hears_the_kernel_in_its_own_network() -> None:
    """With the source ``udev`` nothing arrives: those messages stay in udevd's namespace.

    Nor do those of network interfaces, which the kernel shows in their own namespace.
    """
    if subprocess.run(["unshare", "-n", *BARE, "true"], check=False).returncode:
        pytest.skip("no network namespace can be made here")
    if not os.access(TUN, os.W_OK):
        pytest.skip("no network interface can be made here")
    with listener("unshare", "-n", *BARE) as pod, listener() as host:
        assert int(line_of(pod), 16) == 0
        line_of(host)
        with network_interface("genericdp0") as syspath:
            tell()
            assert syspath not in told_until(pod, NULL)
            assert syspath in told_until(host, NULL)


TESTBED = """
import json, sys, gi
gi.require_version("UMockdev", "1.0")
from gi.repository import UMockdev
testbed = UMockdev.Testbed.new()
hub = testbed.add_device("usb", "1-1", None, ["busnum", "1"], ["DEVTYPE", "usb_device"])
tty = testbed.add_device("tty", "ttyUSB0", hub, ["dev", "188:0"], ["DEVNAME", "/dev/ttyUSB0"])
print(json.dumps([testbed.get_root_dir(), tty]), flush=True)
for line in sys.stdin:
    testbed.uevent(tty, line.strip())
"""


@contextmanager
def made_up_machine() -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A machine that umockdev makes up: the process that holds it, its directory, its tty."""
    with subprocess.Popen(
        ["/usr/bin/python3", "-c", TESTBED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LD_PRELOAD": "libumockdev-preload.so.0"},
    ) as process:
        assert process.stdin is not None
        try:
            line = line_of(process)
            if not line:
                pytest.skip("needs umockdev, python3-gi and gir1.2-umockdev-1.0 of Debian")
            directory, tty = json.loads(line)
            yield process, directory, tty
        finally:
            process.stdin.close()


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="needs Debian's own python3")
def test_a_made_up_machine_is_heard() -> None:
    with (
        made_up_machine() as (machine, directory, tty),
        listener(LD_PRELOAD="libumockdev-preload.so.0", UMOCKDEV_DIR=directory) as process,
    ):
        line_of(process)
        assert machine.stdin is not None
        for action in ("remove", "add", "change"):
            machine.stdin.write(f"{action}\n")
            machine.stdin.flush()
            printed = json.loads(line_of(process))
            assert (printed["action"], printed["syspath"]) == (action, tty)
