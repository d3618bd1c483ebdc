"""What the endpoints of a daemon answer."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from genericdp.simulator.kubelet import Kubelet
from genericdp.status.page import CONTENT_SECURITY_POLICY
from tests.world import World, serial

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.world import Daemon

SERIAL = "example.com/serial"
OPENMETRICS = "application/openmetrics-text"


@pytest.fixture
async def world(short_folder: Path) -> AsyncIterator[World]:
    async with Kubelet(short_folder / "kubelet") as kubelet:
        world = World(short_folder, kubelet)
        world.host.plug("ttyUSB0")
        world.host.plug("ttyUSB1")
        yield world


@pytest.fixture
async def daemon(world: World) -> AsyncIterator[Daemon]:
    async with world.serving(serial(replicas=2)) as daemon:
        await daemon.registered(SERIAL)
        yield daemon


async def test_the_state_tells_of_each_device(world: World, daemon: Daemon) -> None:
    world.host.unplug("ttyUSB1")
    await world.listed(SERIAL, "ttyUSB0", "ttyUSB0::1")
    await daemon.offers(SERIAL, ttyUSB0="", ttyUSB1="/dev/ttyUSB1 does not exist")
    status = await daemon.status()
    (one,) = status["resources"]
    assert status["ready"]
    assert (one["registered"], one["capacity"], one["allocatable"]) == (True, 4, 2)
    here, gone = one["devices"]
    assert (here["id"], here["state"], here["path"]) == ("ttyUSB0", "Healthy", "/dev/ttyUSB0")
    assert (here["shares"], here["nodes"]) == (2, ["/dev/ttyUSB0"])
    assert (gone["id"], gone["state"]) == ("ttyUSB1", "Unhealthy")
    assert gone["since"] > here["since"]


async def test_metrics_are_those_of_a_moment(daemon: Daemon) -> None:
    assert (await daemon.metrics())[f"devices{{{SERIAL},Healthy}}"] == 2
    head, _ = await daemon.answer("/metrics")
    assert "content-type: text/plain; version=0.0.4" in head.lower()


async def test_metrics_are_written_as_is_asked_for(daemon: Daemon) -> None:
    prometheus = f"{OPENMETRICS};version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2"
    for accept in ("", prometheus):
        head, body = await daemon.answer("/metrics", accept=accept)
        assert (f"content-type: {OPENMETRICS}" in head.lower()) is bool(accept)
        assert body.endswith("# EOF\n") is bool(accept)


async def test_the_page_comes_with_what_a_browser_may_do_with_it(daemon: Daemon) -> None:
    head, body = await daemon.answer("/")
    assert "content-type: text/html; charset=utf-8" in head.lower()
    assert f"content-security-policy: {CONTENT_SECURITY_POLICY}".lower() in head.lower()
    assert "ttyUSB0" in body


@pytest.mark.parametrize("path", ["/x", "//", "/livez/", "/LIVEZ", "/status/..", "/../status"])
async def test_an_unknown_path_is_told_which_there_are(daemon: Daemon, path: str) -> None:
    status, body = await daemon.get(path)
    assert status == 404
    assert [line.split()[0] for line in body.splitlines()[1:]] == [
        *("/", "/livez", "/metrics", "/readyz", "/status")
    ]


async def test_no_single_device_is_shown_where_that_is_switched_off(world: World) -> None:
    async with world.serving(serial(), shows_status=False) as daemon:
        await world.listed(SERIAL, "ttyUSB0", "ttyUSB1")
        for path in ("/", "/status"):
            status, body = await daemon.get(path)
            assert status == 404
            first, *rest = body.splitlines()
            assert "--no-status" in first
            assert [line.split()[0] for line in rest] == ["/livez", "/metrics", "/readyz"]
        assert "ttyUSB0" not in (await daemon.get("/metrics"))[1]
        await daemon.counts_so(lambda found: found[f"registrations_total{{{SERIAL},success}}"])
        assert (await daemon.get("/readyz"))[0] == 200


async def test_what_takes_its_time_is_made_once_for_all_who_ask(daemon: Daemon) -> None:
    answers = await asyncio.gather(*(daemon.get("/status") for _ in range(20)))
    assert {status for status, _ in answers} == {200}
    assert len({json.loads(body)["time"] for _, body in answers}) < 10
