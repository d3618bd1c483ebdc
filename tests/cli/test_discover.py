"""``genericdp discover``: text and JSON, exactly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from genericdp.cli import main
from tests.fixtures.make_tree import Tree, laptop, serial_node
from tests.printed import resources_in

LAPTOP = Path(__file__).parents[1] / "fixtures" / "laptop"

CONFIG = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/camera
    match:
      - path: [/dev/video*, /dev/v4l/by-id/*]
  - name: example.com/fuse
    match: [{path: /dev/fuse}]
    replicas: 3
  - name: example.com/disk
    match: [{path: "/dev/nvme[0-9]*"}]
    exclude: [{path: /dev/nvme0n1p1}]
    inject: {devices: [{path: $(device.path)}, {path: /dev/nvme-ctl}]}
  - name: example.com/none
    match: [{path: /dev/none*}, {path: /dev/video0}]
"""

TEXT = """\
RESOURCE            ID                                         STATE                                    NODES                                           NUMA
example.com/camera  v4l_by-id_usb-Chicony_Camera-video-index0  Healthy                                  /dev/v4l/by-id/usb-Chicony_Camera-video-index0  -
example.com/camera  video1                                     Healthy                                  /dev/video1                                     -
example.com/fuse    fuse (3 shares)                            Healthy                                  /dev/fuse                                       -
example.com/disk    nvme0n1                                    Unhealthy: /dev/nvme-ctl does not exist  /dev/nvme0n1                                    -

Matched, but not offered:
  example.com/disk: /dev/nvme0n1p1: excluded by the config
  example.com/none: /dev/video0: belongs to resource example.com/camera, which comes first in the config

IDs that can change at boot:
  example.com/camera: the ID video1 is only as stable as the kernel's name, which can change at boot (write id: $(device.name) if the kernel's name is meant)
  example.com/disk: the ID nvme0n1 is only as stable as the kernel's name, which can change at boot (write id: $(device.name) if the kernel's name is meant)

Nothing found:
  example.com/none: /dev/none*
"""  # noqa: E501


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


def test_the_table_shows_what_is_offered_and_below_it_what_is_not_and_why(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["discover", "--root", str(LAPTOP), "--config", str(config)]) == 0
    assert capsys.readouterr().out == TEXT


def test_json_says_the_same(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["discover", "--root", str(LAPTOP), "--config", str(config), "-o", "json"]) == 0
    found = resources_in(capsys.readouterr().out)
    assert list(found) == [f"example.com/{name}" for name in ("camera", "fuse", "disk", "none")]
    assert found["example.com/fuse"] == {
        "name": "example.com/fuse",
        "capacity": 3,
        "allocatable": 3,
        "devices": [
            {
                "id": "fuse",
                "path": "/dev/fuse",
                "state": "Healthy",
                "reason": "",
                "shares": 3,
                "nodes": ["/dev/fuse"],
                "numaNodes": [],
                "dra": None,
                "model": "",
                "serial": "",
                "driver": "",
                "probes": [],
            }
        ],
        "empty": "",
        "emptyCause": "",
        "notOffered": [],
        "nothingFound": [],
        "nearest": {},
        "danglingLinks": {},
        "missingMounts": [],
        "unseenMounts": [],
        "weakIds": [],
    }
    assert found["example.com/disk"] == {
        "name": "example.com/disk",
        "capacity": 1,
        "allocatable": 0,
        "devices": [
            {
                "id": "nvme0n1",
                "path": "/dev/nvme0n1",
                "state": "Unhealthy",
                "reason": "/dev/nvme-ctl does not exist",
                "shares": 1,
                "nodes": ["/dev/nvme0n1"],
                "numaNodes": [],
                "dra": None,
                "model": "",
                "serial": "",
                "driver": "",
                "probes": [],
            }
        ],
        "empty": "",
        "emptyCause": "",
        "notOffered": [
            {"path": "/dev/nvme0n1p1", "code": "excluded", "reason": "excluded by the config"}
        ],
        "nothingFound": [],
        "nearest": {},
        "danglingLinks": {},
        "missingMounts": [],
        "unseenMounts": [],
        "weakIds": [
            {
                "ids": ["nvme0n1"],
                "suggested": "$(device.name)",
                "warning": "the ID nvme0n1 is only as stable as the kernel's name, which can"
                " change at boot (write id: $(device.name) if the kernel's name is meant)",
            }
        ],
    }
    taken = "belongs to resource example.com/camera, which comes first in the config"
    assert found["example.com/none"] == {
        "name": "example.com/none",
        "capacity": 0,
        "allocatable": 0,
        "devices": [],
        "empty": f"1 matched, but not offered: /dev/video0: {taken}",
        "emptyCause": "not_offered",
        "notOffered": [
            {
                "path": "/dev/video0",
                "code": "taken",
                "reason": taken,
            }
        ],
        "nothingFound": ["/dev/none*"],
        "nearest": {},
        "danglingLinks": {},
        "missingMounts": [],
        "unseenMounts": [],
        "weakIds": [],
    }


