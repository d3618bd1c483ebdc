"""``genericdp allocate``: what a container would get, as text and JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.fixtures.make_tree import serial_node

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """\
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/serial
    match: [{path: /dev/ttyUSB*}]
    replicas: 2
    inject:
      devices:
        - {path: $(device.path), containerPath: /dev/serial$(allocation.index)}
        - {path: /dev/video0, permissions: r, optional: true}
      mounts: [{hostPath: /opt/driver, containerPath: /usr/lib/driver}]
      env: {PORT: /dev/serial$(allocation.index)}
      annotations: {example.com/serial: $(device.name)}
      cdi: [vendor.com/serial=$(device.name)]
  - name: example.com/fixed
    match: [{path: /dev/input/*}]
    inject: {devices: [{path: $(device.path), containerPath: /dev/event}]}
  - name: example.com/by-path
    match: [{path: "/dev/serial/by-path/*"}]
"""


@pytest.fixture
def argv(tmp_path: Path) -> list[str]:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    serial_node(tmp_path / "host")
    return ["allocate", "--root", str(tmp_path / "host"), "--config", str(config)]


def test_text_shows_everything_a_container_would_get(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*argv, "example.com/serial=3"]) == 0
    assert (
        capsys.readouterr().out
        == """\
example.com/serial:
  device      /dev/serial0 (rw) from /dev/ttyUSB0
  device      /dev/video0 (r) from /dev/video0
  device      /dev/serial1 (rw) from /dev/ttyUSB1
  mount       /usr/lib/driver (ro) from /opt/driver
  env         PORT=/dev/serial0,/dev/serial1
  annotation  example.com/serial=ttyUSB0,ttyUSB1
  cdi         vendor.com/serial=ttyUSB0
  cdi         vendor.com/serial=ttyUSB1
"""
    )


def test_json_says_the_same(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*argv, "example.com/serial=1", "example.com/fixed=1", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "example.com/serial": {
            "devices": [
                {
                    "hostPath": "/dev/ttyUSB0",
                    "containerPath": "/dev/serial0",
                    "permissions": "rw",
                },
                {"hostPath": "/dev/video0", "containerPath": "/dev/video0", "permissions": "r"},
            ],
            "mounts": [
                {
                    "hostPath": "/opt/driver",
                    "containerPath": "/usr/lib/driver",
                    "readOnly": True,
                }
            ],
            "env": {"PORT": "/dev/serial0"},
            "annotations": {"example.com/serial": "ttyUSB0"},
            "cdi": ["vendor.com/serial=ttyUSB0"],
        },
        "example.com/fixed": {
            "devices": [
                {
                    "hostPath": "/dev/input/event0",
                    "containerPath": "/dev/event",
                    "permissions": "rw",
                }
            ],
            "mounts": [],
            "env": {},
            "annotations": {},
            "cdi": [],
        },
    }


@pytest.mark.parametrize(
    ("prefer", "more", "names"),
    [
        ("auto", [], "ttyUSB0,ttyUSB1"),
        ("spread", [], "ttyUSB0,ttyUSB1"),
        ("packed", [], "ttyUSB0"),
        ("closest", [], "ttyUSB0"),
        ("packed", ["--id=ttyUSB1::1"], "ttyUSB1"),
        ("spread", ["--id=ttyUSB1"], "ttyUSB0,ttyUSB1"),
        ("none", [], "ttyUSB0"),
    ],
)
def test_devices_are_chosen_as_the_config_prefers(
    prefer: str,
    more: list[str],
    names: str,
    tmp_path: Path,
    argv: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.replace("replicas: 2", f"replicas: 2\n    prefer: {prefer}"))
    assert main([*argv, "example.com/serial=2", *more, "-o", "json"]) == 0
    given = json.loads(capsys.readouterr().out)["example.com/serial"]
    assert given["annotations"] == {"example.com/serial": names}


def test_a_simulated_container_gets_the_same_devices(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*argv, "example.com/serial=2", "-o", "json"]) == 0
    given = json.loads(capsys.readouterr().out)["example.com/serial"]
    simulate = ["simulate", *argv[1:], "--once", "-o", "json"]
    assert main([*simulate, "--allocate", "example.com/serial=2"]) == 0
    assert json.loads(capsys.readouterr().out)["container"] == given


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["example.com/none=1"], 2, "the config has no resource 'example.com/none' for this node"),
        (["example.com/serail=1"], 2, "for this node (did you mean example.com/serial?)"),
        (["example.com/serial=5"], 1, "example.com/serial: 5 wanted, 4 healthy"),
        (
            ["example.com/serial=1", "example.com/fixed=1", "example.com/serial=2"],
            2,
            "example.com/serial is given twice: for 3 devices write example.com/serial=3",
        ),
        (["example.com/serial=1", "--id", "x"], 2, "no device 'x' is on offer (there are: "),
        (
            ["example.com/fixed=1", "--id", "evnt10"],
            2,
            "no device 'evnt10' is on offer (did you mean event10?)",
        ),
        (
            ["example.com/fixed=1", "--id", "event10", "--id", "event10"],
            2,
            "--id event10 is given twice: name each device, or share, once",
        ),
        (
            ["example.com/serial=1", "--id", "ttyUSB0", "--id", "ttyUSB1"],
            2,
            "example.com/serial: 2 devices named by --id, but 1 asked for",
        ),
        (["example.com/fixed=2"], 1, "would both be '/dev/event' in the container"),
        (["example.com/fixed"], 2, "'example.com/fixed' is not of the form RESOURCE=N"),
        ([], 2, "the following arguments are required: RESOURCE=N"),
    ],
)
def test_what_cannot_be_is_one_line(
    argv: list[str],
    words: list[str],
    code: int,
    complaint: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """D9 among them: two devices at one path of the container."""
    assert main([*argv, *words]) == code
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert complaint in printed.err


def test_a_device_that_is_unhealthy_cannot_be_named(
    tmp_path: Path, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text(
        CONFIG.replace("path: /dev/video0, permissions: r, optional: true", "path: /dev/gone")
    )
    assert main([*argv, "example.com/serial=1", "--id", "ttyUSB0::1"]) == 1
    assert "example.com/serial: ttyUSB0::1 is Unhealthy: " in capsys.readouterr().err
