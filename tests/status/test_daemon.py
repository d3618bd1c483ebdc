"""The endpoints of the daemon as a process."""

from __future__ import annotations

import json
import re
import signal
import sys

import pytest
from genericdp.simulator.kubelet import Kubelet
from genericdp.status.listen import bind_sockets

from tests.status.http_server import ANYWHERE, Serving
from tests.test_daemon import BAD, GOOD, Daemon, Place

LISTEN = "--listen=127.0.0.1:0"
OURS = re.compile(r"\b(genericdp\.status\S*|h11|prometheus_client|http\.client)\b")
OF_DRA = re.compile(
    r"\b(genericdp\.apiserver|genericdp\.dra\.(?!backend|claims|settings|slices)\w+"
    r"|httpx2|httpcore2|anyio|truststore)\b"
)


async def port_of(daemon: Daemon) -> int:
    return int((await daemon.says("endpoints at ")).strip().rstrip("/").rpartition(":")[2])


async def get(port: int, path: str) -> tuple[int, bytes]:
    """The status and the body of an answer."""
    head, _, body = (await Serving(port, []).get(path)).partition(b"\r\n\r\n")
    return int(head.split()[1]), body


async def test_it_is_alive_at_once_and_ready_once_registered(place: Place) -> None:
    place.config.write_text(GOOD)
    async with place.daemon(LISTEN) as daemon:
        port = await port_of(daemon)
        assert await get(port, "/livez") == (200, b"alive\n")
        assert (await get(port, "/readyz"))[0] == 503
        async with Kubelet(place.kubelet_directory):
            await daemon.says("registered")
            assert await get(port, "/readyz") == (200, b"ready\n")
            now = json.loads((await get(port, "/status"))[1])
            assert [device["id"] for device in now["resources"][0]["devices"]] == ["ttyUSB0"]
            assert "registered" in [event["message"] for event in now["events"]]
            place.config.write_text(BAD)
            await daemon.says("the active one stays")
            now = json.loads((await get(port, "/status"))[1])
            assert (now["ready"], now["config"]["active"]) == (True, True)
            assert "unknown key 'matches'" in now["config"]["problems"][0]
        daemon.process.send_signal(signal.SIGTERM)
        assert await daemon.ends() == 0


async def test_devices_are_served_while_another_one_has_the_port(place: Place) -> None:
    place.config.write_text(GOOD)
    (first,) = bind_sockets(ANYWHERE)
    port = first.getsockname()[1]
    with first:
        async with (
            Kubelet(place.kubelet_directory),
            place.daemon(f"--listen=127.0.0.1:{port}") as daemon,
        ):
            await daemon.says("address already in use; devices are served meanwhile")
            await daemon.says("registered")
            first.close()
            assert await port_of(daemon) == port
            assert (await get(port, "/readyz"))[0] == 200


@pytest.mark.parametrize("listen", [[], [LISTEN]], ids=["off", "on"])
async def test_nothing_of_it_is_imported_where_nobody_listens(
    place: Place, listen: list[str]
) -> None:
    place.config.write_text(GOOD)
    launch = (sys.executable, "-X", "importtime")
    async with Kubelet(place.kubelet_directory), place.daemon(*listen, launch=launch) as daemon:
        await daemon.says("info    example.com/serial: registered")
        if listen:
            await daemon.says("genericdp.status.endpoints\n")
        daemon.process.send_signal(signal.SIGTERM)
        assert await daemon.ends() == 0
    imported = {found[0] for line in daemon.lines if (found := OURS.search(line.partition("|")[2]))}
    assert not [line for line in daemon.lines if OF_DRA.search(line.partition("|")[2])]
    if listen:
        assert {"h11", "prometheus_client"} <= imported
    else:
        assert imported == set()
