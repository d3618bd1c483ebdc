"""``genericdp cdi``: specs printed, written, kept up to date and listed, without Kubernetes."""

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
import yaml

from genericdp.cli import main
from tests.polling import poll_until
from tests.printed import violations
from tests.programs import close_pipes
from tests.test_daemon import Daemon
from tests.test_faults import CAN_MOUNT, MOUNT_NAMESPACE
from tests.world import Host, config, resource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

NAME = "example.com/serial"
FILE = "genericdp_example.com_serial.json"
SERIAL = resource(NAME, "/dev/ttyUSB*")
INDEXED = resource(
    "example.com/indexed",
    "/dev/ttyACM*",
    inject={"env": {"INDEX": "$(allocation.index)"}},
)
LEFT_OUT = (
    "warning: example.com/indexed is left out: it uses $(allocation.index), which only a kubelet's"
    " request has\n"
)


class Place:
    """A machine with an adapter and a modem, a config, and a folder for specs."""

    def __init__(self, folder: Path) -> None:
        self.host = Host(folder / "host")
        self.host.plug("ttyUSB0")
        self.host.plug("ttyACM0", major=166)
        self.config = folder / "config.yaml"
        self.specs = folder / "specs"
        self.takes(SERIAL)

    def takes(self, *resources: Mapping[str, object]) -> None:
        self.config.write_text(config(*resources))

    @property
    def where(self) -> list[str]:
        return [f"--config={self.config}", f"--root={self.host.folder}"]

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
        """The devices in the spec that is kept; none: there is none."""
        try:
            spec = json.loads((self.specs / FILE).read_bytes())
        except FileNotFoundError:
            return []
        return [one["name"] for one in spec["devices"]]


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


