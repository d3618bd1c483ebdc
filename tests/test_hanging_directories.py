"""A mount that hangs, with directories of the daemon or paths of a config: it serves the rest."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.config.changing import config
from tests.dra.node import DraNode, by_dra
from tests.hanging import hanging_mount
from tests.polling import poll_until
from tests.programs import close_pipes
from tests.test_daemon import Place
from tests.world import World, resource

pytestmark = pytest.mark.slow

NAME, OTHER = "example.com/serial", "example.com/other"


@pytest.fixture
def gone(short_directory: Path) -> Iterator[Path]:
    with hanging_mount(short_directory / "gone") as gone:
        yield gone


@pytest.fixture
def place(place: Place) -> Place:
    place.config.write_text(config("ttyUSB0"))
    return place


@pytest.fixture
def plugged(world: World) -> World:
    world.host.plug("ttyUSB0")
    world.host.plug("ttyACM0", major=166)
    return world


GIVEN_UP = "timed out; continuing without it"


@pytest.mark.parametrize("option", ["--state-dir", "--pod-resources"])
async def test_a_path_that_hangs_at_the_start_is_named(
    place: Place, gone: Path, option: str
) -> None:
    async with place.serving(f"{option}={gone}/s") as (kubelet, daemon):
        await daemon.says(f"reading {gone}/s {GIVEN_UP}")
        await kubelet.wait_for(lambda: kubelet.capacity("example.com/ttyUSB0") == 1)


async def test_the_daemon_ends_though_the_directory_of_the_kubelet_hangs(
    place: Place, gone: Path
) -> None:
    place.kubelet_directory = gone / "k"
    async with place.daemon() as daemon:
        await daemon.says(f"reading {gone}/k {GIVEN_UP}")
        daemon.process.terminate()
        assert await daemon.ends() == 0


async def test_directories_that_hang_concern_those_who_need_them_and_are_given_up_once(
    short_directory: Path, gone: Path
) -> None:
    """The CDI specs, the records of claims and the state, all on one mount."""
    node = DraNode(short_directory)
    node.host.plug("ttyACM0", major=166)
    places: dict[str, Any] = {
        "state_dir": gone / "state",
        "cdi_directory": gone / "cdi",
        "dra": replace(node.settings, kubelet_root=gone),
    }
    by_cdi = resource("example.com/cdi", "/dev/ttyUSB*", inject={"by": "cdi"})
    plugin = resource(OTHER, "/dev/ttyACM*")
    node.host.plug("ttyUSB0")
    async with node.world.kubelet, node.world.serving(by_cdi, by_dra(), plugin, **places) as daemon:
        await node.world.container(other=1)
        why = f"its CDI spec cannot be written to {gone}/cdi: reading it timed out"
        await daemon.shows("example.com/cdi", lambda found: why in str(found))
        await daemon.shows(NAME, lambda found: "timed out" in found["reason"])
        assert daemon.log.count(GIVEN_UP) == 1


async def test_a_mount_that_hangs_is_given_up_once_whatever_a_config_names_on_it(
    plugged: World,
) -> None:
    values = {f"v{n}": {"file": f"/mnt/{n}/value"} for n in range(30)}
    lost = resource(NAME, "/dev/ttyUSB*", values=values, inject={"env": {"V": "$(value.v29)"}})
    globs = [f"/mnt/{n}/*" for n in range(30)]
    with hanging_mount(plugged.host.directory / "mnt"):
        async with plugged.serving(lost, resource(OTHER, *globs, "/dev/ttyACM*")) as daemon:
            await plugged.container(other=1)
            assert daemon.log.count(GIVEN_UP) == 1


@pytest.mark.parametrize("option", ["--state-dir", "--kubelet-root"])
async def test_an_option_that_is_no_directory_is_named(place: Place, option: str) -> None:
    os.mkfifo(fifo := place.config.with_name("fifo"))
    async with place.serving(f"{option}={fifo}") as (kubelet, daemon):
        assert " error " in await daemon.says(f"{option}: {fifo} is not a directory")
        await kubelet.wait_for(lambda: kubelet.capacity("example.com/ttyUSB0") == 1)


@asynccontextmanager
async def started(*words: object) -> AsyncIterator[Process]:
    """Start a command."""
    start = (sys.executable, "-m", "genericdp", *map(str, words))
    process = await asyncio.create_subprocess_exec(*start, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        close_pipes(process)


async def test_what_a_command_reads_and_hangs_is_named(place: Place, gone: Path) -> None:
    root, file = ("--root", gone), gone / "x.yaml"
    of_root = f"--root {gone} cannot be read: reading it timed out"
    of_file = f"{file}:1:1: reading it timed out"
    commands: list[tuple[tuple[object, ...], str]] = [
        (("run", "--config", place.config, *root), of_root),
        (("discover", "--config", place.config, *root), of_root),
        (("snapshot", "copy.tar.gz", *root), of_root),
        (("validate", place.config, "--policy", file), of_file),
    ]

    async def is_named(words: tuple[object, ...], why: str) -> bool:
        async with started(*words) as process, asyncio.timeout(60):
            printed, errors = await process.communicate()
        return process.returncode == 2 and why in (printed + errors).decode()

    found = await asyncio.gather(*(is_named(words, why) for words, why in commands))
    assert found == [True] * len(commands)


async def test_a_signal_ends_a_command_whose_path_hangs(gone: Path) -> None:
    async with started("convert", "--from", "squat", gone) as process:
        await poll_until(lambda: hangs(process.pid))
        process.terminate()
        async with asyncio.timeout(60):
            assert await process.wait() == 128 + 15


def hangs(pid: int) -> bool:
    """Return whether a thread of a process waits in a call that nothing interrupts."""
    stats = [stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return any(stat.rpartition(")")[2].split()[0] == "D" for stat in stats)


@pytest.mark.parametrize("option", ["--config", "--policy"])
async def test_the_daemon_names_a_config_that_hangs(place: Place, gone: Path, option: str) -> None:
    async with place.serving(f"{option}={gone}/x.yaml") as (_, daemon):
        await daemon.says(f"{gone}/x.yaml:1:1: reading it timed out")
        await daemon.says("nothing is served until it is corrected")


async def test_the_daemon_goes_on_where_its_config_begins_to_hang(place: Place) -> None:
    mount = place.config.with_name("mnt")
    place.config = mount / "sub/c.yaml"
    place.config.parent.mkdir(parents=True)
    place.config.write_text(config("ttyUSB0"))
    async with place.daemon() as daemon:
        await daemon.says("active config")
        with hanging_mount(mount):
            daemon.process.send_signal(signal.SIGHUP)
            await daemon.says("c.yaml:1:1: reading it timed out")
            await daemon.says("the active one stays")
            daemon.process.terminate()
            assert await daemon.ends() == 0


async def test_a_command_says_that_it_waits_for_stdin() -> None:
    async with started("convert", "--from", "squat", "-") as process, asyncio.timeout(60):
        assert process.stderr is not None
        assert await process.stderr.readline() == b"waiting for the end of stdin (-)\n"
