"""``$(device.share)``: what tells the shares of one device apart in their containers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from genericdp.cli import main
from tests.cli.explain_output import HEAD
from tests.fixtures.make_tree import serial_node

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

CORES = """
  - name: example.com/cores
    match: [{path: /dev/ttyUSB0}]
    replicas: 12
    inject:
      devices: [{path: $(device.path), containerPath: "/dev/core$(device.share)"}]
      mounts: [{hostPath: "/opt/cores/$(device.share)", containerPath: "/core/$(device.share)"}]
      env: {CORE: $(device.share), PORTS: {value: "$(device.id):90$(device.share)", separator: " "}}
      annotations: {example.com/core: "n$(device.share)"}
"""
ONE_PLACE = """
  - name: example.com/cores
    match: [{path: /dev/ttyUSB0}]
    replicas: 3
    inject:
      mounts: [{hostPath: "/opt/cores/$(device.share)", containerPath: /core}]
"""


def allocated(
    folder: Path, capsys: pytest.CaptureFixture[str], config: str, *shares: str
) -> tuple[int, str]:
    """Give these shares to a container; return the exit code and what is printed."""
    file = folder / "config.yaml"
    file.write_text(f"{HEAD}{config}")
    ids = [argument for share in shares for argument in ("--id", share)]
    where = ["--root", str(serial_node(folder / "host").folder), "--config", str(file)]
    code = main(["allocate", *where, "-o", "json", *ids, f"example.com/cores={len(shares)}"])
    printed = capsys.readouterr()
    return code, printed.out or printed.err


def test_each_share_has_its_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, share in ((0, "ttyUSB0"), (3, "ttyUSB0::3"), (11, "ttyUSB0::11")):
        code, text = allocated(tmp_path, capsys, CORES, share)
        assert (code, json.loads(text)["example.com/cores"]) == (
            0,
            {
                "devices": [
                    {
                        "hostPath": "/dev/ttyUSB0",
                        "containerPath": f"/dev/core{number}",
                        "permissions": "rw",
                    }
                ],
                "mounts": [
                    {
                        "hostPath": f"/opt/cores/{number}",
                        "containerPath": f"/core/{number}",
                        "readOnly": True,
                    }
                ],
                "env": {"CORE": str(number), "PORTS": f"ttyUSB0:90{number}"},
                "annotations": {"example.com/core": f"n{number}"},
                "cdi": [],
            },
        )


def test_several_shares_of_one_device_are_joined_by_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shares = ("ttyUSB0::10", "ttyUSB0", "ttyUSB0::2")
    code, text = allocated(tmp_path, capsys, CORES, *shares)
    given = json.loads(text)["example.com/cores"]
    assert code == 0
    assert given["env"] == {
        "CORE": "0,2,10",
        "PORTS": "ttyUSB0:900 ttyUSB0:902 ttyUSB0:9010",
    }
    assert given["annotations"] == {"example.com/core": "n0,n2,n10"}
    assert [one["containerPath"] for one in given["devices"]] == [
        "/dev/core0",
        "/dev/core2",
        "/dev/core10",
    ]
    assert [one["hostPath"] for one in given["mounts"]] == [
        "/opt/cores/0",
        "/opt/cores/2",
        "/opt/cores/10",
    ]


def test_two_shares_cannot_be_at_one_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = allocated(tmp_path, capsys, ONE_PLACE, "ttyUSB0::1")
    assert code == 0
    assert json.loads(text)["example.com/cores"]["mounts"][0]["hostPath"] == "/opt/cores/1"
    code, text = allocated(tmp_path, capsys, ONE_PLACE, "ttyUSB0::1", "ttyUSB0::2")
    assert code == 1
    assert (
        "two shares of device ttyUSB0: /opt/cores/1 and /opt/cores/2 would both be '/core' in the"
        " container (put $(device.share) into containerPath)"
    ) in text


def test_without_replicas_the_only_share_is_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = CORES.replace("    replicas: 12\n", "")
    code, text = allocated(tmp_path, capsys, config, "ttyUSB0")
    assert (code, json.loads(text)["example.com/cores"]["env"]["CORE"]) == (0, "0")


def test_a_policy_looks_at_the_mount_of_each_share(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginPolicy\n"
        "devices: {paths: [/dev/ttyUSB*]}\nmounts: [{hostPath: /opt/cores/0}]\n"
    )
    file = tmp_path / "config.yaml"
    file.write_text(f"{HEAD}{ONE_PLACE}")
    where = ["--root", str(serial_node(tmp_path / "host").folder), "--config", str(file)]
    assert main(["discover", *where, "--policy", str(policy)]) == 0
    assert "/opt/cores/1 is not among the mounts that are allowed" in capsys.readouterr().out
