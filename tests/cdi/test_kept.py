"""The specs that a daemon keeps: when they are written, what stands in the way, what is left."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
from typing import TYPE_CHECKING

import pytest
from genericdp.cli import main

from tests.polling import poll_until
from tests.world import resource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.world import World

NAME, OTHER = "example.com/serial", "example.com/modem"
FILE = "genericdp_example.com_serial.json"
MODEM = resource(OTHER, "/dev/ttyACM*")


def serial(*globs: str, **inject: object) -> dict[str, object]:
    return resource(NAME, *(globs or ("/dev/ttyUSB*",)), inject={"by": "cdi", **inject})


@pytest.fixture
def directory(world: World) -> Path:
    """The directory of specs, of a machine with an adapter and a modem."""
    world.host.plug("ttyUSB0")
    world.host.plug("ttyACM0", major=166)
    directory = world.directory / "cdi"
    directory.mkdir()
    return directory


def nodes(file: Path) -> dict[str, list[str]]:
    """By device, the nodes on the host that a spec names."""
    spec = json.loads(file.read_bytes())
    return {
        device["name"]: [
            node.get("hostPath", node["path"]) for node in device["containerEdits"]["deviceNodes"]
        ]
        for device in spec["devices"]
    }


def state(file: Path) -> tuple[int, int]:
    """Return the variants with another file or content."""
    found = file.stat()
    return found.st_ino, found.st_mtime_ns


def listed(directory: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return what ``genericdp cdi list`` says of each file there."""
    assert main(["cdi", "list", "--cdi-dir", str(directory), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return {
        match["file"].rpartition("/")[2]: match["spec"]
        for match in found
        if match["file"].startswith(f"{directory}/")
    }


def full_look(world: World, number: int = 1) -> None:
    """Have the host read again: a tree shows nothing of what has changed in it."""
    world.host.plug(f"ttyACM{number}", major=166)


async def test_a_device_is_named_and_the_rest_is_given_by_the_kubelet(
    world: World, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.host.write("/dev/lock", "")
    spec = serial(
        env={"PORT": "$(device.path)"},
        mounts=[{"hostPath": "/dev/lock", "containerPath": "/lock"}],
        annotations={"example.com/port": "$(device.name)"},
        cdi=["vendor.com/other=x"],
    )
    async with world.serving(spec):
        await world.listed(NAME, "ttyUSB0")
        assert stat.S_IMODE((directory / FILE).stat().st_mode) == 0o644
        assert nodes(directory / FILE) == {"ttyUSB0": ["/dev/ttyUSB0"]}
        assert listed(directory, capsys) == {FILE: "maintained"}
        (given,) = (await world.allocated(NAME, ["ttyUSB0"])).container_responses
        assert [device.name for device in given.cdi_devices] == [
            f"{NAME}=ttyUSB0",
            "vendor.com/other=x",
        ]
        assert dict(given.envs) == {"PORT": "/dev/ttyUSB0"}
        assert dict(given.annotations) == {"example.com/port": "ttyUSB0"}
        assert [mount.container_path for mount in given.mounts] == ["/lock"]
        assert list(given.devices) == []
    assert listed(directory, capsys) == {FILE: "not maintained"}  # for containers that start again


async def test_a_spec_has_only_devices_that_are_there_and_their_nodes_of_now(
    world: World, directory: Path
) -> None:
    link = world.host.directory / "dev/serial/by-id/adapter"
    link.parent.mkdir(parents=True)
    link.symlink_to("../../ttyUSB0")
    world.host.plug("ttyUSB5")
    async with world.serving(serial("/dev/serial/by-id/*", "/dev/ttyUSB5")):
        await world.listed(NAME, "serial_by-id_adapter", "ttyUSB5")
        link.unlink()
        world.host.unplug("ttyUSB0")
        await world.listed(NAME, "ttyUSB5")
        assert nodes(directory / FILE) == {"ttyUSB5": ["/dev/ttyUSB5"]}
        world.host.unplug("ttyUSB5")
        await world.listed(NAME)
        assert not (directory / FILE).exists()
        world.host.plug("ttyUSB1")
        link.symlink_to("../../ttyUSB1")
        await world.listed(NAME, "serial_by-id_adapter")
        assert nodes(directory / FILE) == {"serial_by-id_adapter": ["/dev/ttyUSB1"]}


async def test_nothing_is_written_again_that_has_not_changed(world: World, directory: Path) -> None:
    async with world.serving(serial(), MODEM) as daemon:
        await world.listed(NAME, "ttyUSB0")
        before = state(directory / FILE)
        for number in range(1, 4):
            full_look(world, number)
            await world.kubelet.wait_for(lambda: world.kubelet.capacity(OTHER) > number)  # noqa: B023
        await daemon.takes(serial(), MODEM | {"replicas": 2})
        await world.kubelet.wait_for(lambda: world.kubelet.capacity(OTHER) == 8)
        assert state(directory / FILE) == before
        assert [file.name for file in directory.iterdir()] == [FILE]
    async with world.serving(serial(), MODEM) as daemon:
        await world.listed(NAME, "ttyUSB0")
        assert state(directory / FILE) == before
        world.host.plug("ttyUSB1")
        await world.listed(NAME, "ttyUSB0", "ttyUSB1")
        assert state(directory / FILE) != before


FOREIGN = {"cdiVersion": "0.5.0", "kind": NAME, "devices": [{"name": "a", "containerEdits": {}}]}


NOT_OURS = "{directory}/" + FILE + " is not of genericdp: it is not overwritten (remove it)"
IRREGULAR = "{directory}/" + FILE + " is not a regular file: it is not overwritten (remove it)"


@pytest.mark.parametrize(
    ("make", "why"),
    [(lambda file: file.write_text(json.dumps(FOREIGN)), NOT_OURS), (os.mkfifo, IRREGULAR)],
    ids=["with our name", "a pipe"],
)
async def test_what_stands_in_the_way_of_a_spec_is_told_and_heals_when_it_is_gone(
    world: World, directory: Path, make: Callable[[Path], object], why: str
) -> None:
    file = directory / FILE
    async with world.serving(serial(), MODEM) as daemon:
        await daemon.offers(NAME, ttyUSB0="")
        await daemon.takes(MODEM)
        await poll_until(lambda: not file.exists())
        make(file)
        before = file.lstat()
        await daemon.takes(serial(), MODEM)
        await daemon.offers(NAME, ttyUSB0=why.format(directory=directory))
        await daemon.offers(OTHER, ttyACM0="")
        await world.listed(OTHER, "ttyACM0")
        await world.listed(NAME)
        assert file.lstat() == before
        file.unlink()
        full_look(world)
        await world.listed(NAME, "ttyUSB0")
        assert nodes(file) == {"ttyUSB0": ["/dev/ttyUSB0"]}


async def test_a_directory_that_vanishes_later_is_told_at_the_next_full_look(
    world: World, directory: Path
) -> None:
    async with world.serving(serial(), MODEM):
        await world.listed(NAME, "ttyUSB0")
        shutil.rmtree(directory)
        full_look(world)
        await world.listed(NAME)
        directory.mkdir()
        full_look(world, 2)
        await world.listed(NAME, "ttyUSB0")
        assert nodes(directory / FILE) == {"ttyUSB0": ["/dev/ttyUSB0"]}


async def test_an_edited_file_of_ours_is_not_taken_for_ours_and_a_removed_one_comes_back(
    world: World, directory: Path
) -> None:
    async with world.serving(serial(), MODEM) as daemon:
        await world.listed(NAME, "ttyUSB0")
        (directory / FILE).unlink()
        full_look(world)
        await poll_until((directory / FILE).exists)
        edited = (directory / FILE).read_text().replace("  ", "\t")
        (directory / FILE).write_text(edited)
        full_look(world, 2)
        await daemon.offers(NAME, ttyUSB0=NOT_OURS.format(directory=directory))
        assert (directory / FILE).read_text() == edited


HOSTILE = {
    "vendor.json": b'{"kind": ' + b"[" * 1_000_000,
    "genericdp_deep.json": b"[" * 1_000_000,
    "genericdp_binary.json": bytes(range(256)),
    "genericdp_form.json": b'{\n  "cdiVersion": 1,\n  "kind": [],\n  "devices": 5\n}\n',
}


async def test_hostile_files_in_the_directory_harm_nobody(
    world: World, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in HOSTILE.items():
        (directory / name).write_bytes(content)
    os.mkfifo(directory / "genericdp_pipe.json")
    os.mkfifo(directory / ".genericdp-pipe")
    (directory / "genericdp_zero.json").symlink_to("/dev/zero")
    async with world.serving(serial(), MODEM):
        await world.listed(NAME, "ttyUSB0")
        full_look(world)
        await world.listed(OTHER, "ttyACM0", "ttyACM1")
        states = listed(directory, capsys)
    assert states.pop(FILE) == "maintained"
    assert states == {name: "not of genericdp" for name in HOSTILE if name.startswith("genericdp_")}
    assert {name: (directory / name).read_bytes() for name in HOSTILE} == HOSTILE


def leave(directory: Path, name: str = "old") -> Path:
    """A spec of ours that no one keeps."""
    spec = FOREIGN | {"kind": f"example.com/{name}"}
    file = directory / f"genericdp_example.com_{name}.json"
    file.write_text(f"{json.dumps(spec, indent=2)}\n")
    return file


async def test_leftovers_are_removed_at_the_start_and_no_file_of_others(
    world: World, directory: Path
) -> None:
    old = leave(directory)
    (directory / ".genericdp-abc").write_text("half of a spec")
    others = {
        "other.json": json.dumps(FOREIGN | {"kind": "example.com/other"}),
        "genericdp_mine.json": "{}",
        ".other-abc": "",
    }
    for name, text in others.items():
        (directory / name).write_text(text)
    (directory / ".genericdp-directory").mkdir()
    async with world.serving(MODEM):
        await world.listed(OTHER, "ttyACM0")
        assert not old.exists()
        assert {file.name for file in directory.iterdir()} == {*others, ".genericdp-directory"}
    assert {name: (directory / name).read_text() for name in others} == others


async def test_what_another_daemon_keeps_stays_until_it_ends(world: World, directory: Path) -> None:
    modem = MODEM | {"inject": {"by": "cdi"}}
    theirs = directory / "genericdp_example.com_modem.json"
    async with world.serving(serial()):
        await world.listed(NAME, "ttyUSB0")
        async with world.serving(modem):
            await world.listed(OTHER, "ttyACM0")
            world.host.plug("ttyUSB1")
            await world.listed(NAME, "ttyUSB0", "ttyUSB1")
            world.host.plug("ttyUSB2")
            await world.listed(NAME, "ttyUSB0", "ttyUSB1", "ttyUSB2")
            assert theirs.exists()
            assert nodes(directory / FILE).keys() == {"ttyUSB0", "ttyUSB1", "ttyUSB2"}
        assert theirs.exists()
        world.host.plug("ttyUSB3")
        await poll_until(lambda: not theirs.exists())


async def test_two_daemons_that_want_different_specs_are_told(
    world: World, directory: Path
) -> None:
    """The last one to write has its way, so someone has to know."""
    async with world.serving(serial()):
        await world.listed(NAME, "ttyUSB0")
        async with world.serving(serial() | {"id": "other-$(device.name)"}) as second:
            await poll_until(lambda: nodes(directory / FILE).keys() == {"other-ttyUSB0"})
            what = "is maintained by another process, too, which wants something else in it"
            await second.log.until(lambda: second.log.count(what) > 0)


async def test_whoever_reads_a_spec_cannot_keep_it_in_place(world: World, directory: Path) -> None:
    async with world.serving(serial(), MODEM) as daemon:
        await world.listed(NAME, "ttyUSB0")
        with (directory / FILE).open("rb") as reader:
            fcntl.flock(reader, fcntl.LOCK_SH)
            await daemon.takes(MODEM)
            await poll_until(lambda: not (directory / FILE).exists())
