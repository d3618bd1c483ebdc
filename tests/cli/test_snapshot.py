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
from tests.hosts.hosts import Host, all_hosts, told
from tests.printed import resources_in, violations
from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "examples/configs"
ASKED = ("this-machine", "fuse-tun-kvm", "loop", "serial", "usb", "vfio", "tpm", "nvme")
"""Those of which any machine has something, or that look at much of it."""
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c")
EACH = """
import sys
from genericdp.cli import main
for config in sys.argv[2:]:
    main(["discover", "--config", config, "--root", sys.argv[1], "-o", "json"])
    print("\\0")
"""
"""A process for all of them: starting one takes longer than what it does."""


def why_nobody_cannot_run_it() -> str:
    """Say why we cannot become somebody else who may read this checkout; empty if we can."""
    if shutil.which("setpriv") is None:
        return "setpriv is not installed"
    tried = subprocess.run(
        [*NOBODY, "import genericdp.cli"], check=False, capture_output=True, text=True
    )
    return f"nobody cannot run it: {tried.stderr.strip()}" if tried.returncode else ""


def answers(root: Path, *, as_nobody: bool, at: Path) -> list[str]:
    """Give what ``discover -o json`` says of several examples."""
    python = NOBODY if as_nobody else (sys.executable, "-c")
    ended = subprocess.run(
        [*python, EACH, str(root), *(f"{CONFIGS}/{one}.yaml" for one in ASKED)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(at)},
    )
    return ended.stdout.split("\0")


@pytest.mark.skipif(not Path("/sys/devices").is_dir(), reason="this machine has no sysfs")
def test_on_a_snapshot_of_this_machine_somebody_else_sees_what_is_seen_on_it(
    short_folder: Path,
) -> None:
    if why := why_nobody_cannot_run_it():
        pytest.skip(why)
    short_folder.chmod(0o755)
    file, temporary = short_folder / "this.tar.gz", short_folder / "of-nobody"
    temporary.mkdir()
    os.chown(temporary, 65534, 65534)
    assert main(["snapshot", str(file)]) == 0
    file.chmod(0o644)
    there = answers(file, as_nobody=True, at=temporary)
    live = answers(Path("/"), as_nobody=False, at=temporary)
    assert len(live) == len(ASKED) + 1
    assert any('"Healthy"' in one for one in live)
    assert [as_elsewhere(one) for one in there] == [as_elsewhere(one) for one in live]
    assert list(temporary.iterdir()) == []


def as_elsewhere(answer: str) -> object:
    """Give an answer without what it says of folders that no snapshot holds, to be mounted."""
    if not answer.strip():
        return None
    found = resources_in(answer)
    return {name: {**one, "missingMounts": [], "unseenMounts": []} for name, one in found.items()}


@pytest.mark.parametrize("name", loading.NAMES)
def test_a_snapshot_of_a_machine_is_that_machine(
    name: str,
    testbed: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, file = testbed(name), tmp_path / "it.tar.gz"
    assert main(["snapshot", str(file), "--root", str(folder)]) == 0
    capsys.readouterr()
    answers = []
    for root in (folder, file):
        assert main(["hardware", "--root", str(root), "-o", "json"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]


EXAMPLES = [
    one
    for one in all_hosts()
    if one.name != "host-folder" and "file: /proc/" not in one.config.read_text()
]
"""Those that read no file of /proc or elsewhere."""


@pytest.mark.parametrize("host", EXAMPLES, ids=str)
def test_each_example_offers_the_same_on_a_snapshot_of_its_host(host: Host, tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    root, file = host.build(tmp_path / "machine"), tmp_path / "it.tar.gz"
    assert main(["snapshot", str(file), "--root", str(root)]) == 0
    there, live = (told("discover", "-o", "json", config=host.config, root=x) for x in (file, root))
    assert as_elsewhere(there) == as_elsewhere(live)


def test_one_that_was_added_to_by_hand_is_taken(
    testbed: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As docs/how-to/snapshot.md says, with the tar of this machine."""
    file, node = tmp_path / "it.tar.gz", tmp_path / "node"
    assert main(["snapshot", str(file), "--root", str(testbed("can"))]) == 0
    node.mkdir()
    subprocess.run(["tar", "xzf", file, "-C", node], check=True)
    (node / "proc").mkdir()
    (node / "proc/number").write_text("7\n")
    more = tmp_path / "more.tar.gz"
    parts = ("genericdp-snapshot.json", "dev", "sys", "run", "proc")
    subprocess.run(["tar", "czf", more, "-C", node, *parts], check=True)
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
        "  - name: example.com/can\n    match:\n      - net: {name: can0}\n"
        "    values: {number: {file: /proc/number}}\n    id: can-$(value.number)\n"
        "    inject: {env: {CAN: $(net.name)}}\n"
    )
    capsys.readouterr()
    assert main(["discover", "--config", str(config), "--root", str(more)]) == 0
    assert "example.com/can  can-7  Healthy" in capsys.readouterr().out


def test_it_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.tar.gz").write_text("mine")
    (tmp_path / "b.tar.gz").symlink_to("nowhere")
    for name in ("a", "b"):
        assert main(["snapshot", str(tmp_path / f"{name}.tar.gz")]) == 2
        assert "is there already: it is not overwritten" in capsys.readouterr().err
    assert (tmp_path / "a.tar.gz").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_file_that_cannot_be_written_is_refused(
    testbed: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--root", str(testbed("webcam"))]
    assert main(["snapshot", str(tmp_path / "no/such.tar.gz"), *argv]) == 1
    assert "cannot be written: no such file or directory" in capsys.readouterr().err


def test_two_of_one_machine_are_equal_and_it_tells_what_it_did(
    testbed: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = testbed("webcam")
    said = []
    for name in ("one", "two"):
        file = str(tmp_path / f"{name}.tar.gz")
        assert main(["snapshot", file, "--root", str(folder), "-o", "json"]) == 0
        said.append(json.loads(capsys.readouterr().out))
    one, two = (tmp_path / f"{name}.tar.gz" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    assert violations("snapshot", said[0]) == []
    assert said[0] == {**said[1], "file": str(one)}
    assert said[0]["bytes"] == one.stat().st_size
    assert said[0]["leftOut"] == {}


def test_it_can_go_to_stdout(
    testbed: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(testbed("can"))
    assert main(["snapshot", str(tmp_path / "a.tar.gz"), "--root", folder]) == 0
    capsys.readouterr()
    ended = subprocess.run(
        [sys.executable, "-m", "genericdp", "snapshot", "-", "--root", folder],
        check=True,
        capture_output=True,
    )
    assert ended.stdout == (tmp_path / "a.tar.gz").read_bytes()
    assert b"genericdp hardware --root FILE" in ended.stderr


def test_what_could_not_be_read_is_told(
    testbed: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = testbed("can")
    (folder / "dev/open").mkdir()
    (folder / "dev/open").chmod(0o777)
    (folder / "dev/open/link").symlink_to("../can0")
    assert main(["snapshot", str(tmp_path / "a.tar.gz"), "--root", str(folder)]) == 0
    assert (
        "not root can turn, so never offered: 1, such as /dev/open/link" in capsys.readouterr().out
    )


def test_a_snapshot_without_sysfs_is_named_as_it_was_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "node.tar.gz"
    with file.open("wb") as out:
        write(out, {}, [ArchiveEntry("dev", Kind.FOLDER)])
    assert main(["hardware", "--root", str(file)]) == 0
    warning = f"warning: {file}/sys/devices is missing: only path selectors can find anything"
    assert capsys.readouterr().err.startswith(warning)
