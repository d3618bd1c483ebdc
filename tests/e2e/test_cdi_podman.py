"""Devices for podman, without Kubernetes, by CDI specs."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.e2e.cluster import loop
from tests.e2e.cluster.sweep import MARK
from tests.e2e.cluster.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed"),
]

CONFIG = """
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/image
    match:
      - udev: {subsystem: block, name: "loop7[0-9]", attributes: {loop/backing_file: "*/cdi-*"}}
    values:
      file: {text: $(attribute.loop/backing_file), regex: "cdi-(.*)"}
    id: $(value.file)
    inject:
      devices:
        - {path: $(device.path), containerPath: /dev/image}
      mounts:
        - {hostPath: DIRECTORY/config.yaml, containerPath: /config}
      env: {IMAGE: $(device.path)}
"""
USB, PCI = "1-1.4", "0000:01:00.0"
"""IDs like those of devices on a bus: with a digit first, and with colons."""
USERS = ("0:0", "1000:1001")
# The tests' machines may not let a container raise its limits.
PODMAN = (
    *("podman", "--storage-driver=vfs", "--cgroup-manager=cgroupfs"),
    *("run", "--rm", "--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000"),
)
LOOK = "stat -c %u:%g /dev/image && head -c 16 /dev/image && cat /config >/dev/null && echo $IMAGE"


class Machine:
    """This machine, but for /run: podman of Debian 12 looks for specs in /var/run/cdi alone."""

    def __init__(self, directory: Path, process_id: int) -> None:
        self._directory = directory
        self._inside = ("nsenter", f"--mount=/proc/{process_id}/ns/mnt", "--")
        self._environment = {**os.environ, MARK: f"{directory}/"}
        del self._environment["GENERICDP_CDI_DIR"]  # so that it is the default

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._inside, *command],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )

    def podman(self, user: str, device: str, script: str) -> subprocess.CompletedProcess[str]:
        """Run a shell in a container with a device."""
        podman, *words = PODMAN
        given = (f"--user={user}", f"--device=example.com/image={device}")
        image = ("--rootfs", self._directory / "rootfs", "/bin/sh", "-c", script)
        return self.run(podman, f"--root={self._directory / 'storage'}", *words, *given, *image)


@pytest.fixture
def machine(tmp_path: Path, loops: None) -> Iterator[Machine]:
    rootfs = tmp_path / "rootfs"
    (rootfs / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", rootfs / "bin")
    for applet in ("sh", "stat", "head", "cat"):
        (rootfs / "bin" / applet).symlink_to("busybox")
    (tmp_path / "config.yaml").write_text(CONFIG.replace("DIRECTORY", str(tmp_path)))
    script = "mount -t tmpfs tmpfs /run && mkdir /run/cdi && echo ready && exec sleep infinity"
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script],
        env={**os.environ, MARK: f"{tmp_path}/"},
        stdout=subprocess.PIPE,
        text=True,
    ) as sleeping:
        try:
            assert sleeping.stdout is not None
            assert sleeping.stdout.readline() == "ready\n"
            yield Machine(tmp_path, sleeping.pid)
        finally:
            sleeping.terminate()


def image_in(directory: Path, name: str) -> Path:
    image = directory / f"cdi-{name}"
    image.write_bytes(image.name.encode().ljust(16, b".").ljust(8192))
    return image


def assert_can_use(machine: Machine, name: str, number: int) -> None:
    """Have containers of all users read the device, know its owner, and write it."""
    image = f"cdi-{name}".ljust(16, ".")
    for user in USERS:
        looked = machine.podman(user, name, LOOK)
        assert looked.stdout == f"{user}\n{image}/dev/loop{number}\n", looked.stderr
        written = f"written by {user}\n"
        ended = machine.podman(user, name, f"printf '{written}' | cat >/dev/image")
        assert ended.returncode == 0, ended.stderr
        node = loop.node_of(number)
        assert node.read_bytes().startswith(written.encode())
        with node.open("r+b") as device:
            device.write(image.encode())


def test_podman_gives_the_devices_of_specs_that_were_generated(
    machine: Machine, program: Path, tmp_path: Path
) -> None:
    image, other = image_in(tmp_path, USB), image_in(tmp_path, PCI)
    config = tmp_path / "config.yaml"
    generate = (program, "cdi", "generate", "--config", config, "--output", "/var/run/cdi")
    with loop.plugged(70, image):
        generated = machine.run(*generate)
        assert generated.returncode == 0, generated.stderr
        assert_can_use(machine, USB, 70)
    with loop.plugged(71, image), loop.plugged(72, other):
        gone = machine.podman("0:0", USB, LOOK)
        assert gone.returncode != 0, "its spec names a node that has gone"
        generated = machine.run(*generate)
        assert generated.returncode == 0, generated.stderr
        assert_can_use(machine, USB, 71)
        assert_can_use(machine, PCI, 72)
