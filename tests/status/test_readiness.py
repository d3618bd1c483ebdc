"""``/readyz`` with real plugins, against the simulated kubelet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.world import FAST, Daemon, World, resource, serial

SERIAL, OTHER = "example.com/serial", "example.com/other"
READY = (200, "ready\n")


@pytest.fixture
def world(short_directory: Path) -> World:
    return World(short_directory)


async def readiness(daemon: Daemon) -> tuple[int, list[str]]:
    """Return the status and the lines of ``/readyz``."""
    status, body = await daemon.get("/readyz")
    return status, body.splitlines()


async def gives(daemon: Daemon, name: str, reason: str) -> None:
    """Wait until a resource is not registered for a reason that holds this text."""
    await daemon.shows(name, lambda found: reason in found["reason"] and not found["registered"])


async def test_while_nothing_is_registered_it_is_not_ready_and_says_why(world: World) -> None:
    """C9: "/health says 200 while nothing is registered"."""
    world.host.plug("ttyUSB0")
    async with world.serving(serial(), resource(OTHER, "/dev/other*")) as daemon:
        await gives(daemon, SERIAL, "kubelet.sock")
        await gives(daemon, OTHER, "kubelet.sock")
        why = f"not registered: there is no {world.kubelet.directory}/kubelet.sock"
        assert await readiness(daemon) == (503, [f"{SERIAL}: {why}", f"{OTHER}: {why}"])
        assert await daemon.get("/livez") == (200, "alive\n")
        async with world.kubelet:
            await daemon.registered(SERIAL)
            await daemon.registered(OTHER)
            assert await daemon.get("/readyz") == READY
        await gives(daemon, OTHER, "")
        status, lines = await readiness(daemon)
        assert status == 503
        assert any(line.startswith(f"{OTHER}: not registered: ") for line in lines)


async def test_names_of_directories_are_written_so_that_a_terminal_can_show_them(
    short_directory: Path,
) -> None:
    directory = short_directory / "a\x1b[2J\nb"
    directory.mkdir()
    async with World(directory).serving(serial()) as daemon:
        await gives(daemon, SERIAL, "kubelet.sock")
        status, (line,) = await readiness(daemon)
        assert status == 503
        assert line.isprintable()


async def test_what_the_kubelet_says_or_does_not_is_the_reason(world: World) -> None:
    world.kubelet.faults.refuse_register = why = 'the ResourceName "example.com/x" is invalid'
    timing = replace(FAST, permanent_retry=60.0, first_retry=60.0, last_retry=60.0)
    async with world.kubelet:
        async with world.serving(serial(), timing=timing) as daemon:
            await gives(daemon, SERIAL, why)
            status, (line,) = await readiness(daemon)
            assert status == 503
            assert line.startswith(f"{SERIAL}: not registered: ")
            assert why in line
            refused = f"registrations_total{{{SERIAL},refused}}"
            await daemon.counts_so(lambda found: found.get(refused) == 1)
            assert f"registrations_total{{{SERIAL},success}}" not in await daemon.metrics()
        world.kubelet.faults.refuse_register = None
        world.kubelet.faults.register_delay_seconds = 3600.0
        before = world.kubelet.observed.registrations[SERIAL]
        async with world.serving(serial()) as daemon:
            await world.kubelet.wait_for(
                lambda: world.kubelet.observed.registrations[SERIAL] > before
            )
            late = f"{SERIAL}: not registered: the kubelet has not answered Register yet"
            assert await readiness(daemon) == (503, [late])


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (
            [{"name": "example.com/x", "matches": [], "replica": 2}],
            "unknown key 'matches' (did you mean 'match'?) (and 1 more)",
        ),
        ([], "the list is empty; at least one entry is required"),
    ],
)
async def test_without_a_config_active_nothing_is_ready(
    world: World, bad: list[dict[str, object]], why: str
) -> None:
    async with world.serving(*bad) as daemon:
        await daemon.log.says("nothing is served until it is corrected")
        status, (line,) = await readiness(daemon)
        assert status == 503
        assert line.startswith(f"no active config: {daemon.config}:")
        assert line.endswith(why)
        assert await daemon.get("/livez") == (200, "alive\n")
        await daemon.takes(serial(nodeNames=["elsewhere"]))
        assert await daemon.get("/readyz") == READY
