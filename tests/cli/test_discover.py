"""``genericdp discover``: text and JSON, exactly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from genericdp.cli import main
from tests.fixtures.make_tree import Tree, laptop, serial_node
from tests.testbeds import loading

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
    match: [{path: "/dev/nvme*"}]
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
    found = json.loads(capsys.readouterr().out)["resources"]
    assert list(found) == [f"example.com/{name}" for name in ("camera", "fuse", "disk", "none")]
    assert found["example.com/fuse"] == {
        "devices": [
            {
                "id": "fuse",
                "path": "/dev/fuse",
                "state": "Healthy",
                "reason": "",
                "shares": ["fuse", "fuse::1", "fuse::2"],
                "nodes": ["/dev/fuse"],
                "numaNode": None,
            }
        ],
        "notOffered": [],
        "nothingFound": [],
        "danglingLinks": {},
        "missingMounts": [],
    }
    assert found["example.com/disk"] == {
        "devices": [
            {
                "id": "nvme0n1",
                "path": "/dev/nvme0n1",
                "state": "Unhealthy",
                "reason": "/dev/nvme-ctl does not exist",
                "shares": ["nvme0n1"],
                "nodes": ["/dev/nvme0n1"],
                "numaNode": None,
            }
        ],
        "notOffered": [{"path": "/dev/nvme0n1p1", "reason": "excluded by the config"}],
        "nothingFound": [],
        "danglingLinks": {},
        "missingMounts": [],
    }
    assert found["example.com/none"] == {
        "devices": [],
        "notOffered": [
            {
                "path": "/dev/video0",
                "reason": "belongs to resource example.com/camera, which comes first in the config",
            }
        ],
        "nothingFound": ["/dev/none*"],
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
    assert "example.com/fuse" not in json.loads(capsys.readouterr().out)["resources"]
    assert main([*argv, "--node-name", "edge-7"]) == 0
    assert "example.com/fuse" in json.loads(capsys.readouterr().out)["resources"]


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
        "  example.com/serial: /dev/serial/by-id/\\udcff: its name is not valid UTF-8",
    ]


@pytest.mark.parametrize(
    ("folder", "complaint"),
    [
        ("", "has no folder dev (give --root a folder with dev/ and sys/ of a machine)"),
        ("absent", "has no folder dev"),
        ("file/dev", "has no folder dev"),
    ],
)
def test_a_root_that_is_none_is_one_line(
    tmp_path: Path,
    config: Path,
    folder: str,
    complaint: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").touch()
    assert main(["discover", "--root", str(tmp_path / folder), "--config", str(config)]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert complaint in printed.err


def test_a_bad_config_and_one_that_is_not_built_yet_are_refused_with_their_places(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(CONFIG.replace("replicas: 3", "replica: 3"))
    argv = ["discover", "--root", str(LAPTOP), "--config", str(config)]
    assert main(argv) == 2
    assert f"{config}:9:5: " in capsys.readouterr().err
    config.write_text(CONFIG.replace("replicas: 3", "prefer: spread"))
    assert main(argv) == 2
    assert capsys.readouterr().err == f"not implemented yet: prefer at {config}:9\n"


def test_a_tree_without_sys_has_files_but_no_devices(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "host/dev").mkdir(parents=True)
    (tmp_path / "host/dev/fuse").touch()
    assert main(["discover", "--root", str(tmp_path / "host"), "--config", str(config)]) == 0
    printed = capsys.readouterr().out
    reason = "its type is file, wanted char or block (see the key type)"
    assert f"  example.com/fuse: /dev/fuse: {reason}" in printed


ALL = """\
PCI function 0000:00:14.0: vendor 8086, device a36d, class 0c0330, driver xhci_hcd, \
function physical
    - {pci: {vendor: "8086", device: a36d}}

USB device usb1: vendor 1d6b, product 0002, serial 0000:00:14.0, class 09
    file /dev/bus/usb/001/001
    properties ID_MODEL xHCI_Host_Controller, \
ID_SERIAL Linux_6.1.0_xhci-hcd_xHCI_Host_Controller_0000:00:14.0, \
ID_VENDOR Linux_6.1.0_xhci-hcd
    - {usb: {vendor: "1d6b", product: "0002"}}

USB device 1-3: vendor 1d50, product 606f, serial 004D00323536510620353437, class 00
    file /dev/bus/usb/001/009
    properties ID_MODEL candleLight_USB_to_CAN_adapter, \
ID_SERIAL bytewerk_candleLight_USB_to_CAN_adapter_004D00323536510620353437, ID_VENDOR bytewerk
    - {usb: {vendor: "1d50", product: "606f"}}
  can0, net, driver gs_usb
    net name can0, linkType can, driver gs_usb
    properties ID_NET_NAME_PATH can0
    - {net: {linkType: can}, hardware: {usb: {vendor: "1d50", product: "606f"}}}

Without hardware: block
  - {path: "/dev/loop[0-9]*"}  # /dev/loop0 … /dev/loop2 (3), block

Without hardware: net
  vcan0, net
    net name vcan0, linkType can
    - {net: {name: vcan0}}

Other files
  - {path: /dev/mapper/control}

9 candidates; each line that begins with '-' is an
entry for match. Facts of a device: genericdp explain, or -o json here.
"""


@pytest.fixture
def can(tmp_path: Path) -> Path:
    """A CAN adapter, three devices of one kind without hardware, and a file of unknown make."""
    folder = tmp_path / "can"
    loading.build(loading.path_of("can"), folder)
    tree = Tree(folder)
    for number in range(3):
        tree.node(f"loop{number}", f"7:{number}", at="virtual/block", block=True)
        tree.link(f"sys/devices/virtual/block/loop{number}/subsystem", "../../../../class/block")
        tree.link(f"sys/class/block/loop{number}", f"../../devices/virtual/block/loop{number}")
    tree.node("mapper/control", "10:236")
    tree.remove("sys/dev/char/10:236")
    tree.write("sys/dev/char/10:236/uevent", "MAJOR=10\nMINOR=236\nDEVNAME=mapper/control\n")
    return folder


def test_all_is_a_catalogue_of_what_a_config_could_name(
    can: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["discover", "--all", "--root", str(can)]) == 0
    assert capsys.readouterr().out == ALL


def test_all_as_json_has_every_candidate_with_all_of_its_facts(
    can: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["discover", "--all", "--root", str(can), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["candidates"]
    paths = [one["path"] for one in found]
    assert len(paths) == 9
    assert [path for path in paths if "loop" in path] == [f"/dev/loop{i}" for i in range(3)]
    (adapter,) = (one for one in found if one["name"] == "can0")
    assert adapter["net"] == {"name": "can0", "linkType": "can", "driver": "gs_usb"}
    assert adapter["usb"]["port"] == "1-3"
    assert adapter["properties"]["ID_BUS"] == "usb"
    assert (adapter["deviceFile"], adapter["tags"]) == (False, ["systemd"])
    assert adapter["selector"].startswith("{net: {linkType: can}")


def test_without_all_a_config_is_needed(
    can: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GENERICDP_CONFIG", raising=False)
    assert main(["discover", "--root", str(can)]) == 2
    said = "genericdp: the following arguments are required: --config\n"
    assert capsys.readouterr().err == said


def test_this_very_machine_has_a_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["discover", "--all"]) == 0
    assert "/dev/null" in capsys.readouterr().out


def test_the_fixture_is_the_laptop(tmp_path: Path) -> None:
    assert isinstance(laptop(tmp_path), Tree)
    assert (LAPTOP / "dev/fuse").is_file()
