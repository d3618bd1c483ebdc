from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from genericdp.cli import main
from genericdp.snapshot.archive import ArchiveEntry, Kind, write

from tests.cli.explain_output import HEAD
from tests.hosts.hosts import Host, all_hosts, printed_by
from tests.printed import resources_in, violations
from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Callable

    Testbed = Callable[[str], Path]

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "examples/configs"
ASKED = ("this-machine", "fuse-tun-kvm", "loop", "serial", "usb", "vfio", "tpm", "nvme")
"""Those of which any machine has something, or that read much of it."""
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c")
EACH = """
import sys
from genericdp.cli import main
for config in sys.argv[2:]:
    main(["discover", "--config", config, "--root", sys.argv[1], "-o", "json"])
    print("\\0")
"""
"""A process for all of them: starting one takes longer than what it does."""
Capture = pytest.CaptureFixture[str]


def answers(root: Path, *python: str, at: Path) -> list[str]:
    """Give what ``discover -o json`` says of several examples."""
    ended = subprocess.run(
        [*python, EACH, str(root), *(f"{CONFIGS}/{name}.yaml" for name in ASKED)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(at)},
    )
    return ended.stdout.split("\0")


def as_elsewhere(answer: str) -> object:
    """Give an answer without what it says of directories that no snapshot holds, to be mounted."""
    if not answer.strip():
        return None
    found = resources_in(answer)
    unknown: dict[str, object] = {"missingMounts": [], "unseenMounts": []}
    return {name: {**resource, **unknown} for name, resource in found.items()}


@pytest.mark.skipif(not Path("/sys/devices").is_dir(), reason="this machine has no sysfs")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
def test_on_a_snapshot_of_this_machine_somebody_else_sees_what_is_seen_on_it(
    short_directory: Path,
) -> None:
    tried = subprocess.run(
        [*NOBODY, "import genericdp.cli"], check=False, capture_output=True, text=True
    )
    if tried.returncode:  # we cannot become someone else who may read this checkout
        pytest.skip(f"the unprivileged user cannot run it: {tried.stderr.strip()}")
    short_directory.chmod(0o755)
    file, temporary = short_directory / "this.tar.gz", short_directory / "of-nobody"
    temporary.mkdir()
    os.chown(temporary, 65534, 65534)
    assert main(["snapshot", str(file)]) == 0
    file.chmod(0o644)
    there = answers(file, *NOBODY, at=temporary)
    live = answers(Path("/"), sys.executable, "-c", at=temporary)
    assert len(live) == len(ASKED) + 1
    assert any('"Healthy"' in answer for answer in live)
    assert [*map(as_elsewhere, there)] == [*map(as_elsewhere, live)]
    assert list(temporary.iterdir()) == []


def snapshot(file: Path, root: Path, *more: str) -> int:
    return main(["snapshot", str(file), "--root", str(root), *more])


@pytest.mark.parametrize("name", loading.NAMES)
def test_a_snapshot_of_a_machine_is_that_machine(
    name: str, testbed: Testbed, tmp_path: Path, capsys: Capture
) -> None:
    directory, file = testbed(name), tmp_path / "it.tar.gz"
    assert snapshot(file, directory) == 0
    capsys.readouterr()
    found = []
    for root in (directory, file):
        assert main(["hardware", "--root", str(root), "-o", "json"]) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]


EXAMPLES = [
    host
    for host in all_hosts()
    if host.name != "host-directory" and "file: /proc/" not in host.config.read_text()
]
"""Those that read no file of /proc or elsewhere."""


