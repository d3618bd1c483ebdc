"""The check that node-problem-detector runs, at recorded answers and at a real daemon."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.rendering import KUSTOMIZE, ROOT, of_kind, only, render_kustomize
from tests.world import World, serial

DIRECTORY = ROOT / "deploy/node-problem-detector"
SCRIPT = DIRECTORY / "devices-missing.sh"
RECORDED = Path(__file__).with_name("metrics.txt").read_text()
"""Of ``/metrics``: 2, 3 and 0 devices are expected, and 1, 0 and 0 are there."""
OK, NON_OK, UNKNOWN = 0, 1, 2


async def check(port: int) -> tuple[int, str]:
    """Run the check as node-problem-detector does, with nothing on PATH."""
    child = await asyncio.create_subprocess_exec(
        SCRIPT, "127.0.0.1", str(port), env={"PATH": "/nonexistent"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(child.communicate(), 30)
    assert err == b""
    (line,) = out.decode().splitlines()
    assert child.returncode is not None
    assert len(line) < config()["pluginConfig"]["max_output_length"]
    return child.returncode, line


def config() -> dict[str, Any]:
    return dict(json.loads((DIRECTORY / "devices-missing.json").read_text()))


@asynccontextmanager
async def answering(answer: bytes, *, hangs: bool = False) -> AsyncIterator[int]:
    """Give the port of a server that answers this to everyone."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if hangs:
            await over.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        over.set()


def response(body: str, status: str = "200 OK", *, cut: int = 0) -> bytes:
    content = body.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n\r\n".encode()
    return head + content[: len(content) - cut]


def without(text: str, *names: str) -> str:
    """Leave out the samples whose names begin so."""
    lines = (line for line in text.splitlines(keepends=True) if not line.startswith(names))
    return "".join(lines)


NOT_JUDGED = without(RECORDED, "genericdp_devices_missing")
NO_EXPECT = without(NOT_JUDGED, "genericdp_devices_expected")
NO_CONFIG = NO_EXPECT.replace("config_valid 1.0", "config_valid 0.0")
MISSING = 'genericdp_devices_missing{resource="example.com/serial"} 1.0\n'
NOTHING_MISSING = RECORDED.replace('serial"} 1.0', 'serial"} 0.0').replace('gpu"} 3.0', 'gpu"} 0.0')


@pytest.mark.parametrize(
    ("answer", "code", "line"),
    [
        (response(RECORDED), NON_OK, "missing: example.com/serial 1, example.com/gpu 3"),
        (response(NOTHING_MISSING), OK, "no device is missing"),
        (response(NO_EXPECT), OK, "no resource of this node has expect"),
        (response(NOT_JUDGED), UNKNOWN, "genericdp has not counted its devices yet"),
        (response(""), UNKNOWN, "genericdp has no valid config"),
        (response(NO_CONFIG), UNKNOWN, "genericdp has no valid config"),
        # the last good config is active
        (response(NO_CONFIG + MISSING), NON_OK, "missing: example.com/serial 1"),
        (response(RECORDED, "503 Service Unavailable"), UNKNOWN, "does not answer with metrics"),
        (response("# HELP * x\n" * 20_000 + RECORDED), NON_OK, "serial 1, example.com/gpu 3"),
        (response(NOTHING_MISSING, cut=1), UNKNOWN, "is not complete"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + NOTHING_MISSING.encode(), UNKNOWN, "is not complete"),
        (b"SSH-2.0-x\r\n", UNKNOWN, "does not answer with metrics"),
        (b"", UNKNOWN, "does not answer with metrics"),
    ],
)
async def test_an_answer_becomes_a_line_and_an_exit_code(
    answer: bytes, code: int, line: str
) -> None:
    async with answering(answer) as port:
        ended, said = await check(port)
    assert (ended, said[-len(line) :]) == (code, line)


async def test_a_daemon_that_hangs_is_unknown_within_the_time_that_the_check_has() -> None:
    assert config()["pluginConfig"]["timeout"] == "10s"
    answer = response(NOTHING_MISSING, cut=100)
    async with answering(answer, hangs=True) as port, asyncio.timeout(9):
        assert (await check(port))[0] == UNKNOWN


async def test_a_daemon_that_is_not_there_is_unknown() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        port = taken.getsockname()[1]
        assert await check(port) == (UNKNOWN, f"genericdp at 127.0.0.1:{port} does not answer")


async def test_a_device_that_is_unplugged_is_missing_until_it_is_back(world: World) -> None:
    world.host.plug("ttyUSB0")
    world.host.plug("ttyUSB1")
    async with world.serving(serial(expect=2)) as daemon:
        missing = "devices_missing{example.com/serial}"
        await daemon.counts_so(lambda samples: samples.get(missing) == 0)
        assert await check(daemon.log.port) == (OK, "no device is missing")
        world.host.unplug("ttyUSB1")
        await daemon.counts_so(lambda samples: samples[missing] == 1)
        assert await check(daemon.log.port) == (NON_OK, "missing: example.com/serial 1")
        world.host.plug("ttyUSB1")
        await daemon.counts_so(lambda samples: samples[missing] == 0)
        assert await check(daemon.log.port) == (OK, "no device is missing")


def test_the_condition_is_the_one_that_the_rule_sets_and_reaches_the_service() -> None:
    (condition,) = config()["conditions"]
    (rule,) = config()["rules"]
    assert rule["type"] == "permanent"
    assert rule["condition"] == condition["type"] == "DevicesMissing"
    assert os.path.basename(rule["path"]) == SCRIPT.name
    service = yaml.safe_load((DIRECTORY / "service.yaml").read_text())
    (port,) = service["spec"]["ports"]
    name = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert rule["args"] == [name, str(port["port"])]


@pytest.mark.deploy
def test_the_service_and_the_policy_select_the_pods_of_the_daemonset() -> None:
    made = render_kustomize(DIRECTORY)
    pod = only(render_kustomize(KUSTOMIZE / "base"), "DaemonSet")["spec"]["template"]
    labels = pod["metadata"]["labels"]
    (port,) = pod["spec"]["containers"][0]["ports"]
    service, policy = only(made, "Service"), only(made, "NetworkPolicy")
    assert service["spec"]["internalTrafficPolicy"] == "Local"
    for selector in (service["spec"]["selector"], policy["spec"]["podSelector"]["matchLabels"]):
        assert selector.items() <= labels.items()
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    (rule,) = policy["spec"]["ingress"]
    assert rule["ports"] == [{"port": port["name"], "protocol": "TCP"}]
    (given,) = of_kind(made, "ConfigMap")
    assert given["data"] == {path.name: path.read_text() for path in DIRECTORY.glob("d*")}
