"""The daemon under a limit of memory, with each of the hostile configs next to a good resource.

``python -m tests.exhaustion [NAME…]`` runs all of them, or those that are named: at the start of a
daemon each, then one after the other in one daemon that reloads.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.simulator.kubelet import Kubelet

from tests.config.changing import config
from tests.hostile_configs import GOOD, host_files, hostile_configs
from tests.test_daemon import Place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from tests.test_daemon import Daemon

MEMORY = 2_000_000_000
PATIENCE_SECONDS = 120
STEADY = config("ttyUSB0").replace("example.com/ttyUSB0", GOOD)


class Watched:
    """A daemon whose every line is read, so that it never waits for us."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.lines: list[str] = []
        self._more = asyncio.Event()

    async def read(self) -> None:
        """Read to the end."""
        stderr = self.daemon.process.stderr
        assert stderr is not None
        while part := await stderr.read(65_536):
            self.lines.append(part.decode(errors="replace"))
            self._more.set()
        self._more.set()

    async def says(self, *texts: str) -> None:
        """Wait for one of the strings in what it says from now on."""
        start = len("".join(self.lines))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not any(text in "".join(self.lines)[start:] for text in texts):
                assert self.daemon.process.returncode is None, "".join(self.lines)[-2000:]
                self._more.clear()
                await self._more.wait()


def make_place(directory: Path) -> Place:
    """Make the host that the configs are about."""
    place = Place(directory)
    for path, text in host_files():
        place.host.write(path, text)
    return place


@asynccontextmanager
async def running(place: Place) -> AsyncIterator[tuple[Kubelet, Watched]]:
    """Run a daemon with so much memory, and a kubelet."""
    limited = ("prlimit", f"--as={MEMORY}", sys.executable)
    async with Kubelet(place.kubelet_directory) as kubelet, asyncio.TaskGroup() as tasks:
        async with place.daemon(
            f"--state-dir={place.config.parent}/state", launch=limited
        ) as daemon:
            watched = Watched(daemon)
            reading = tasks.create_task(watched.read())
            yield kubelet, watched
            assert daemon.process.returncode is None, "".join(watched.lines)[-2000:]
            daemon.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE_SECONDS):
                code = await daemon.process.wait()
                assert code == 0, (code, "".join(watched.lines)[-2000:])
        reading.cancel()


async def start_with(directory: Path, text: str) -> str:
    """Start a daemon with a config; the good resource is served unless the config is refused."""
    place = make_place(directory)
    place.config.write_text(text)
    async with running(place) as (kubelet, watched):
        await watched.says("active config", "cannot be used")
        if "cannot be used" in "".join(watched.lines):
            place.config.write_text(STEADY)
        await kubelet.wait_for(lambda: kubelet.capacity(GOOD) == 1, PATIENCE_SECONDS)
        return "refused" if "cannot be used" in "".join(watched.lines) else "served"


async def reload_through(directory: Path, configs: Mapping[str, str]) -> None:
    """Reload through configs in one daemon; the good resource is served all the time."""
    place = make_place(directory)
    place.config.write_text(STEADY)
    async with running(place) as (kubelet, watched):
        await kubelet.wait_for(lambda: kubelet.capacity(GOOD) == 1, PATIENCE_SECONDS)
        for name, text in configs.items():
            place.config.write_text(text)
            await watched.says("active config", "cannot be used")
            # What comes after it shows that the pass about it has ended.
            place.config.write_text(STEADY)
            await watched.says("active config", "the config on disk is active")
            place.host.plug("ttyUSB0").touch()
            await kubelet.wait_for(lambda: kubelet.capacity(GOOD) == 1, PATIENCE_SECONDS)
            assert kubelet.devices(GOOD) == {"ttyUSB0": "Healthy"}, name
            print(f"reload {name}: served", flush=True)
        assert kubelet.observed.registrations[GOOD] == 1


def main(names: Iterable[str]) -> None:
    """Run them all, or those that are named."""
    configs = hostile_configs()
    chosen = {name: configs[name] for name in names} or configs
    for name, text in chosen.items():
        with tempfile.TemporaryDirectory(prefix="g") as directory:
            said = asyncio.run(start_with(Path(directory), text))
            print(f"start {name}: {said}", flush=True)
    with tempfile.TemporaryDirectory(prefix="g") as directory:
        asyncio.run(reload_through(Path(directory), chosen))


if __name__ == "__main__":
    main(sys.argv[1:])