def test_generate_prints_the_specs(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.takes(SERIAL | {"inject": {"env": {"PORT": "$(device.path)"}}})
    assert place.generate() == 0
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == (spec("ttyUSB0", env=["PORT=/dev/ttyUSB0"]), "")


def test_generate_writes_a_file_for_each_resource_once(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.takes(SERIAL, resource("example.com/modem", "/dev/ttyACM*"))
    modem = place.specs / "genericdp_example.com_modem.json"
    assert place.generate(f"--output={place.specs}") == 0
    assert capsys.readouterr().out == f"{place.specs / FILE}: written\n{modem}: written\n"
    assert {one.name for one in place.specs.iterdir()} == {FILE, modem.name}
    before = written_at(place.specs / FILE)
    place.host.plug("ttyACM1", major=166)
    assert place.generate(f"--output={place.specs}") == 0
    assert capsys.readouterr().out == f"{place.specs / FILE}: unchanged\n{modem}: written\n"
    assert written_at(place.specs / FILE) == before
    assert json.loads((place.specs / FILE).read_text()) == spec("ttyUSB0")


def test_a_spec_whose_devices_are_gone_is_removed(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next device with that node would be given in their name."""
    place.takes(SERIAL)
    assert place.generate(f"--output={place.specs}") == 0
    place.host.unplug("ttyUSB0")
    assert place.generate(f"--output={place.specs}") == 1
    out, err = capsys.readouterr()
    assert f"{FILE}: removed, since no device is left for it" in out
    assert "there is nothing to write a CDI spec for" in err
    assert not (place.specs / FILE).exists()


def test_what_needs_a_kubelet_is_left_out_and_that_is_a_failure(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.takes(SERIAL, INDEXED)
    assert place.generate() == 1
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == (spec("ttyUSB0"), LEFT_OUT)
    place.takes(INDEXED)
    assert place.generate() == 1
    out, err = capsys.readouterr()
    nothing = "genericdp: there is nothing to write a CDI spec for\n"
    assert (out, err) == ("", LEFT_OUT + nothing)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        pytest.param(SERIAL | {"id": "_$(device.name)"}, "example.com/serial=_ttyUSB0 is left out:"
                     " a CDI device's name begins and ends with ", id="no CDI name"),
        pytest.param(SERIAL | {"name": "1a.com/serial"}, "1a.com/serial is left out:"
                     " its name is no CDI kind: ", id="no CDI kind"),
        pytest.param(SERIAL | {"inject": {"devices": [{"path": "/dev/none"}]}},
                     "example.com/serial: ttyUSB0 is left out: /dev/none", id="missing"),
        pytest.param(resource(NAME, "/dev/none"), "example.com/serial has no devices: nothing on"
                     " this node matches", id="no devices"),
        pytest.param(SERIAL | {"inject": {"devices": []}},
                     "example.com/serial has no devices: 1 matched, but not", id="nothing"),
    ],
)  # fmt: skip
def test_what_has_no_spec_is_told(
    place: Place, one: dict[str, object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place.takes(one)
    assert place.generate() == 1
    err = capsys.readouterr().err
    assert f"warning: {said}" in err
    assert err.endswith("genericdp: there is nothing to write a CDI spec for\n")


def test_what_a_spec_lacks_is_told(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    hooks = {"allocate": {"exec": {"command": ["/bin/true"]}}}
    place.takes(SERIAL | {"name": "example.com/serial.v2", "hooks": hooks})
    assert place.generate() == 0
    assert capsys.readouterr().err == (
        "warning: example.com/serial.v2: its hooks are not run, since there is no kubelet\n"
        "warning: example.com/serial.v2: with a dot in the type the spec needs CDI 0.6.0, which"
        " podman before 4.4 does not know\n"
    )


def test_a_template_is_not_told_of_where_its_results_have_specs(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"kind": {"text": "$(device.name)"}}
    name = "example.com/$(value.kind)"
    place.takes(SERIAL | {"name": name, "names": ["example.com/*"], "values": values})
    assert place.generate() == 0
    out, err = capsys.readouterr()
    assert (json.loads(out)["kind"], err) == ("example.com/ttyUSB0", "")


def test_how_other_commands_print_says_nothing_about_where_to_write(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GENERICDP_OUTPUT", "json")
    monkeypatch.chdir(place.host.folder)
    assert place.generate() == 0
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == (spec("ttyUSB0"), "")
    assert not (place.host.folder / "json").exists()


@pytest.mark.parametrize("output", ["/etc/cdi", "/etc/cdi/", "/etc/../etc/cdi"])
def test_specs_that_outlast_a_reboot_are_asked_for(
    place: Place, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place.takes(resource("example.com/none", "/dev/none"))  # nothing that could be written
    assert place.generate("--output", output) == 2
    assert "say --static if the devices never change" in capsys.readouterr().err


def test_static_goes_to_a_given_folder(place: Place) -> None:
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


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda folder: folder.symlink_to("none/none"), "{folder} cannot be used: "),
        (lambda folder: folder.mkdir() or (folder / FILE).write_text("mine"),
         "{folder}/" + FILE + " is not of genericdp: it is not overwritten (remove it)"),
        (lambda folder: folder.mkdir() or (folder / FILE).symlink_to("a"),
         "{folder}/" + FILE + " is no regular file: it is not overwritten (remove it)"),
        (lambda folder: [folder.mkdir(), (folder / FILE).mkdir()],
         "{folder}/" + FILE + " is no regular file: it is not overwritten (remove it)"),
    ],
    ids=["a link to nowhere", "not ours", "a link", "a folder"],
)  # fmt: skip
def test_a_place_that_is_taken_is_told_and_all_else_is_written(
    place: Place, make: Any, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place.takes(SERIAL, resource("example.com/modem", "/dev/ttyACM*"))
    make(place.specs)
    before = {one: written_at(one) for one in [place.specs, *place.specs.glob("*")]}
    assert place.generate(f"--output={place.specs}") == 1
    out, err = capsys.readouterr()
    assert err.startswith(f"genericdp: {why.format(folder=place.specs)}")
    if place.specs.is_dir():
        assert out == f"{place.specs}/genericdp_example.com_modem.json: written\n"
        before.pop(place.specs)
    assert {one: written_at(one) for one in before} == before


def test_a_file_in_place_of_the_directory_is_exit_code_2(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.specs.touch()
    assert place.generate(f"--output={place.specs}") == 2
    said = f"genericdp: --output {place.specs} is not a directory\n"
    assert capsys.readouterr() == ("", said)


def test_a_bad_config_is_exit_code_2(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.config.write_text("apiVersion: x\n")
    assert place.generate() == 2
    assert place.generate("--output=") == 2
    assert "--output: an empty path" in capsys.readouterr().err


def test_list_shows_devices_nodes_and_who_keeps_them(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.host.plug("ttyUSB1")
    place.takes(
        SERIAL,
        resource("example.com/modem", "/dev/ttyACM*", inject={"devices": [], "env": {"A": "b"}}),
    )
    assert place.generate(f"--output={place.specs}") == 0
    (place.specs / "genericdp_other.json").write_text("{}")
    (place.specs / "vendor.json").write_text("{}")
    capsys.readouterr()
    where = ["cdi", "list", f"--cdi-dir={place.specs}"]
    assert main(where) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    file = str(place.specs / FILE)
    modem = str(place.specs / "genericdp_example.com_modem.json")
    assert rows[:4] == [
        ["DEVICE", "NODES", "SPEC", "FILE"],
        ["example.com/modem=ttyACM0", "-", "not", "maintained", modem],
        ["example.com/serial=ttyUSB0", "/dev/ttyUSB0", "not", "maintained", file],
        ["example.com/serial=ttyUSB1", "/dev/ttyUSB1", "not", "maintained", file],
    ]
    assert rows[4] == [
        "-",
        "-",
        "not",
        "of",
        "genericdp",
        str(place.specs / "genericdp_other.json"),
    ]
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        assert main([*where, "-o", form]) == 0
        listed = read(capsys.readouterr().out)
        assert violations("cdiList", listed) == []
        assert listed[1] == {
            "file": file,
            "spec": "not maintained",
            "devices": [
                {"name": "example.com/serial=ttyUSB0", "nodes": ["/dev/ttyUSB0"]},
                {"name": "example.com/serial=ttyUSB1", "nodes": ["/dev/ttyUSB1"]},
            ],
        }


def test_list_of_nothing_says_so(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cdi", "list", f"--cdi-dir={place.specs}"]) == 0
    assert f"genericdp has written no CDI spec to {place.specs}" in capsys.readouterr().out
    place.specs.touch()
    assert main(["cdi", "list", f"--cdi-dir={place.specs}"]) == 1
    assert capsys.readouterr().err == f"genericdp: {place.specs}: not a directory\n"


@pytest.mark.slow
async def test_watch_follows_the_devices_and_the_config(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
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
        place.takes(resource("example.com/modem", "/dev/ttyACM*"))
        daemon.process.send_signal(signal.SIGHUP)
        await poll_until(lambda: os.listdir(place.specs) == ["genericdp_example.com_modem.json"])
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
async def test_watch_waits_for_its_folder(place: Place) -> None:
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
        (
            ["--config={config}", "--root={config}"],
            "is a snapshot, whose devices are not this machine's",
        ),
        (["--config={config}", "--root={config}/none"], "does not exist"),
        (["--config={config}", "--cdi-dir="], "--cdi-dir: an empty path"),
        ([], "a config is required: FILE or --config"),
    ],
)
def test_watch_refuses_what_it_cannot_keep_true(
    place: Place, more: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cdi", "watch", *(one.format(config=place.config) for one in more)]) == 2
    assert why in capsys.readouterr().err
