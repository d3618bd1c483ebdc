"""Removes everything a node left on this machine: ``python -m tests.e2e.cluster.sweep DIRECTORY``.

It works from what the kernel says, so it also cleans up after a run that was killed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.cluster import loop, stick

if TYPE_CHECKING:
    from collections.abc import Iterator

DEVICE_PLUGINS = Path("/var/lib/kubelet/device-plugins")
MARK = "GENERICDP_NODE_DIRECTORY"
"""A variable in the environment of each process of a node; containerd hands it to its shims.
Its value is a directory, and ends in a slash."""

_LOGS = (Path("/var/log/containers"), Path("/var/log/pods"))
_RUNC = Path("/run/containerd/runc/k8s.io")
_CONTAINERD = (
    *(_RUNC, _RUNC.parent),
    *(Path("/run/containerd", name) for name in ("s", "fifo", "")),
)
_CGROUPS = Path("/sys/fs/cgroup")
LINK = "genericdp-node"
"""A network interface with the node's address, where a cluster gives it one."""
_CNI = Path("/var/lib/cni/results")
_UDEV = Path("/run/udev")
_CDI = (Path("/run/cdi"), Path("/etc/cdi"))


def sweep(directory: Path) -> None:
    """End the processes of the node in this directory, undo its mounts and remove its files."""
    _end_processes(directory)
    for point in _mounts_below(directory):
        subprocess.run(["umount", "-l", point], check=False)
    for task in directory.glob("**/containerd/state/*/k8s.io/*/bootstrap.json"):
        Path(json.loads(task.read_text())["address"].removeprefix("unix://")).unlink(
            missing_ok=True
        )
        shutil.rmtree(_RUNC / task.parent.name, ignore_errors=True)
    for hierarchy in (_CGROUPS, *_CGROUPS.iterdir()):
        _remove_cgroup(hierarchy / "kubepods")
    for link in (*_LOGS[0].glob("*"), *DEVICE_PLUGINS.parent.glob("*")):
        if link.is_symlink() and link.readlink().is_relative_to(directory):
            link.unlink()
    _remove_network(directory)
    loop.remove_all()
    stick.unplug()
    remove_device_plugins()
    shutil.rmtree(directory, ignore_errors=True)
    # What the kubelet, containerd, network plugins and the daemon's hostPath volumes made, unless
    # something else lives there.
    made_by_others = (DEVICE_PLUGINS.parent, *_LOGS, *_CONTAINERD, _CNI, _CNI.parent, _UDEV)
    for made in (*made_by_others, *_CDI):
        with suppress(OSError):
            made.rmdir()


def remove_device_plugins() -> None:
    """Remove the kubelet's directory, although the kubelet and daemons change it meanwhile."""
    while DEVICE_PLUGINS.exists():
        subprocess.run(["rm", "-rf", DEVICE_PLUGINS], check=False)


def _end_processes(directory: Path) -> None:
    deadline = time.monotonic() + 10
    while ids := set(_processes_of(directory)):
        for process_id in ids:
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise AssertionError(f"processes that do not end: {sorted(ids)}")
        time.sleep(0.05)  # noqa: TID251 -- polls what has no event


def _processes_of(directory: Path) -> Iterator[int]:
    """Give those that were started with the mark of the directory, and all their descendants."""
    mark = os.fsencode(f"{MARK}={directory}/")
    children: dict[int, list[int]] = {}
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            status = (process / "stat").read_text().rpartition(") ")[2].split()
            if status[0] == "Z":
                continue
            children.setdefault(int(status[1]), []).append(int(process.name))
            settings = (process / "environ").read_bytes().split(b"\0")
            if any(setting.startswith(mark) for setting in settings):
                found.append(int(process.name))
    while found:
        process_id = found.pop()
        found += children.pop(process_id, [])
        yield process_id


def _mounts_below(directory: Path) -> list[str]:
    points = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return sorted((p for p in points if Path(p).is_relative_to(directory)), reverse=True)


def _remove_network(directory: Path) -> None:
    """Remove what network plugins keep of the node's pods, and its own interface."""
    for result in _CNI.glob("*-*"):
        if Path(json.loads(result.read_text())["netns"]).is_relative_to(directory):
            result.unlink()
    if Path("/sys/class/net", LINK).exists():
        subprocess.run(["ip", "link", "delete", LINK], check=False)


def _remove_cgroup(group: Path) -> None:
    """Remove it with those inside; one that still holds processes stays."""
    if not group.is_dir():
        return
    for inner in group.iterdir():
        if inner.is_dir():
            _remove_cgroup(inner)
    with suppress(OSError):
        group.rmdir()


if __name__ == "__main__":
    sweep(Path(sys.argv[1]))
