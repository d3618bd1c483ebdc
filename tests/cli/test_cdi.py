"""``genericdp cdi`` without Kubernetes. How specs are written and listed: tests/cases/cdi."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.polling import poll_until
from tests.printed import violations
from tests.programs import close_pipes
from tests.test_daemon import Daemon
from tests.test_faults import CAN_MOUNT, MOUNT_NAMESPACE
from tests.world import Host, config, resource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from tests.cli.asking import Ask

NAME = "example.com/serial"
FILE = "genericdp_example.com_serial.json"
MODEMS = "genericdp_example.com_modem.json"
SERIAL = resource(NAME, "/dev/ttyUSB*")
MODEM = resource("example.com/modem", "/dev/ttyACM*")
INDEXED = resource(
    "example.com/indexed", "/dev/ttyACM*", inject={"env": {"INDEX": "$(allocation.index)"}}
)
WHERE = "--config=config.yaml --root=host"


class Place:
    """A machine with an adapter and a modem, a config, and a directory for specs."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.host = Host(ask.directory / "host")
        self.host.plug("ttyUSB0")
        self.host.plug("ttyACM0", major=166)
        self.specs = ask.directory / "specs"
        self.takes(SERIAL)

    def takes(self, *resources: Mapping[str, object]) -> None:
        self.ask.write("config.yaml", config(*resources))

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[Daemon]:
        words = f"-m genericdp cdi watch {WHERE} --cdi-dir={self.specs}".split()
        environment = {**os.environ, "PYTHONWARNINGS": "error"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, stderr=asyncio.subprocess.PIPE, env=environment
        )
        try:
            yield Daemon(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            close_pipes(process)

    async def keeps(self, *names: str) -> None:
        """Wait for a spec with these devices; none: for that there is no spec."""
        file = self.specs / FILE

        def found() -> list[str]:
            devices = json.loads(file.read_bytes())["devices"] if file.exists() else ()
            return [device["name"] for device in devices]

        await poll_until(lambda: found() == [*names])


@pytest.fixture
def place(ask: Ask) -> Place:
    return Place(ask)


def spec(name: str, **more: Any) -> dict[str, Any]:
    edits = {"deviceNodes": [{"path": f"/dev/{name}", "permissions": "rw"}], **more}
    devices = [{"name": name, "containerEdits": edits}]
    return {"cdiVersion": "0.3.0", "kind": NAME, "devices": devices}


def test_how_other_commands_print_says_nothing_about_where_to_write(
    place: Place, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.setenv("GENERICDP_OUTPUT", "json")
    said = ask(f"cdi generate {WHERE}")
    assert (said.data, said.err) == (spec("ttyUSB0"), "")
    assert not (ask.directory / "json").exists()


@pytest.mark.skipif(not CAN_MOUNT, reason="only root can mount a filesystem")
def test_static_specs_are_written_where_they_outlast_a_reboot(place: Place) -> None:
    script = 'cp -a /etc/. "$0"; rm -rf "$0/cdi"; mount --bind "$0" /etc; exec "$@"'
    etc = place.ask.directory / "etc"
    etc.mkdir()
    words = f"-m genericdp cdi generate {WHERE} --static".split()
    subprocess.run([*MOUNT_NAMESPACE, script, etc, sys.executable, *words], check=True)
    assert json.loads((etc / "cdi" / FILE).read_text()) == spec("ttyUSB0")


@pytest.mark.slow
async def test_watch_follows_the_devices_and_the_config(place: Place, ask: Ask) -> None:
    place.specs.mkdir()
    env = {"PORT": "$(device.path)"}
    place.takes(SERIAL | {"inject": {"env": env}}, INDEXED)
    async with place.watch() as daemon:
        await daemon.says("example.com/indexed has no CDI spec: it uses $(allocation.index)")
        await place.keeps("ttyUSB0")
        kept = json.loads((place.specs / FILE).read_bytes())
        assert kept == spec("ttyUSB0", env=["PORT=/dev/ttyUSB0"])
        said = await asyncio.to_thread(ask, f"cdi generate {WHERE} --output=specs", code=1)
        assert f"{FILE} is maintained by a genericdp that runs" in said.err
        place.host.plug("ttyUSB1")
        await place.keeps("ttyUSB0", "ttyUSB1")
        listed = await asyncio.to_thread(ask, "cdi list --cdi-dir=specs -o json")
        assert violations("cdiList", listed.data) == []
        place.host.unplug("ttyUSB0")
        place.host.unplug("ttyUSB1")
        await place.keeps()
        place.host.plug("ttyUSB0")
        await place.keeps("ttyUSB0")
        place.takes(MODEM)
        daemon.process.send_signal(signal.SIGHUP)
        await poll_until(lambda: os.listdir(place.specs) == [MODEMS])
        place.takes(SERIAL)
        await place.keeps("ttyUSB0")
        daemon.process.send_signal(signal.SIGTERM)
        assert await daemon.ends() == 0
    await place.keeps("ttyUSB0")  # for containers that start again
    said_by = "".join(daemon.lines)
    assert f"{FILE} removed: no device is left for it" in said_by
    assert "kubelet" not in said_by.replace("only a kubelet's request", "")


@pytest.mark.slow
async def test_watch_waits_for_its_directory(place: Place) -> None:
    async with place.watch() as daemon:
        line = await daemon.says("Unhealthy")
        assert f"its CDI spec cannot be written to {place.specs}: no such file" in line
        place.specs.mkdir()
        place.host.plug("ttyUSB1")
        await place.keeps("ttyUSB0", "ttyUSB1")
        daemon.process.send_signal(signal.SIGINT)
        assert await daemon.ends() == 0