@pytest.mark.parametrize("host", EXAMPLES, ids=str)
def test_each_example_offers_the_same_on_a_snapshot_of_its_host(host: Host, tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    root, file = host.build(tmp_path / "machine"), tmp_path / "it.tar.gz"
    assert snapshot(file, root) == 0
    there, live = (
        printed_by("discover", "-o", "json", config=host.config, root=x) for x in (file, root)
    )
    assert as_elsewhere(there) == as_elsewhere(live)


def test_one_that_was_added_to_by_hand_is_taken(
    testbed: Testbed, tmp_path: Path, capsys: Capture
) -> None:
    """As docs/how-to/snapshot.md says, with the tar of this machine."""
    file, node, more = tmp_path / "it.tar.gz", tmp_path / "node", tmp_path / "more.tar.gz"
    assert snapshot(file, testbed("can")) == 0
    node.mkdir()
    subprocess.run(["tar", "xzf", file, "-C", node], check=True)
    (node / "proc").mkdir()
    (node / "proc/number").write_text("7\n")
    parts = ("genericdp-snapshot.json", "dev", "sys", "run", "proc")
    subprocess.run(["tar", "czf", more, "-C", node, *parts], check=True)
    config = tmp_path / "config.yaml"
    config.write_text(
        f"{HEAD}  - name: example.com/can\n    match: [{{net: {{name: can0}}}}]\n"
        "    values: {number: {file: /proc/number}}\n    id: can-$(value.number)\n"
        "    inject: {env: {CAN: $(net.name)}}\n"
    )
    capsys.readouterr()
    assert main(["discover", "--config", str(config), "--root", str(more)]) == 0
    assert "example.com/can  can-7  Healthy" in capsys.readouterr().out


def test_it_never_overwrites(testbed: Testbed, tmp_path: Path, capsys: Capture) -> None:
    root = testbed("webcam")
    (tmp_path / "a.tar.gz").write_text("mine")
    (tmp_path / "b.tar.gz").symlink_to("nowhere")
    for name in ("a", "b"):
        assert snapshot(tmp_path / f"{name}.tar.gz", root) == 2
        assert "already exists and is not overwritten" in capsys.readouterr().err
    assert (tmp_path / "a.tar.gz").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    assert snapshot(tmp_path / "no/such.tar.gz", root) == 1
    assert "cannot be written: no such file or directory" in capsys.readouterr().err


def test_two_of_one_machine_are_equal_and_it_tells_what_it_did(
    testbed: Testbed, tmp_path: Path, capsys: Capture
) -> None:
    first, second = (tmp_path / f"{name}.tar.gz" for name in ("first", "second"))
    root, said = testbed("webcam"), []
    for file in (first, second):
        assert snapshot(file, root, "-o", "json") == 0
        said.append(json.loads(capsys.readouterr().out))
    assert first.read_bytes() == second.read_bytes()
    assert violations("snapshot", said[0]) == []
    assert said[0] == {**said[1], "file": str(first)}
    assert (said[0]["bytes"], said[0]["leftOut"]) == (first.stat().st_size, {})


def test_it_can_go_to_stdout(testbed: Testbed, tmp_path: Path, capsys: Capture) -> None:
    directory = testbed("can")
    assert snapshot(tmp_path / "a.tar.gz", directory) == 0
    capsys.readouterr()
    ended = subprocess.run(
        [sys.executable, "-m", "genericdp", "snapshot", "-", "--root", directory],
        check=True,
        capture_output=True,
    )
    assert ended.stdout == (tmp_path / "a.tar.gz").read_bytes()
    assert b"genericdp hardware --root FILE" in ended.stderr


def test_what_could_not_be_read_is_told(testbed: Testbed, tmp_path: Path, capsys: Capture) -> None:
    directory = testbed("can")
    (directory / "dev/open").mkdir()
    (directory / "dev/open").chmod(0o777)
    (directory / "dev/open/link").symlink_to("../can0")
    assert snapshot(tmp_path / "a.tar.gz", directory) == 0
    said = "other than root can change, so never offered: 1, such as /dev/open/link"
    assert said in capsys.readouterr().out


def test_a_snapshot_without_sysfs_is_named_as_it_was_given(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "node.tar.gz"
    with file.open("wb") as out:
        write(out, {}, [ArchiveEntry("dev", Kind.DIRECTORY)])
    assert main(["hardware", "--root", str(file)]) == 0
    warning = f"warning: {file}/sys/devices is missing: only path selectors can find anything"
    assert capsys.readouterr().err.startswith(warning)
