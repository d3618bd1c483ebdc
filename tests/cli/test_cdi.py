"""``genericdp cdi``: specs printed, written, kept up to date and listed, without Kubernetes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.cli import main

from tests.polling import poll_until
from tests.printed import violations
from tests.programs import close_pipes
from tests.test_daemon import Daemon
from tests.test_faults import CAN_MOUNT, MOUNT_NAMESPACE
from tests.world import Host, config, resource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    Capture = pytest.CaptureFixture[str]

NAME = "example.com/serial"
FILE = "genericdp_example.com_serial.json"
MODEMS = "genericdp_example.com_modem.json"
SERIAL = resource(NAME, "/dev/ttyUSB*")
MODEM = resource("example.com/modem", "/dev/ttyACM*")
INDEXED = resource(
    "example.com/indexed", "/dev/ttyACM*", inject={"env": {"INDEX": "$(allocation.index)"}}
)


class Place:
    """A machine with an adapter and a modem, a config, and a directory for specs."""

    def __init__(self, directory: Path) -> None:
        self.host = Host(directory / "host")
        self.host.plug("ttyUSB0")
        self.host.plug("ttyACM0", major=166)
        self.config = directory / "config.yaml"
        self.specs = directory / "specs"
        self.takes(SERIAL)

    def takes(self, *resources: Mapping[str, object]) -> None:
        self.config.write_text(config(*resources))

    @property
    def where(self) -> list[str]:
        return [f"--config={self.config}", f"--root={self.host.directory}"]

    def generate(self, *more: str) -> int:
        return main(["cdi", "generate", *self.where, *more])

    @asynccontextmanager
    async def watch(self, *more: str) -> AsyncIterator[Daemon]:
        words = ["cdi", "watch", *self.where, f"--cdi-dir={self.specs}", *more]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "genericdp", *words),
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
        try:
            yield Daemon(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            close_pipes(process)

    def names(self) -> list[str]:
        """The devices in the spec that is kept; none: there is not one."""
        try:
            spec = json.loads((self.specs / FILE).read_bytes())
        except FileNotFoundError:
            return []
        return [device["name"] for device in spec["devices"]]


def written_at(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_ino, status.st_mtime_ns


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def spec(*names: str, **more: Any) -> dict[str, Any]:
    devices = [
        {
            "name": name,
            "containerEdits": {
                "deviceNodes": [{"path": f"/dev/{name}", "permissions": "rw"}],
                **more,
            },
        }
        for name in names
    ]
    return {"cdiVersion": "0.3.0", "kind": NAME, "devices": devices}


def test_generate_writes_a_file_for_each_resource_once(place: Place, capsys: Capture) -> None:
    place.takes(SERIAL, MODEM)
    serial, modem = place.specs / FILE, place.specs / MODEMS
    assert place.generate(f"--output={place.specs}") == 0
    assert capsys.readouterr().out == f"{serial}: written\n{modem}: written\n"
    assert {*os.listdir(place.specs)} == {FILE, MODEMS}
    before = written_at(serial)
    place.host.plug("ttyACM1", major=166)
    assert place.generate(f"--output={place.specs}") == 0
    assert capsys.readouterr().out == f"{serial}: unchanged\n{modem}: written\n"
    assert written_at(serial) == before
    assert json.loads(serial.read_text()) == spec("ttyUSB0")


def test_a_spec_whose_devices_are_gone_is_removed(place: Place, capsys: Capture) -> None:
    """The next device with that node would be given in their name."""
    assert place.generate(f"--output={place.specs}") == 0
    place.host.unplug("ttyUSB0")
    assert place.generate(f"--output={place.specs}") == 1
    out, err = capsys.readouterr()
    assert f"{FILE}: removed, since no device is left for it" in out
    assert "there is nothing to write a CDI spec for" in err
    assert not (place.specs / FILE).exists()


def test_what_is_left_out_is_a_failure_and_the_rest_is_printed(
    place: Place, capsys: Capture
) -> None:
    place.takes(SERIAL, INDEXED)
    assert place.generate() == 1
    assert json.loads(capsys.readouterr().out) == spec("ttyUSB0")


def test_how_other_commands_print_says_nothing_about_where_to_write(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("GENERICDP_OUTPUT", "json")
    monkeypatch.chdir(place.host.directory)
    assert place.generate() == 0
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == (spec("ttyUSB0"), "")
    assert not (place.host.directory / "json").exists()


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("/etc/cdi", "use --static if the devices never change"),
        ("/etc/cdi/", "use --static if the devices never change"),
        ("/etc/../etc/cdi", "use --static if the devices never change"),
        ("{config}", "--output {config} is not a directory"),
        ("", "--output: an empty path"),
    ],
)
def test_a_place_that_cannot_be_meant_is_refused(
    place: Place, output: str, why: str, capsys: Capture
) -> None:
    """Specs in /etc/cdi outlast a reboot."""
    place.takes(resource("example.com/none", "/dev/none"))  # nothing that could be written
    assert place.generate("--output", output.format(config=place.config)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert why.format(config=place.config) in err


def test_static_goes_to_a_given_directory(place: Place) -> None:
    assert place.generate("--static", f"--output={place.specs}") == 0
    assert (place.specs / FILE).exists()


@pytest.mark.skipif(not CAN_MOUNT, reason="only root can mount a filesystem")
def test_static_specs_are_written_where_they_outlast_a_reboot(place: Place, tmp_path: Path) -> None:
    script = 'cp -a /etc/. "$0"; rm -rf "$0/cdi"; mount --bind "$0" /etc; exec "$@"'
    etc = tmp_path / "etc"
    etc.mkdir()
    launch = (*MOUNT_NAMESPACE, script, etc, sys.executable, "-m", "genericdp", "cdi")
    subprocess.run([*launch, "generate", *place.where, "--static"], check=True)
    assert json.loads((etc / "cdi" / FILE).read_text()) == spec("ttyUSB0")


def link_to_nowhere(specs: Path) -> None:
    specs.symlink_to("none/none")


def not_ours(specs: Path) -> None:
    specs.mkdir()
    (specs / FILE).write_text("mine")


def link(specs: Path) -> None:
    specs.mkdir()
    (specs / FILE).symlink_to("a")


def directory(specs: Path) -> None:
    (specs / FILE).mkdir(parents=True)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (link_to_nowhere, " cannot be used: "),
        (not_ours, f"/{FILE} is not of genericdp: it is not overwritten (remove it)"),
        (link, f"/{FILE} is not a regular file: it is not overwritten (remove it)"),
        (directory, f"/{FILE} is not a regular file: it is not overwritten (remove it)"),
    ],
)
def test_a_place_that_is_taken_is_told_and_all_else_is_written(
    place: Place, make: Callable[[Path], None], why: str, capsys: Capture
) -> None:
    place.takes(SERIAL, MODEM)
    make(place.specs)
    before = {path: written_at(path) for path in [place.specs, *place.specs.glob("*")]}
    assert place.generate(f"--output={place.specs}") == 1
    out, err = capsys.readouterr()
    assert err.startswith(f"genericdp: {place.specs}{why}")
    if place.specs.is_dir():
        assert out == f"{place.specs / MODEMS}: written\n"
        before.pop(place.specs)
    assert {path: written_at(path) for path in before} == before


def test_list_shows_devices_nodes_and_who_keeps_them(place: Place, capsys: Capture) -> None:
    place.host.plug("ttyUSB1")
    place.takes(SERIAL, MODEM | {"inject": {"devices": [], "env": {"A": "b"}}})
    assert place.generate(f"--output={place.specs}") == 0
    for name in ("genericdp_other.json", "vendor.json"):
        (place.specs / name).write_text("{}")
    capsys.readouterr()
    where = ["cdi", "list", f"--cdi-dir={place.specs}"]
    assert main(where) == 0
    rows = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()]
    file, kept = str(place.specs / FILE), "not maintained"
    assert rows == [
        ["DEVICE", "NODES", "SPEC", "FILE"],
        ["example.com/modem=ttyACM0", "-", kept, str(place.specs / MODEMS)],
        ["example.com/serial=ttyUSB0", "/dev/ttyUSB0", kept, file],
        ["example.com/serial=ttyUSB1", "/dev/ttyUSB1", kept, file],
        ["-", "-", "not of genericdp", str(place.specs / "genericdp_other.json")],
    ]
    assert main([*where, "-o", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert violations("cdiList", listed) == []
    devices = [
        {"name": f"example.com/serial=ttyUSB{number}", "nodes": [f"/dev/ttyUSB{number}"]}
        for number in (0, 1)
    ]
    assert listed[1] == {"file": file, "spec": kept, "devices": devices}


def test_list_of_nothing_says_so(place: Place, capsys: Capture) -> None:
    assert main(["cdi", "list", f"--cdi-dir={place.specs}"]) == 0
    assert f"genericdp has written no CDI spec to {place.specs}" in capsys.readouterr().out
    place.specs.touch()
    assert main(["cdi", "list", f"--cdi-dir={place.specs}"]) == 1
    assert capsys.readouterr().err == f"genericdp: {place.specs}: not a directory\n"


@pytest.mark.slow
async def test_watch_follows_the_devices_and_the_config(place: Place, capsys: Capture) -> None:
    place.specs.mkdir()
    env = {"PORT": "$(device.path)"}
    place.takes(SERIAL | {"inject": {"env": env}}, INDEXED)
    async with place.watch() as daemon:
        await daemon.says("example.com/indexed has no CDI spec: it uses $(allocation.index)")
        await poll_until(lambda: place.names() == ["ttyUSB0"])
        assert json.loads((place.specs / FILE).read_bytes()) == spec(
            "ttyUSB0", env=["PORT=/dev/ttyUSB0"]
        )
        assert await asyncio.to_thread(place.generate, f"--output={place.specs}") == 1
        assert f"{FILE} is maintained by a genericdp that runs" in capsys.readouterr().err
        place.host.plug("ttyUSB1")
        await poll_until(lambda: place.names() == ["ttyUSB0", "ttyUSB1"])
        place.host.unplug("ttyUSB0")
        await poll_until(lambda: place.names() == ["ttyUSB1"])
        place.host.unplug("ttyUSB1")
        await poll_until(lambda: not (place.specs / FILE).exists())
        place.host.plug("ttyUSB0")
        await poll_until(lambda: place.names() == ["ttyUSB0"])
        place.takes(MODEM)
        daemon.process.send_signal(signal.SIGHUP)
        await poll_until(lambda: os.listdir(place.specs) == [MODEMS])
        place.takes(SERIAL)
        await poll_until(lambda: place.names() == ["ttyUSB0"])
        daemon.process.send_signal(signal.SIGTERM)
        assert await daemon.ends() == 0
    assert place.names() == ["ttyUSB0"]  # for containers that start again
    assert f"{FILE} removed: no device is left for it" in "".join(daemon.lines)
    said = "".join(daemon.lines)
    assert "Traceback" not in said
    assert "kubelet" not in said.replace("only a kubelet's request", "")


@pytest.mark.slow
async def test_watch_waits_for_its_directory(place: Place) -> None:
    async with place.watch() as daemon:
        line = await daemon.says("Unhealthy")
        assert f"its CDI spec cannot be written to {place.specs}: no such file" in line
        place.specs.mkdir()
        place.host.plug("ttyUSB1")
        await poll_until(lambda: place.names() == ["ttyUSB0", "ttyUSB1"])
        daemon.process.send_signal(signal.SIGINT)
        assert await daemon.ends() == 0


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--config=-"], "cdi watch takes no config from stdin: it is read again"),
        (["--config={config}", "--root={config}"], "is a snapshot, whose devices are not this"),
        (["--config={config}", "--root={config}/none"], "does not exist"),
        (["--config={config}", "--cdi-dir="], "--cdi-dir: an empty path"),
        ([], "a config is required: FILE or --config"),
    ],
)
def test_watch_refuses_what_it_cannot_keep_true(
    place: Place, more: list[str], why: str, capsys: Capture
) -> None:
    assert main(["cdi", "watch", *(entry.format(config=place.config) for entry in more)]) == 2
    assert why in capsys.readouterr().err
