"""Runs genericdp and its peer, each as a process with a simulated kubelet of its own."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import shutil
import sys
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.kubelet import kubelet
from bench.nodes import DIRECTORY
from bench.processes import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from bench.kubelet import Kubelet, List

DAEMON, PEER = "genericdp", "peer"
SIDES = (DAEMON, PEER)
Samples = dict[str, list[float]]
"""By side."""
_SQUAT_POLL_SECONDS = 5.0
_numbers = itertools.count()


@dataclass(frozen=True, kw_only=True, slots=True)
class Registered:
    """A running plugin whose resources a kubelet has listed."""

    kubelet: Kubelet
    pid: int
    lists: Mapping[str, List]
    """The first list of each resource."""
    milliseconds: float
    """How long it took from its start until every resource was listed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """Shared by all measurements."""

    scratch: Path
    quick: bool
    squat: Path | None = None
    """A build of squat/generic-device-plugin: the peer instead of the bare plugin."""
    begun: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """Print on stderr what is measured next."""
        print(f"{time.monotonic() - self.begun:5.0f} s  {text}", file=sys.stderr, flush=True)

    async def before_change(self, seconds: float) -> None:
        """Wait before a device changes, with squat until a random point of its polling interval."""
        await asyncio.sleep(seconds + (random.uniform(0, _SQUAT_POLL_SECONDS) if self.squat else 0))

    async def in_turns(self, rounds: int, sample: Callable[[str], Awaitable[float]]) -> Samples:
        """Take a sample of each side in turn, this many times."""
        found: Samples = {side: [] for side in SIDES}
        for _ in range(rounds):
            for side, samples in found.items():
                samples.append(await sample(side))
        return found

    @contextmanager
    def directory(self) -> Iterator[Path]:
        """Make a directory, for a kubelet's sockets or for a config; it is removed at the end."""
        directory = self.scratch / str(next(_numbers))
        directory.mkdir()
        yield directory
        shutil.rmtree(directory)

    @asynccontextmanager
    async def registered(
        self,
        side: str,
        globs: Mapping[str, str],
        *,
        config: Path | None = None,
        options: Sequence[str] = (),
    ) -> AsyncIterator[Registered]:
        """Run one side until a kubelet of its own has listed every resource, then let it go on.

        ``globs``: what each resource consists of, by its name. ``config`` says the same to the
        daemon in another way, ``options`` are further options of it. Raise RuntimeError.
        """
        with self.directory() as directory:
            async with (
                kubelet(directory) as listening,
                self.process(side, globs, directory, config, options) as (pid, started),
            ):
                lists = await self.first_lists(side, listening, globs)
                took = (max(first.at for first in lists.values()) - started) * 1000
                yield Registered(kubelet=listening, pid=pid, lists=lists, milliseconds=took)

    @asynccontextmanager
    async def process(
        self,
        side: str,
        globs: Mapping[str, str],
        directory: Path,
        config: Path | None = None,
        options: Sequence[str] = (),
    ) -> AsyncIterator[tuple[int, float]]:
        """Run one side with the kubelet in a directory; yield its PID and when it was started."""
        if side == PEER:
            command = self._peer(globs, directory)
        else:
            if config is None:
                config = self.scratch / f"config-{next(_numbers)}" / "config.yaml"
                config.parent.mkdir()
                config.write_text(config_text(globs), encoding="utf-8")
            command = [sys.executable, "-m", "genericdp", "run", f"--config={config}"]
            command += [f"--kubelet-dir={directory}", f"--kubelet-root={directory}", *options]
        with self._log(side).open("ab") as errors:
            started = time.monotonic()
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=REPOSITORY,
                env=environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=errors,
            )
        try:
            yield process.pid, started
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()

    async def first_lists(
        self, side: str, listening: Kubelet, globs: Mapping[str, str]
    ) -> dict[str, List]:
        """Return the first list of every resource; raise RuntimeError with the side's log."""
        try:
            return await listening.first_lists(globs)
        except TimeoutError as error:
            log = self._log(side).read_text(encoding="utf-8")[-2000:]
            raise RuntimeError(f"the {side} does not serve:\n{log}") from error

    def _peer(self, globs: Mapping[str, str], directory: Path) -> list[str]:
        """Return the command of the peer."""
        if self.squat is None:
            wanted = (f"{name}={glob}" for name, glob in globs.items())
            return [sys.executable, "-m", "bench.bare", os.fspath(directory), *wanted]
        (domain,) = {name.partition("/")[0] for name in globs}
        devices = (
            json.dumps({"name": name.partition("/")[2], "groups": [{"paths": [{"path": glob}]}]})
            for name, glob in globs.items()
        )
        return [
            os.fspath(self.squat),
            *("--domain", domain, "--plugin-directory", os.fspath(directory)),
            *("--listen", "127.0.0.1:0", "--log-level", "warn"),
            *(f"--device={device}" for device in devices),
        ]

    def _log(self, side: str) -> Path:
        return self.scratch / f"{side}.log"


def resources(count: int, ending: str = "") -> dict[str, str]:
    """Return the globs of this many resources, of a node each, or of ten with the ending ``?``."""
    return {
        f"bench.example.com/thing-{i}": f"{DIRECTORY}/thing-{i}{ending}"
        for i in range(1, count + 1)
    }


def config_text(globs: Mapping[str, str], *, key: str = "path") -> str:
    """Return the daemon's config; ``key``: the selector that the globs belong to."""
    head = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
    return head + "".join(
        f"  - name: {name}\n    match:\n      - {key}: {text}\n" for name, text in globs.items()
    )


def environment() -> dict[str, str]:
    """Return our environment without the daemon's options, with what image and unit set."""
    # What is installed is compiled: without that, half of a start would be the compiler's.
    dropped = ("GENERICDP_", "PYTHONDONTWRITEBYTECODE")
    ours = {key: text for key, text in os.environ.items() if not key.startswith(dropped)}
    return {**ours, "MALLOC_ARENA_MAX": "1"}


def scratch_directory() -> AbstractContextManager[str]:
    """Make a directory in memory if possible: the disk is not what is measured."""
    shared = Path("/dev/shm")
    where = shared if os.access(shared, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="gdp", dir=where)
