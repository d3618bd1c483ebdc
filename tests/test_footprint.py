"""Descriptors, threads and memory of the daemon: counts at rest, and real limits."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.config.changing import config
from tests.conftest import POOLED
from tests.polling import poll_until
from tests.test_daemon import GOOD, Place

pytestmark = pytest.mark.slow

MAX_DESCRIPTORS = 16
"""With one resource; there were 15, six of them sockets."""
MAX_THREADS = 20
"""There were 10. gRPC adds to its pool of 4 while a machine is too busy to run them; with one for
each plugin there would be 21."""
MAX_ANONYMOUS = 26.0
"""MB. There were 24.1, of which protobuf has 2 and OpenSSL 1.6."""
MAX_ANONYMOUS_EACH = 0.2
"""MB for each resource; there were 0.09, nearly all of them gRPC's."""

_STILL_SECONDS = 1.0
_LAUNCH = ("env", "MALLOC_ARENA_MAX=1", sys.executable)
"""With what the image and the unit set."""


class Process:
    """Numbers of the kernel about a process, which do not depend on other processes."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._directory = Path(f"/proc/{pid}")

    def descriptors(self) -> int:
        """Without those of which gRPC opens more when many things happen at once."""
        found = []
        for descriptor in (self._directory / "fd").iterdir():
            with suppress(FileNotFoundError):  # it has been closed meanwhile
                found.append(os.readlink(descriptor))
        return sum(target not in POOLED for target in found)

    def threads(self) -> int:
        return len(list((self._directory / "task").iterdir()))

    def anonymous(self) -> float:
        """Memory with no file behind it, in MB of a million bytes."""
        lines = (self._directory / "smaps_rollup").read_text().splitlines()
        (kib,) = (line.split()[1] for line in lines if line.startswith("Anonymous:"))
        return int(kib) * 1024 / 1e6


async def _still(process: Process) -> None:
    """Wait until nothing is opened or closed, no thread comes or goes."""
    async with asyncio.timeout(60):
        before = None
        while (now := (process.descriptors(), process.threads())) != before:
            before = now
            await asyncio.sleep(_STILL_SECONDS)  # noqa: TID251 -- measures what happens at rest


async def at_rest(directory: Path, resources: int) -> tuple[int, int, float]:
    """Run the daemon for this many resources of one device each.

    Returns its descriptors, threads and memory.
    """
    directory.mkdir()
    place = Place(directory)
    names = [f"ttyUSB{number}" for number in range(resources)]
    for name in names:
        place.host.plug(name)
    place.config.write_text(config(*names))
    async with place.serving(launch=_LAUNCH) as (kubelet, daemon):

        def is_served() -> bool:
            return all(kubelet.capacity(f"example.com/{name}") == 1 for name in names)

        await kubelet.wait_for(is_served, 120)
        process = Process(daemon.process.pid)
        await _still(process)
        return process.descriptors(), process.threads(), process.anonymous()


async def test_a_resource_costs_two_descriptors_no_thread_and_little_memory(
    short_directory: Path,
) -> None:
    """Fails if a channel to ``kubelet.sock`` stays open, or each plugin has a thread of its own."""
    single, eleven = [await at_rest(short_directory / str(count), count) for count in (1, 11)]
    assert single[0] <= MAX_DESCRIPTORS
    assert eleven[0] - single[0] == 20
    assert max(single[1], eleven[1]) <= MAX_THREADS
    assert single[2] <= MAX_ANONYMOUS
    assert (eleven[2] - single[2]) / 10 <= MAX_ANONYMOUS_EACH


needs_prlimit = pytest.mark.skipif(not shutil.which("prlimit"), reason="needs prlimit")


def written(place: Place, resources: int) -> None:
    """Write a config of this many; all want the same device."""
    head, entry, rest = GOOD.partition("  - name: example.com/serial\n")
    names = (entry.replace("serial", f"r{i}") + rest for i in range(resources))
    place.config.write_text(head + "".join(names))


FEW = ("prlimit", "--nofile=32:64", sys.executable)


@needs_prlimit
async def test_more_resources_than_descriptors_are_words_and_no_end(place: Place) -> None:
    """Some are served, the others say why not, the loop does not spin, and the end is as ever."""
    written(place, 60)
    async with place.serving(launch=FEW) as (kubelet, daemon):
        await daemon.says(" there are too few file descriptors: registering again in ")
        limits = Path(f"/proc/{daemon.process.pid}/limits").read_text()
        assert limits.partition("Max open files")[2].split()[:2] == ["64", "64"]
        await daemon.says(" are in use (each resource takes 2 or 3")
        served = kubelet.observed.registrations
        await poll_until(lambda: 0 < len(served) < 60)
        begun = _cpu_seconds(daemon.process.pid)
        await asyncio.sleep(2)  # noqa: TID251 -- measures what happens meanwhile
        assert _cpu_seconds(daemon.process.pid) - begun < 1.5
    said = sum(
        " there are too few file descriptors: registering again in " in line
        for line in daemon.lines
    )
    assert said <= 60, "once for each"


@needs_prlimit
async def test_a_smaller_config_is_taken_where_one_was_too_much(place: Place) -> None:
    """Found by a new user: no descriptor was left to read the config by which it was mended."""
    written(place, 5)
    async with place.serving(launch=FEW) as (kubelet, daemon):
        await daemon.says("active config: 5 resources (")
        written(place, 45)
        await daemon.says(" running out of file descriptors: ")
        written(place, 10)
        await daemon.says("active config: 10 resources, 0 added, 35 removed, 0 changed")
        served = kubelet.observed.registrations
        await kubelet.wait_for(lambda: {f"example.com/r{i}" for i in range(10)} <= served.keys())


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
