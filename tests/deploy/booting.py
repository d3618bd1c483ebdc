"""A machine with systemd as its first process: a container on a throw-away copy of this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from tests.e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).parents[2]
EMPTY = ("etc/systemd/system", "etc/genericdp", "opt", "run", "tmp", "var/lib/kubelet", "var/log")
MASKED = (
    "modprobe@.service",
    "systemd-binfmt.service",
    "systemd-modules-load.service",
    "systemd-remount-fs.service",
    "systemd-sysctl.service",
    "systemd-udevd.service",
    "systemd-udev-trigger.service",
    "proc-sys-fs-binfmt_misc.automount",
)
"""What would change the kernel that the container shares with this machine."""

VERSION = "import sys; print(*sys.version_info[:2], sep='.')"
LIMITS = ("--ulimit=nofile=1024:8192", "--ulimit=nproc=4096:4096")
RIGHTS = ("--privileged",)  # systemd sets limits and rules for devices in its own cgroups


class Machine:
    """A machine that a test boots."""

    def __init__(self, name: str, root: Path) -> None:
        self.root = root
        self._name = name

    def run(self, *words: str, check: bool = True) -> str:
        """Run a program in it and give what it prints."""
        command = ["podman", "exec", self._name, *words]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
        if check:
            assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}\n{self.journal()}"
        return done.stdout.strip()

    def journal(self, unit: str = "genericdp*") -> str:
        """Give what the services have logged."""
        return self.run("journalctl", "-u", unit, "--no-pager", "-o", "cat", check=False)

    def property(self, name: str) -> str:
        """Give what systemd knows of the service."""
        return self.run("systemctl", "show", "--property", name, "--value", "genericdp")

    def await_line(self, *texts: str, times: int = 1) -> None:
        """Wait until the service has logged something, or one of several strings, so often."""
        eventually(
            self.journal,
            lambda lines: sum(map(lines.count, texts)) >= times,
            what=f"{texts!r} in the journal",
        )

    def await_spec(self, path: str, nodes: list[str]) -> None:
        """Wait until a CDI spec defines these device nodes; with none it is not there."""
        eventually(lambda: self._nodes(path), nodes.__eq__, what=path)

    def _nodes(self, path: str) -> list[str]:
        text = self.run("cat", path, check=False)
        devices = json.loads(text)["devices"] if text.startswith("{") else []
        edits = [device["containerEdits"] for device in devices]
        return [node["path"] for edit in edits for node in edit["deviceNodes"]]


@contextmanager
def booted(directory: Path) -> Iterator[Machine]:
    """Boot it, without a network; what it writes goes to memory, and away."""
    name = f"genericdp-{uuid4().hex}"
    root = directory / "root"
    # On a filesystem of its own: an overlay must not lie in what it covers.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", directory], check=True)
    try:
        for made in (root, directory / "upper", directory / "work"):
            made.mkdir()
        for part in EMPTY:
            hidden = directory / "upper" / part
            hidden.mkdir(parents=True)
            os.setxattr(hidden, "trusted.overlay.opaque", b"y")
        (directory / "upper/tmp").chmod(0o1777)
        options = f"lowerdir=/,upperdir={directory}/upper,workdir={directory}/work"
        subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", root], check=True)
        for unit in MASKED:
            (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
        init = ["/lib/systemd/systemd", "--unit=basic.target"]
        how = ["--systemd=always", "--cgroupns=private", "--network=none", *RIGHTS, *LIMITS]
        command = ["podman", "run", "-d", "--rm", "--name", name, *how, "--rootfs", str(root)]
        subprocess.run([*command, *init], check=True, stdout=subprocess.DEVNULL, timeout=300)
        machine = Machine(name, root)
        machine.run("systemctl", "is-system-running", "--wait", check=False)
        yield machine
    finally:
        subprocess.run(["podman", "rm", "-f", "-t", "0", name], check=False, capture_output=True)
        subprocess.run(["umount", root], check=False, capture_output=True)
        subprocess.run(["umount", "-l", directory], check=True)


def install(machine: Machine, directory: Path) -> None:
    """Install genericdp as docs/how-to/install.md says, from wheels: it has no network."""
    for unit in ("genericdp.service", "genericdp.service.d-examples", "genericdp-cdi.service"):
        source = CHECKOUT / "deploy/systemd" / unit
        subprocess.run(["cp", "-r", source, machine.root / "etc/systemd/system"], check=True)
    machine.run("/usr/bin/python3", "-m", "venv", "/opt/genericdp")
    version = machine.run("/opt/genericdp/bin/python", "-c", VERSION)
    lock = CHECKOUT / "requirements/runtime.txt"
    exact = ["--no-deps", "--require-hashes", "--only-binary=:all:", f"--python-version={version}"]
    _pip("download", *exact, f"--dest={directory}", f"--requirement={lock}")
    _pip("wheel", "--no-build-isolation", "--no-deps", f"--wheel-dir={directory}", str(CHECKOUT))
    subprocess.run(["cp", "-r", directory, machine.root / "opt/wheels"], check=True)
    subprocess.run(["cp", lock, machine.root / "opt/wheels"], check=True)
    pip = ["/opt/genericdp/bin/pip", "install", "-q", "--no-index", "--no-cache-dir"]
    machine.run(*pip, "--find-links=/opt/wheels", "--require-hashes", "-r/opt/wheels/runtime.txt")
    machine.run("sh", "-c", " ".join([*pip, "--no-deps", "/opt/wheels/genericdp-*.whl"]))


def _pip(command: str, *options: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", command, "-q", *options], check=True, timeout=300)