def test_it_works_as_a_user_without_root(config: Path) -> None:
    """In a process of its own, which gives root up first where it has it."""
    program = f"""
import contextlib, io, os, pathlib, sys, tempfile
from genericdp.cli import main
from tests.fixtures.make_tree import laptop

def discover():
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "config.yaml")
        config.write_text({CONFIG!r})
        laptop(pathlib.Path(folder, "root"))
        return main(["discover", "--root", folder + "/root", "--config", str(config)])

if os.geteuid() == 0:
    # Once before, since afterwards the modules may not be readable any more.
    with contextlib.redirect_stdout(io.StringIO()):
        discover()
    os.chdir("/")
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
assert os.geteuid() != 0
sys.exit(discover())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == TEXT


def test_a_config_for_other_nodes_shows_nothing(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = CONFIG.replace("    replicas: 3", '    nodeNames: ["edge-*"]')
    config.write_text(text)
    argv = ["discover", "--root", str(LAPTOP), "--config", str(config), "-o", "json"]
    assert main([*argv, "--node-name", "core-1"]) == 0
    assert "example.com/fuse" not in resources_in(capsys.readouterr().out)
    assert main([*argv, "--node-name", "edge-7"]) == 0
    assert "example.com/fuse" in resources_in(capsys.readouterr().out)


def test_names_of_files_cannot_write_to_the_terminal(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = serial_node(tmp_path / "host")
    tree.link("dev/serial/by-id/\x1b[31m\nexample.com: Healthy", "../../ttyUSB0")
    tree.link("dev/serial/by-id/\udcff", "../../ttyUSB1")
    config.write_text(
        CONFIG.partition("resources:")[0] + "resources:\n"
        "  - name: example.com/serial\n"
        "    match: [{path: '/dev/serial/by-id/[!u]*'}]\n"
    )
    assert main(["discover", "--root", str(tree.folder), "--config", str(config)]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "Matched, but not offered:",
        "  example.com/serial: /dev/serial/by-id/\\x1b[31m\\nexample.com: Healthy:"
        " its name holds a control character",
        "  example.com/serial: /dev/serial/by-id/\\xff: its name is not valid UTF-8",
    ]


@pytest.mark.parametrize(
    ("folder", "complaint"),
    [
        ("", "has no folder dev (give --root a folder with dev/ and sys/ of a machine, or a"),
        ("absent", "absent does not exist (give --root"),
        ("file/dev", "file/dev does not exist (give --root"),
        ("file", "file: it is no snapshot"),
        ("pipe", "pipe is no folder and no file (give --root"),
    ],
)
def test_a_root_that_is_none_is_one_line(
    tmp_path: Path,
    config: Path,
    folder: str,
    complaint: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("hello")
    os.mkfifo(tmp_path / "pipe")
    assert main(["discover", "--root", str(tmp_path / folder), "--config", str(config)]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert complaint in printed.err


def test_a_bad_config_is_refused_with_its_places(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(CONFIG.replace("replicas: 3", "replica: 3"))
    argv = ["discover", "--root", str(LAPTOP), "--config", str(config)]
    assert main(argv) == 2
    assert f"{config}:9:5: " in capsys.readouterr().err


def test_a_tree_without_sys_has_files_but_no_devices(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "host/dev").mkdir(parents=True)
    (tmp_path / "host/dev/fuse").touch()
    assert main(["discover", "--root", str(tmp_path / "host"), "--config", str(config)]) == 0
    printed = capsys.readouterr().out
    reason = "its type is file, wanted char or block (see the key type)"
    assert f"  example.com/fuse: /dev/fuse: {reason}" in printed


def discovered(tmp_path: Path, resource: str, *more: str) -> int:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.partition("  - name")[0] + f"  - name: example.com/one\n{resource}")
    return main(["discover", f"--root={tmp_path / 'root'}", f"--config={config}", *more])


@pytest.fixture
def fuse(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path / "root")
    tree.node("fuse", "10:229")
    return tree


def test_a_link_to_nothing_says_where_it_leads(
    fuse: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fuse.link("dev/gps", "ttyUSB7")
    fuse.link("dev/by/gps", "../ttyUSB7")
    resource = "    match: [{path: [/dev/gps, /dev/by/gps, /dev/none, '/dev/g*']}]\n"
    assert discovered(tmp_path, resource) == 0
    nothing = capsys.readouterr().out.partition("Nothing found:\n")[2].splitlines()
    assert nothing == [
        "  example.com/one: /dev/by/gps is a link to ../ttyUSB7, which does not exist",
        "  example.com/one: /dev/g*",
        "  example.com/one: /dev/gps is a link to ttyUSB7, which does not exist",
        "  example.com/one: /dev/none",
    ]
    assert discovered(tmp_path, resource, "-o", "json") == 0
    one = resources_in(capsys.readouterr().out)["example.com/one"]
    assert one["danglingLinks"] == {"/dev/gps": "ttyUSB7", "/dev/by/gps": "../ttyUSB7"}


def test_an_exclude_that_finds_nothing_is_as_it_should_be(
    fuse: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resource = "    match: [{path: /dev/fuse}]\n    exclude: [{path: /dev/none}]\n"
    assert discovered(tmp_path, resource) == 0
    assert "Nothing found" not in capsys.readouterr().out


def test_a_mount_of_what_is_missing_is_told(
    fuse: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing can be said of /srv: this copy of a machine has none of it."""
    fuse.write("opt/there/file", "")
    fuse.link("opt/link", "there/nothing")
    paths = ["/opt/there/file", "/opt/missing", "/opt/link", "/opt/there/file/x", "/srv/data"]
    mounts = ", ".join(f"{{hostPath: {path}, containerPath: {path}}}" for path in paths)
    for resource in (
        f"    match: [{{path: /dev/fuse}}]\n    inject: {{mounts: [{mounts}]}}\n",
        f"    match: [{{path: /dev/fuse, inject: {{mounts: [{mounts}]}}}}]\n",
    ):
        assert discovered(tmp_path, resource) == 0
        said = capsys.readouterr().out.partition("Mounts:\n")[2].splitlines()
        assert said == [
            f"  example.com/one: hostPath {path} does not exist; the runtime would create an empty"
            " folder"
            for path in ("/opt/missing", "/opt/link", "/opt/there/file/x")
        ]


def test_the_fixture_is_the_laptop(tmp_path: Path) -> None:
    assert isinstance(laptop(tmp_path), Tree)
    assert (LAPTOP / "dev/fuse").is_file()
