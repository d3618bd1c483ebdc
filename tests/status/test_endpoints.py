"""From a path to its answer, of a supervisor that really runs."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from genericdp.simulator.kubelet import Kubelet
from genericdp.status import page
from genericdp.status.codec import decode
from tests.status.living import asked, endpoints_of, said
from tests.supervising import World, serial

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from genericdp.status.model import Status
    from genericdp.supervisor import Supervisor

SERIAL = "example.com/serial"


@pytest.fixture
async def world(short_folder: Path) -> AsyncIterator[World]:
    async with Kubelet(short_folder / "kubelet") as kubelet:
        yield World(short_folder, kubelet)


@pytest.fixture
async def supervisor(world: World) -> AsyncIterator[Supervisor]:
    world.host.plug("ttyUSB0")
    world.host.plug("ttyUSB1")
    async with world.serving(serial(replicas=2)) as supervisor:
        await world.active(supervisor, SERIAL)
        yield supervisor


async def test_the_state_tells_of_each_device(world: World, supervisor: Supervisor) -> None:
    world.host.unplug("ttyUSB1")
    await world.listed(SERIAL, "ttyUSB0", "ttyUSB0::1")
    status = decode((await asked(endpoints_of(supervisor), "/status")).body)
    (one,) = status.resources
    assert status.ready
    assert (one.registered, one.capacity, one.allocatable) == (True, 4, 2)
    here, gone = one.devices
    assert (here.id, here.healthy, here.path, here.shares) == ("ttyUSB0", True, "/dev/ttyUSB0", 2)
    assert here.nodes == ("/dev/ttyUSB0",)
    assert (gone.id, gone.healthy, gone.reason) == (
        *("ttyUSB1", False),
        "/dev/ttyUSB1 does not exist",
    )
    assert here.since is not None
    assert gone.since is not None
    assert gone.since > here.since


async def test_metrics_are_those_of_a_moment(supervisor: Supervisor) -> None:
    answer = await asked(endpoints_of(supervisor), "/metrics")
    samples = {
        (one.name, one.labels.get("state"))
        for family in text_string_to_metric_families(answer.body.decode())
        for one in family.samples
    }
    assert ("genericdp_devices", "Healthy") in samples
    assert answer.content_type.startswith("text/plain; version=0.0.4")


async def test_metrics_are_written_as_is_asked_for(supervisor: Supervisor) -> None:
    endpoints = endpoints_of(supervisor)
    prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2"
    for accept in ("", prometheus):
        answer = await asked(endpoints, "/metrics", accept=accept)
        assert answer.content_type.startswith("application/openmetrics-text") is bool(accept)
        assert answer.body.endswith(b"# EOF\n") is bool(accept)


async def test_the_page_comes_with_what_a_browser_may_do_with_it(supervisor: Supervisor) -> None:
    answer = await asked(endpoints_of(supervisor), "/")
    assert answer.content_type == "text/html; charset=utf-8"
    assert answer.headers == {"content-security-policy": page.CONTENT_SECURITY_POLICY}
    assert b"ttyUSB0" in answer.body


@pytest.mark.parametrize("path", ["/x", "", "//", "/livez/", "/LIVEZ", "/status/..", "/../status"])
async def test_an_unknown_path_is_told_which_there_are(supervisor: Supervisor, path: str) -> None:
    status, lines = await said(endpoints_of(supervisor), path)
    assert status == 404
    assert [line.split()[0] for line in lines[1:]] == [
        *("/", "/livez", "/metrics", "/readyz", "/status")
    ]


@pytest.mark.parametrize("path", ["/", "/status"])
async def test_no_single_device_is_shown_where_that_is_switched_off(
    supervisor: Supervisor, path: str
) -> None:
    endpoints = endpoints_of(supervisor, shows_status=False)
    status, lines = await said(endpoints, path)
    assert status == 404
    assert "--no-status" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ["/livez", "/metrics", "/readyz"]
    assert b"ttyUSB0" not in (await asked(endpoints, "/metrics")).body
    assert (await said(endpoints, "/readyz"))[0] == 200


async def test_what_takes_its_time_is_made_once_for_all_who_ask_and_off_the_loop(
    supervisor: Supervisor,
) -> None:
    threads: list[threading.Thread] = []
    going_on = threading.Event()

    def render(_: object) -> str:
        threads.append(threading.current_thread())
        assert going_on.wait(60)
        return "made"

    endpoints = endpoints_of(supervisor, render=render)
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(asked(endpoints, "/")) for _ in range(20)]
        leaving = tasks.create_task(asked(endpoints, "/"))
        await asyncio.sleep(0)
        leaving.cancel()
        assert (await said(endpoints, "/livez"))[0] == 200
        going_on.set()
    assert {one.result().body for one in asking} == {b"made"}
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


async def test_what_cannot_be_made_is_an_error_for_all_and_tried_again(
    supervisor: Supervisor,
) -> None:
    fails = True

    def render(status: Status) -> str:
        if fails:
            raise ZeroDivisionError
        return page.render(status)

    endpoints = endpoints_of(supervisor, render=render)
    with pytest.raises(ZeroDivisionError):
        await asked(endpoints, "/")
    fails = False
    async with asyncio.timeout(60):
        while True:
            try:
                assert (await asked(endpoints, "/")).status == 200
            except ZeroDivisionError:
                await asyncio.sleep(0.01)
            else:
                break
