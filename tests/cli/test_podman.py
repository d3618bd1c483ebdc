"""What ``allocate -o docker`` prints, given to the podman of this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from genericdp.cli.allocate import docker_arguments, podman_4_needs
from genericdp.devices.device import BindMount, ContainerEdits, DeviceSpec
from genericdp.host.root import Root

if TYPE_CHECKING:
    from collections.abc import Iterator


class Podman:
    """Makes containers, which are never started, and tells what it understood.

    They and what podman knows of them lie in a folder of their own, so that nothing else that uses
    podman on this machine comes between two commands.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        state = {"root": "r", "runroot": "rr", "tmpdir": "t"}
        self._state = [f"--{option}={folder / name}" for option, name in state.items()]
        self._name = f"genericdp-{uuid4().hex}"
        # What an ordinary user's podman makes in these would stay there forever.
        own = dict.fromkeys(("HOME", "TMPDIR", "XDG_RUNTIME_DIR"), str(folder))
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")}
        self._environment = inherited | own

    def is_4(self) -> bool:
        return int(self._run("--version").stdout.split()[-1].partition(".")[0]) < 5

    def create(self, *words: str) -> subprocess.CompletedProcess[str]:
        plain = ("--name", self._name, "--network=none")
        rootfs = self._folder / "rootfs"
        rootfs.mkdir(exist_ok=True)
        return self._run("create", *plain, *words, "--rootfs", str(rootfs), "/bin/true")

    def inspect(self) -> dict[str, Any]:
        told = self._run("inspect", self._name)
        assert told.returncode == 0, told.stderr
        inspected: list[dict[str, Any]] = json.loads(told.stdout)
        return inspected[0]

    def remove(self) -> None:
        self._run("rm", "--force", self._name)

    def end(self) -> None:
        """End the process that holds an ordinary user's namespaces; it heeds no other signal."""
        for number in self._folder.glob("**/pause.pid"):
            os.kill(int(number.read_text()), signal.SIGKILL)

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["podman", *self._state, *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def podman(short_folder: Path) -> Iterator[Podman]:
    if shutil.which("podman") is None:
        pytest.skip("no podman here")
    podman = Podman(short_folder)
    try:
        if podman.create().returncode:
            pytest.skip("podman can make no container here")
        podman.remove()
        yield podman
        podman.remove()
    finally:
        podman.end()


def test_podman_understands_the_arguments(podman: Podman) -> None:
    node = DeviceSpec(host_path="/dev/null", container_path="/dev/x y", permissions="r")
    edits = ContainerEdits(
        devices=(node,),
        mounts=(BindMount(host_path="/etc", container_path="/a,b", read_only=True),),
        env={"A": "b,c d"},
        annotations={"example.com/a": "b c", "example.com/b": 'c,d="e"'},
    )
    words = docker_arguments([edits], Root(Path("/")))
    created = podman.create(
        *(podman_4_needs(word) or word if podman.is_4() else word for word in words)
    )
    assert created.returncode == 0, created.stderr
    made = podman.inspect()
    mounts = [(one["Source"], one["Destination"], one["RW"]) for one in made["Mounts"]]
    assert ("/etc", "/a,b", False) in mounts
    assert "A=b,c d" in made["Config"]["Env"]
    assert made["Config"]["Annotations"]["example.com/a"] == "b c"
    assert made["Config"]["Annotations"]["example.com/b"] == 'c,d="e"'
