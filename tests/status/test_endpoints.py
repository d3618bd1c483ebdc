"""Test what the endpoints of a daemon answer."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from genericdp.config.reload import ConfigState
from genericdp.errors import Outcome
from genericdp.status.state import Events, as_json

from tests.printed import violations
from tests.status import states
from tests.testbeds import loading
from tests.world import Daemon, World, resource, serial

ROOT = Path(__file__).parents[2]
SERIAL = "example.com/serial"


@pytest.fixture
async def world(world: World) -> World:
    world.host.plug("ttyUSB0")
    world.host.plug("ttyUSB1")
    return world


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
    assert violations("status", status) == []
    (only,) = status["resources"]
    assert status["ready"]
    assert (only["registered"], only["capacity"], only["allocatable"]) == (True, 4, 2)
    here, gone = only["devices"]
    assert (here["id"], here["state"], here["path"]) == ("ttyUSB0", "Healthy", "/dev/ttyUSB0")
    assert (here["shares"], here["nodes"]) == (2, ["/dev/ttyUSB0"])
    assert (gone["id"], gone["state"]) == ("ttyUSB1", "Unhealthy")
    assert gone["since"] > here["since"]
    assert status["holders"] == {"known": False, "reason": "start with --pod-resources"}
    assert (here["holders"], gone["holders"]) == ([], [])


async def test_metrics_are_those_of_a_moment_and_the_page_tells_what_a_browser_may_do(
    daemon: Daemon,
) -> None:
    assert (await daemon.metrics())[f"devices{{{SERIAL},Healthy}}"] == 2
    head, _ = await daemon.answer("/metrics")
    assert "content-type: text/plain; version=0.0.4; charset=utf-8" in head.lower()
    head, body = await daemon.answer("/")
    assert "content-type: text/html; charset=utf-8" in head.lower()
    assert head.lower().count("content-security-policy: ") == 1
    assert "script-src 'sha256-" in head
    assert body.startswith("<!doctype html>")


async def test_an_unknown_path_is_told_which_there_are(daemon: Daemon) -> None:
    for path in ("/x", "//", "/livez/", "/LIVEZ", "/status/..", "/../status"):
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
        world.host.unplug("ttyUSB1")
        await daemon.counts_so(lambda found: found.get(f"unhealthy{{gone,{SERIAL}}}") == 1)
        assert "ttyUSB" not in (await daemon.get("/metrics"))[1]
        assert (await daemon.get("/readyz"))[0] == 200


async def test_what_takes_its_time_is_made_once_for_all_who_ask(daemon: Daemon) -> None:
    answers = await asyncio.gather(*(daemon.get("/status") for _ in range(20)))
    assert {status for status, _ in answers} == {200}
    assert len({json.loads(body)["time"] for _, body in answers}) < 10


async def test_a_resource_without_devices_says_why(world: World) -> None:
    world.host.plug("ttyACM0")
    world.host.plug("ttyACM1")
    wanted = (
        resource(
            *("example.com/acm", "/dev/ttyACM*"),
            id="$(usb.serial)",
            exclude=[{"path": "/dev/ttyACM1"}],
        ),
        resource("example.com/none", "/dev/none"),
    )
    async with world.serving(*wanted) as daemon:
        await daemon.registered("example.com/none")
        reported = (await daemon.status())["resources"]
        assert [entry["emptyCause"] for entry in reported] == ["not_offered", "nothing_found"]
        assert f"example.com/none: no devices: {reported[1]['empty']}" in "\n".join(
            daemon.log.lines
        )
        found = await daemon.metrics()
        assert found["resource_empty{not_offered,example.com/acm}"] == 1
        assert found["resource_empty{nothing_found,example.com/none}"] == 1
        assert found["not_offered{lacks_value,example.com/acm}"] == 1, "one is excluded"
        world.host.plug("none")
        await daemon.shows("example.com/none", lambda found: not found["empty"])
        # Which may be an answer of a moment ago.
        await daemon.counts_so(
            lambda found: sum("resource_empty{" in match for match in found) == 1
        )


async def test_the_latest_result_of_each_probe_is_shown(world: World) -> None:
    state = world.host.write("state", "0")
    health = [
        {"file": {"path": "/state", "equals": "1"}, "periodSeconds": 1, "failureThreshold": 100},
        {"kernelLog": {"regex": "never in any log"}},
    ]

    def results(found: dict[str, Any]) -> list[tuple[str, str, bool]]:
        return [
            (probe["probe"], probe["result"], "/state is '0'" in probe["reason"])
            for probe in found["devices"][0]["probes"]
        ]

    async with world.serving(serial(health=health)) as daemon:
        failed = [("file-0", "failure", True), ("kernelLog-1", "", False)]
        await daemon.shows(SERIAL, lambda found: results(found) == failed)
        state.write_text("1")
        well = [("file-0", "success", False), ("kernelLog-1", "", False)]
        await daemon.shows(SERIAL, lambda found: results(found) == well)


async def test_the_hardware_of_a_device_is_named(short_directory: Path) -> None:
    world = World(short_directory)
    loading.build(loading.path_of("serial-adapters"), world.host.directory)
    world.host.plug("ttyUSB9")
    async with world.kubelet, world.serving(serial()) as daemon:
        await daemon.registered(SERIAL)
        devices = (await daemon.resource(SERIAL))["devices"]
    named = {
        device["path"]: (device["model"], device["serial"], device["driver"]) for device in devices
    }
    assert named["/dev/ttyUSB9"] == ("", "", "")
    assert named["/dev/ttyUSB2"] == ("FT230X_Basic_UART", "DN05FSZ9", "ftdi_sio")
    assert named["/dev/ttyUSB3"] == ("USB_Serial", "", "ch341-uart")


def test_all_fields_are_those_of_the_schema() -> None:
    results = {"a0": (Outcome(reason="x"), None), "a1": (Outcome(),)}
    held = states.resource(
        results=results,
        in_slices={"driver": "genericdp.io", "pool": "node-1/example.com/a"},
        holders={"a0": [("a0", "claim default/x", ("default/y",), 5.0)]},
    )
    events = Events()
    events.handle(logging.makeLogRecord({"msg": "m", "levelno": logging.INFO}))
    document = as_json(states.state(held, events=events.last()))
    assert violations("status", document) == []
    assert violations("status", as_json(states.state(claims={}, config=ConfigState()))) == []
