"""The daemon as a process: signals, exit codes, what it says."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from genericdp.simulator.kubelet import Kubelet

from tests.programs import close_pipes
from tests.world import Host

pytestmark = pytest.mark.slow

GOOD = """
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/serial
    match: [{path: "/dev/ttyUSB*"}]
"""
BAD = GOOD.replace("match", "matches")


class Daemon:
    """A running daemon, with the lines that it has logged so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def says(self, text: str) -> str:
        """Wait for a line that holds the text, from the first one on."""
        for line in self.lines:
            if text in line:
                return line
        assert self.process.stderr is not None
        async with asyncio.timeout(60):
            while line := (await self.process.stderr.readline()).decode():
                self.lines.append(line)
                if text in line:
                    return line
        raise AssertionError(f"{text!r} was never said:\n{''.join(self.lines)}")

    async def ends(self) -> int:
        """Wait for the end and give the exit code."""
        assert self.process.stderr is not None
        async with asyncio.timeout(60):
            self.lines += (await self.process.stderr.read()).decode().splitlines(keepends=True)
            return await self.process.wait()


class Place:
    """A host, a kubelet's directory and a config."""

    def __init__(self, directory: Path) -> None:
        self.host = Host(directory / "host")
        self.host.plug("ttyUSB0")
        self.kubelet_directory = directory / "k"
        self.kubelet_directory.mkdir()
        self.config = directory / "config.yaml"

    @asynccontextmanager
    async def serving(
        self, *arguments: str, launch: tuple[str, ...] = (sys.executable,)
    ) -> AsyncIterator[tuple[Kubelet, Daemon]]:
        """Run a kubelet and the daemon, which is to end well and to leave nothing behind."""
        async with (
            Kubelet(self.kubelet_directory) as kubelet,
            self.daemon(*arguments, launch=launch) as daemon,
        ):
            yield kubelet, daemon
            daemon.process.terminate()
            assert await daemon.ends() == 0, daemon.lines
        assert "Traceback" not in "".join(daemon.lines)
        assert list(self.kubelet_directory.glob("genericdp-*")) == []

    @asynccontextmanager
    async def daemon(
        self, *arguments: str, launch: tuple[str, ...] = (sys.executable,)
    ) -> AsyncIterator[Daemon]:
        process = await asyncio.create_subprocess_exec(
            *launch,
            "-m",
            "genericdp",
            "run",
            f"--config={self.config}",
            f"--kubelet-dir={self.kubelet_directory}",
            f"--root={self.host.directory}",
            *arguments,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
        try:
            yield Daemon(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            close_pipes(process)


async def test_a_config_it_cannot_use_keeps_it_waiting_for_the_first_good_one(place: Place) -> None:
    """C10: it stays up, says why, serves nothing, and takes the first good one by itself."""
    async with place.serving() as (kubelet, daemon):
        await daemon.says("config.yaml:1:1: it does not exist")
        await daemon.says("nothing is served until it is corrected")
        place.config.write_text(BAD)
        await daemon.says("unknown key 'matches' (did you mean 'match'?)")
        assert not kubelet.observed.registrations
        place.config.write_text(GOOD)
        await kubelet.wait_for(lambda: kubelet.capacity("example.com/serial") == 1)


async def test_a_config_for_other_nodes_is_told(place: Place) -> None:
    place.config.write_text(GOOD + '    nodeNames: ["edge-*"]\n')
    async with place.daemon("--node-name=core-1") as daemon:
        await daemon.says("active config: 1 resource (")
        line = await daemon.says("nothing is served: ")
        assert line.endswith("no resource is for this node core-1 (nodeNames: edge-*)\n")
        assert " warning " in line


async def test_a_file_in_place_of_the_kubelets_directory_is_exit_code_2(place: Place) -> None:
    place.config.write_text(GOOD)
    place.kubelet_directory.rmdir()
    place.kubelet_directory.write_text("")
    async with place.daemon() as daemon:
        assert await daemon.ends() == 2
    assert daemon.lines[-1].startswith(
        f"genericdp: {place.kubelet_directory} is not a directory (give"
    )


NOBODY = ("setpriv", "--reuid=65534", "--clear-groups", sys.executable)


def nobody_can_run_it() -> bool:
    """Return whether another user can read this checkout."""
    words = [*NOBODY, "-c", "import genericdp"]
    return (
        bool(shutil.which(NOBODY[0])) and not subprocess.run(words, capture_output=True).returncode
    )


@pytest.mark.skipif(not nobody_can_run_it(), reason="needs root, and a checkout all may read")
async def test_a_missing_permission_is_one_line_and_exit_code_2(place: Place) -> None:
    place.config.write_text(GOOD)
    place.kubelet_directory = Path("/dev")
    async with place.daemon("--root=/", launch=NOBODY) as daemon:
        assert await daemon.ends() == 2
    assert daemon.lines[-1] == (
        "genericdp: no permission to make sockets in /dev:"
        " run as root, on a mount that is not read-only\n"
    )
    assert "Traceback" not in "".join(daemon.lines)
