"""The two that are compared, each as a process of its own beside the simulator in this one."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import sys
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.ear import ear
from bench.nodes import FOLDER
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.settings import Generation

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Iterator, Mapping
    from contextlib import AbstractContextManager

    from bench.ear import Ear

DAEMON = "daemon"
BASELINE = "baseline"
SIDES = (DAEMON, BASELINE)
POLLING = "polling"
"""The floor's program, which looks every second and listens to nothing."""
LIST_SECONDS = 60.0
"""When a list that has not come by then is given up."""
_REPOSITORY = Path(__file__).parent.parent
_numbers = itertools.count()


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """An interpreter with all that both sides import."""

    python: str = sys.executable
    folder: Path = _REPOSITORY
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the interpreter is told beside what everything here is told."""


HERE = Program()
"""What this process runs of."""

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
    idle_seconds: float = 120.0

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Make a folder for a kubelet's sockets."""
        folder = self.scratch / f"k{next(_numbers)}"
        folder.mkdir()
        yield folder
        shutil.rmtree(folder)

    @asynccontextmanager
    async def kubelet(self, generation: Generation = Generation.B) -> AsyncIterator[Kubelet]:
        """Run a simulated kubelet in a folder of its own."""
        with self.folder() as folder:
            async with Kubelet(folder, generation=generation) as kubelet:
                yield kubelet

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
        program: Program = HERE,
    ) -> AsyncIterator[Plugin]:
        """Run one side until the kubelet has a list of every resource, then let it go on.

        ``health``: a probe that the daemon shall run for each device, in YAML. ``config``: one that
        says the same as ``globs`` and is there already.
        """
        command = self._command(side, kubelet.folder, globs, root, config or health)
        async with self._running(side, command, program) as (process, started):
            plugin = Plugin(
                side=side,
                kubelet=kubelet,
                process=process,
                resources=tuple(globs),
                started=started,
            )
            try:
                await plugin.first_listed()
            except* (RuntimeError, TimeoutError) as error:
                raise RuntimeError(self._complaint(side)) from error
            yield plugin

    @asynccontextmanager
    async def heard(self, side: str, globs: Globs, *, root: Path) -> AsyncIterator[Ear]:
        """Run one side beside a kubelet that only listens, once it has heard of every resource."""
        with self.folder() as folder:
            command = self._command(side, folder, globs, root, "")
            async with ear(folder) as hearing, self._running(side, command, HERE):
                try:
                    await hearing.first_lists(globs)
                except TimeoutError as error:
                    raise RuntimeError(self._complaint(side)) from error
                yield hearing

    @asynccontextmanager
    async def _running(
        self, side: str, command: tuple[str, ...], program: Program
    ) -> AsyncIterator[tuple[Process, float]]:
        """Run it; gives the process too, and when it was asked for."""
        with self._log(side).open("ab") as errors:
            started = time.monotonic()
            process = await asyncio.create_subprocess_exec(
                program.python,
                *command,
                cwd=program.folder,
                env={**_environment(), **program.environment},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=errors,
            )
        try:
            yield process, started
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()

    def _log(self, side: str) -> Path:
        return self.scratch / f"{side}.log"

    def _complaint(self, side: str) -> str:
        return f"the {side} does not serve:\n{self._log(side).read_text(encoding='utf-8')[-2000:]}"

    def _command(
        self, side: str, folder: Path, globs: Mapping[str, str], root: Path, given: Path | str
    ) -> tuple[str, ...]:
        if side in {BASELINE, POLLING}:
            prefix = "" if root == Path("/") else os.fspath(root)
            asked = (f"{name}={prefix}{glob}" for name, glob in globs.items())
            flags = ("--poll",) if side == POLLING else ()
            return ("-m", "bench.baseline", *flags, os.fspath(folder), *asked)
        if isinstance(given, str):
            config = self.scratch / f"config-{next(_numbers)}.yaml"
            config.write_text(config_text(globs, given), encoding="utf-8")
        else:
            config = given
        places = {"--config": config, "--kubelet-dir": folder, "--root": root}
        told = (text for flag, path in places.items() for text in (flag, os.fspath(path)))
        return ("-m", "genericdp", "run", *told)


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
    """Give our environment without options of the daemon, with what the image and the unit set."""
    ours = {key: text for key, text in os.environ.items() if not key.startswith("GENERICDP_")}
    return {**ours, "MALLOC_ARENA_MAX": "1"}


@dataclass(slots=True)
class Progress:
    """Says on stderr what goes on, so that nobody thinks it hangs."""

    begun: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """Tell of the next step."""
        print(f"{self.seconds:5.0f} s  {text}", file=sys.stderr, flush=True)

    @property
    def seconds(self) -> float:
        """How long it goes on already."""
        return time.monotonic() - self.begun


def scratch_folder() -> AbstractContextManager[str]:
    """Give a folder in memory if there is one: the disk is not what is measured."""
    shared = Path("/dev/shm")
    where = shared if os.access(shared, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="gdp", dir=where)
