"""Runs genericdp and its peer, each as a process with a kubelet stand-in of its own."""

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
from bench.nodes import FOLDER
from bench.processes import REPOSITORY

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from bench.kubelet import Kubelet, List

DAEMON, PEER = "genericdp", "peer"
SIDES = (DAEMON, PEER)
_SQUAT_POLL_SECONDS = 5.0
_numbers = itertools.count()


@dataclass(frozen=True, kw_only=True, slots=True)
class Registered:
    """A running plugin whose resources a kubelet has listed."""

    kubelet: Kubelet
    process: Process
    lists: Mapping[str, List]
    """The first list of each resource."""
    started: float
    """When its process was asked for, on the monotonic clock."""

    @property
    def seconds_to_lists(self) -> float:
        """How long it took from its start until every resource was listed."""
        return max(one.at for one in self.lists.values()) - self.started


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """What every measurement is given."""

    scratch: Path
    quick: bool
    squat: Path | None = None
    """A build of squat/generic-device-plugin: the peer instead of the bare plugin."""
    begun: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """Tell on stderr what is measured next."""
        print(f"{time.monotonic() - self.begun:5.0f} s  {text}", file=sys.stderr, flush=True)

    async def before_change(self, seconds: float) -> None:
        """Wait before a device changes, with squat until a random point of its polling interval."""
        await asyncio.sleep(seconds + (random.uniform(0, _SQUAT_POLL_SECONDS) if self.squat else 0))

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Make a folder, for a kubelet's sockets or for a config; it is removed at the end."""
        folder = self.scratch / str(next(_numbers))
        folder.mkdir()
        yield folder
        shutil.rmtree(folder)

    @asynccontextmanager
    async def registered(
        self,
        side: str,
        globs: Mapping[str, str],
        *,
        root: Path,
        config: Path | None = None,
        options: tuple[str, ...] = (),
    ) -> AsyncIterator[Registered]:
        """Run one side until a kubelet of its own has listed every resource, then let it go on.

        ``globs``: what each resource consists of, by its name. ``config`` says the same to the
        daemon in another way, ``options`` are further options of it. Raises RuntimeError.
        """
        with self.folder() as folder:
            async with (
                kubelet(folder) as its_kubelet,
                self.process(side, globs, folder, root, config, options) as (process, started),
            ):
                yield Registered(
                    kubelet=its_kubelet,
                    process=process,
                    lists=await self.first_lists(side, its_kubelet, globs),
                    started=started,
                )

    @asynccontextmanager
    async def process(
        self,
        side: str,
        globs: Mapping[str, str],
        folder: Path,
        root: Path,
        config: Path | None = None,
        options: tuple[str, ...] = (),
    ) -> AsyncIterator[tuple[Process, float]]:
        """Run one side with the kubelet in a folder; yields it and when it was asked for."""
        if side == PEER:
            prefix = "" if root == Path("/") else os.fspath(root)
            command = self._peer({name: prefix + glob for name, glob in globs.items()}, folder)
        else:
            if config is None:
                config = self.scratch / f"config-{next(_numbers)}" / "config.yaml"
                config.parent.mkdir()
                config.write_text(config_text(globs), encoding="utf-8")
            command = [sys.executable, "-m", "genericdp", "run", f"--config={config}"]
            command += [f"--kubelet-dir={folder}", f"--root={root}", *options]
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
            yield process, started
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()

    async def first_lists(
        self, side: str, of_kubelet: Kubelet, globs: Mapping[str, str]
    ) -> dict[str, List]:
        """Return the first list of every resource; raises RuntimeError with the side's log."""
        try:
            return await of_kubelet.first_lists(globs)
        except TimeoutError as error:
            log = self._log(side).read_text(encoding="utf-8")[-2000:]
            raise RuntimeError(f"the {side} does not serve:\n{log}") from error

    def _peer(self, globs: Mapping[str, str], folder: Path) -> list[str]:
        """Return the command of the peer."""
        if self.squat is None:
            wanted = (f"{name}={glob}" for name, glob in globs.items())
            return [sys.executable, "-m", "bench.bare_plugin", os.fspath(folder), *wanted]
        (domain,) = {name.partition("/")[0] for name in globs}
        devices = (
            json.dumps({"name": name.partition("/")[2], "groups": [{"paths": [{"path": glob}]}]})
            for name, glob in globs.items()
        )
        return [
            os.fspath(self.squat),
            *("--domain", domain, "--plugin-directory", os.fspath(folder)),
            *("--listen", "127.0.0.1:0", "--log-level", "warn"),
            *(f"--device={device}" for device in devices),
        ]

    def _log(self, side: str) -> Path:
        return self.scratch / f"{side}.log"


async def in_turns(
    rounds: int, sample: Callable[[str], Awaitable[float]]
) -> dict[str, list[float]]:
    """Take a sample of each side in turn, so many times; returns the samples by side."""
    found: dict[str, list[float]] = {side: [] for side in SIDES}
    for _ in range(rounds):
        for side, samples in found.items():
            samples.append(await sample(side))
    return found


def things(count: int) -> dict[str, str]:
    """Return the globs of so many resources of one node each."""
    return {f"bench.example.com/thing-{i}": f"/dev/{FOLDER}/thing-{i}" for i in range(count)}


def config_text(globs: Mapping[str, str], *, key: str = "path") -> str:
    """Return the daemon's config; ``key``: the selector that the texts belong to."""
    head = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
    return head + "".join(
        f"  - name: {name}\n    match:\n      - {key}: {text}\n" for name, text in globs.items()
    )


def environment() -> dict[str, str]:
    """Return our environment without the daemon's options, with what image and unit set."""
    ours = {key: text for key, text in os.environ.items() if not key.startswith("GENERICDP_")}
    return {**ours, "MALLOC_ARENA_MAX": "1"}


def scratch_folder() -> AbstractContextManager[str]:
    """Make a folder in memory if possible: the disk is not what is measured."""
    shared = Path("/dev/shm")
    where = shared if os.access(shared, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="gdp", dir=where)
