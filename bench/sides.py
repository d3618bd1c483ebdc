"""The two that are compared, each as a process of its own beside the simulator in this one."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.nodes import FOLDER
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.settings import Generation

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Iterator, Mapping
    from contextlib import AbstractContextManager

DAEMON = "daemon"
BASELINE = "baseline"
SIDES = (DAEMON, BASELINE)
POLLING = "polling"
"""The floor's program, which looks every second and listens to nothing."""
LIST_SECONDS = 60.0
"""When a list that has not come by then is given up."""
_REPOSITORY = Path(__file__).parent.parent
_numbers = itertools.count()

Globs = dict[str, str]
"""The one glob of each resource, by its name; for the daemon a udev selector may stand there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plugin:
    """A running daemon or baseline with the kubelet that it registers with."""

    side: str
    kubelet: Kubelet
    process: Process
    resources: tuple[str, ...]
    started: float
    """When its process was asked for, on the monotonic clock."""

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    def received(self, since: float) -> float | None:
        """Give when the first list after ``since`` had come for every resource, if all have."""
        first: dict[str, float] = {}
        wanted = set(self.resources)
        for one in self.kubelet.observed.history:
            if one.at >= since and one.resource in wanted:
                first.setdefault(one.resource, one.at)
        return max(first.values()) if len(first) == len(wanted) else None

    async def listed(self, since: float) -> float:
        """Wait until a list has come for every resource; give the seconds since then."""
        await self.kubelet.wait_for(lambda: self.received(since) is not None, LIST_SECONDS)
        at = self.received(since)
        if at is None:
            raise AssertionError
        return at - since

    async def first_listed(self) -> None:
        """Wait for the first list of every resource; raises RuntimeError if the process ends."""
        async with asyncio.TaskGroup() as tasks:
            listed = tasks.create_task(self.listed(self.started))
            ended = tasks.create_task(self.process.wait())
            await asyncio.wait((listed, ended), return_when=asyncio.FIRST_COMPLETED)
            listed.cancel()
            ended.cancel()
        if self.process.returncode is not None:
            raise RuntimeError(f"it ended with {self.process.returncode}")


def things(count: int, *, prefix: str = "") -> Globs:
    """Give so many resources of one node each."""
    return {
        f"bench.example.com/{prefix}thing-{i}": f"/dev/{FOLDER}/thing-{i}" for i in range(count)
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """What every measurement is given."""

    scratch: Path
    quick: bool
    progress: Progress

    @asynccontextmanager
    async def kubelet(self, generation: Generation = Generation.B) -> AsyncIterator[Kubelet]:
        """Run a simulated kubelet in a folder of its own."""
        folder = self.scratch / f"k{next(_numbers)}"
        folder.mkdir()
        async with Kubelet(folder, generation=generation) as kubelet:
            yield kubelet
        shutil.rmtree(folder)

    @asynccontextmanager
    async def registered(
        self,
        side: str,
        kubelet: Kubelet,
        globs: Mapping[str, str],
        *,
        root: Path,
        health: str = "",
        config: Path | None = None,
    ) -> AsyncIterator[Plugin]:
        """Run one side until the kubelet has a list of every resource, then let it go on.

        ``health``: a probe that the daemon shall run for each device, in YAML. ``config``: one that
        says the same as ``globs`` and is there already.
        """
        command = self._command(side, kubelet, globs, root, config or health)
        log = self.scratch / f"{side}.log"
        with log.open("ab") as errors:
            started = time.monotonic()
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                cwd=_REPOSITORY,
                env=_environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=errors,
            )
        plugin = Plugin(
            side=side,
            kubelet=kubelet,
            process=process,
            resources=tuple(globs),
            started=started,
        )
        try:
            try:
                await plugin.first_listed()
            except* (RuntimeError, TimeoutError) as error:
                told = log.read_text(encoding="utf-8")[-2000:]
                raise RuntimeError(f"the {side} does not serve:\n{told}") from error
            yield plugin
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()

    def _command(
        self, side: str, kubelet: Kubelet, globs: Mapping[str, str], root: Path, given: Path | str
    ) -> tuple[str, ...]:
        folder = os.fspath(kubelet.folder)
        if side in {BASELINE, POLLING}:
            prefix = "" if root == Path("/") else os.fspath(root)
            asked = (f"{name}={prefix}{glob}" for name, glob in globs.items())
            flags = ("--poll",) if side == POLLING else ()
            return ("-m", "bench.baseline", *flags, folder, *asked)
        if isinstance(given, str):
            config = self.scratch / f"config-{next(_numbers)}.yaml"
            config.write_text(config_text(globs, given), encoding="utf-8")
        else:
            config = given
        where = ("--config", os.fspath(config), "--kubelet-dir", folder, "--root", os.fspath(root))
        return ("-m", "genericdp", "run", *where)


def config_text(globs: Mapping[str, str], health: str = "") -> str:
    """Give the daemon's config for these; ``health``: a probe of each device, in YAML."""
    return "".join(_config(globs, health))


def _config(globs: Mapping[str, str], health: str) -> Iterator[str]:
    yield "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
    for name, glob in globs.items():
        key = "udev" if glob.startswith("{") else "path"
        yield f"  - name: {name}\n    match:\n      - {key}: {glob}\n"
        if health:
            yield f"    health:\n      - {health}\n"


def _environment() -> dict[str, str]:
    return {key: text for key, text in os.environ.items() if not key.startswith("GENERICDP_")}


@dataclass(slots=True)
class Progress:
    """Says on stderr what goes on, so that nobody thinks it hangs."""

    begun: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """Tell of the next step."""
        print(f"{time.monotonic() - self.begun:5.0f} s  {text}", file=sys.stderr, flush=True)


def scratch_folder() -> AbstractContextManager[str]:
    """Give a folder in memory if there is one: the disk is not what is measured."""
    shared = Path("/dev/shm")
    where = shared if os.access(shared, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="gdp", dir=where)
