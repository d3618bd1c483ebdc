"""``genericdp snapshot``, and commands whose machine is one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.snapshot.archive import ArchiveEntry, Kind, write

from tests.hosts.hosts import Host, all_hosts
from tests.polling import poll_until
from tests.printed import resources_in, violations

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.asking import Ask

    Testbed = Callable[[str], Path]

pytestmark = pytest.mark.slow

CONFIGS = Path(__file__).parents[2] / "examples/configs"
ASKED = ("this-machine", "fuse-tun-kvm", "loop", "serial", "usb", "vfio", "tpm", "nvme")
"""Those of which any machine has something, or that read much of it."""


def discovered(ask: Ask, config: Path, root: Path) -> object:
    """Discover, and leave out directories to be mounted, which no snapshot holds."""
    found = resources_in(ask("discover -o json --node-name=n", config, f"--root={root}").out)
    unknown: dict[str, object] = {"missingMounts": [], "unseenMounts": []}
    return {name: {**resource, **unknown} for name, resource in found.items()}


@pytest.mark.skipif(not Path("/sys/devices").is_dir(), reason="this machine has no sysfs")
def test_on_a_snapshot_of_this_machine_is_seen_what_is_seen_on_it(ask: Ask) -> None:
    file = ask.directory / "this.tar.gz"
    ask("snapshot", file)
    configs = [CONFIGS / f"{name}.yaml" for name in ASKED]
    live = [discovered(ask, config, Path("/")) for config in configs]
    assert "Healthy" in str(live)
    assert [discovered(ask, config, file) for config in configs] == live


EXAMPLES = [
    host
    for host in all_hosts()
    if host.name != "host-directory" and "file: /proc/" not in host.config.read_text()
]
"""Those that read no file of /proc or elsewhere."""


@pytest.mark.parametrize("host", EXAMPLES, ids=str)
def test_each_example_offers_the_same_on_a_snapshot_of_its_host(host: Host, ask: Ask) -> None:
    (machine := ask.directory / "machine").mkdir()
    root, file = host.build(machine), ask.directory / "it.tar.gz"
    ask(f"snapshot {file} --root", root)
    assert discovered(ask, host.config, file) == discovered(ask, host.config, root)


def test_one_that_was_added_to_by_hand_is_taken(testbed: Testbed, ask: Ask) -> None:
    """As docs/how-to/snapshot.md says, with the tar of this machine."""
    ask("snapshot it.tar.gz --root", testbed("can"))
    ask.write("node/proc/number", "7\n")
    subprocess.run(["tar", "xzf", "it.tar.gz", "-C", "node"], check=True)
    parts = "genericdp-snapshot.json dev sys run proc"
    subprocess.run(f"tar czf more.tar.gz -C node {parts}".split(), check=True)
    ask.config(
        "name: example.com/can, match: [{net: {name: can0}}], id: can-$(value.number),"
        " values: {number: {file: /proc/number}}, inject: {env: {CAN: $(net.name)}}"
    )
    assert "can-7  Healthy" in ask("discover config.yaml --root more.tar.gz").out


def test_it_never_overwrites(testbed: Testbed, ask: Ask) -> None:
    root = testbed("webcam")
    ask.write("a.tar.gz", "mine")
    Path("b.tar.gz").symlink_to("nowhere")
    for name in ("a", "b"):
        err = ask(f"snapshot {name}.tar.gz --root", root, code=2).err
        assert "already exists and is not overwritten" in err
    assert Path("a.tar.gz").read_text() == "mine"
    assert not Path("nowhere").exists()
    err = ask("snapshot no/such.tar.gz --root", root, code=1).err
    assert "cannot be written: no such file or directory" in err


def test_two_of_one_machine_are_equal_and_it_tells_what_it_did(testbed: Testbed, ask: Ask) -> None:
    root = testbed("webcam")
    said = [ask(f"snapshot {name}.tar.gz -o json --root", root).data for name in ("a", "b")]
    first = Path("a.tar.gz").read_bytes()
    assert first == Path("b.tar.gz").read_bytes()
    assert violations("snapshot", said[0]) == []
    assert said[0] == {**said[1], "file": "a.tar.gz"}
    assert (said[0]["bytes"], said[0]["leftOut"]) == (len(first), {})
    command = [sys.executable, "-m", "genericdp", "snapshot", "-", f"--root={root}"]
    ended = subprocess.run(command, check=True, capture_output=True)
    assert ended.stdout == first
    assert b"genericdp hardware --root FILE" in ended.stderr


def test_what_could_not_be_read_is_told(testbed: Testbed, ask: Ask) -> None:
    directory = testbed("can")
    (directory / "dev/open").mkdir()
    (directory / "dev/open").chmod(0o777)
    (directory / "dev/open/link").symlink_to("../can0")
    said = "other than root can change, so never offered: 1, such as /dev/open/link"
    assert said in ask("snapshot a.tar.gz --root", directory).out


def test_a_snapshot_without_sysfs_is_named_as_it_was_given(ask: Ask) -> None:
    with open("node.tar.gz", "wb") as out:
        write(out, {}, [ArchiveEntry("dev", Kind.DIRECTORY)])
    warning = "warning: node.tar.gz/sys/devices is missing: only path selectors can find anything"
    assert ask("hardware --root node.tar.gz").err.startswith(warning)


@pytest.fixture
def temporary(testbed: Testbed, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory where snapshots are unpacked; one is can.tar.gz."""
    ask("snapshot can.tar.gz --root", testbed("can"))
    directory = ask.directory / "temporary"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr("tempfile.tempdir", None)
    return directory


def test_every_command_takes_a_snapshot_and_leaves_nothing(temporary: Path, ask: Ask) -> None:
    ask.config("name: a/can, match: [{net: {linkType: can}}], inject: {env: {A: $(net.name)}}")
    for words in (
        "discover config.yaml",
        "explain config.yaml can0",
        "allocate config.yaml a/can=1",
        "probe config.yaml",
        "validate --diff config.yaml config.yaml",
        "simulate config.yaml --once",
    ):
        said = ask(f"{words} --root can.tar.gz").out
        assert "can0" in said or words[0] in "vps"
        assert list(temporary.iterdir()) == []


def test_who_may_read_a_file_does_not_hang_on_the_umask(temporary: Path, ask: Ask) -> None:
    """A snapshot holds only what everybody may read: made of one, it is the same."""
    before = os.umask(0o077)
    try:
        ask("snapshot again.tar.gz --root can.tar.gz")
        assert os.umask(0o077) == 0o077
    finally:
        os.umask(before)
    assert Path("again.tar.gz").read_bytes() == Path("can.tar.gz").read_bytes()
    assert list(temporary.iterdir()) == []


async def test_a_signal_leaves_nothing(temporary: Path) -> None:
    """While the command waits for the reader of its output."""
    reader, full = os.pipe()
    with os.fdopen(reader), os.fdopen(full, "wb", buffering=0) as stdout:
        os.set_blocking(full, False)
        while stdout.write(b"x" * 4096):
            pass
        os.set_blocking(full, True)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "genericdp", "hardware", "--root=can.tar.gz"),
            stdout=stdout,
            stderr=asyncio.subprocess.PIPE,
        )
        await poll_until(lambda: list(temporary.iterdir()))
        process.terminate()
        async with asyncio.timeout(60):
            _, complaint = await process.communicate()
    assert (process.returncode, complaint) == (128 + signal.SIGTERM, b"")
    assert list(temporary.iterdir()) == []
