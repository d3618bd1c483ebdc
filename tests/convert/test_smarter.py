"""smarter-device-manager: what its documentation says is offered."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.convert.offering import DIRECTORY, golden_of, offers, offers_of, problems_of, text_of
from tests.testbeds.loading import path_of

if TYPE_CHECKING:
    from pathlib import Path

CONF = golden_of(DIRECTORY / "peers/smarter/conf.yaml").read_text()
PORTS = [[f"/dev/ttyUSB{i}"] for i in range(4)]


@pytest.mark.parametrize(
    ("machine", "offered"),
    [
        (
            "webcam",
            {
                "smarter-devices/snd": [["/dev/snd/controlC1", "/dev/snd/pcmC1D0c"]],
                "smarter-devices/video": [["/dev/video0"], ["/dev/video1"]],
            },
        ),
        ("serial-adapters", {"smarter-devices/ttyUSB": PORTS}),
    ],
)
def test_its_defaults_offer_the_same(machine: str, offered: object, tmp_path: Path) -> None:
    """By its README: each file below /dev whose name the expression finds; a directory as one."""
    assert offers(CONF, path_of(machine), tmp_path) == offered


@pytest.mark.parametrize(
    ("regex", "names"),
    [
        ("^video[0-9]+$", ["video0", "video1"]),
        ("^video0*$", ["video0"]),
        ("^(video|media)0$", ["media0", "video0"]),
        ("^media0|video1$", ["media0", "video1"]),
        (r"^snd/pcmC\d+D\d+c$", ["snd/pcmC1D0c"]),
        ("^snd/[cp].*", ["snd/controlC1", "snd/pcmC1D0c"]),
        ("pcm", ["snd/pcmC1D0c"]),
        ("^v(i|e)deo[^0]$", ["video1"]),
        ("^snd/[^b].*", ["snd/controlC1", "snd/pcmC1D0c"]),
        ("(?i)VIDEO1", ["video1"]),
        ("^video$", []),
        ("^ideo", []),
    ],
)
def test_an_expression_offers_what_it_finds(regex: str, names: list[str], tmp_path: Path) -> None:
    config = f"[{{devicematch: '{regex}', nummaxdevices: 1}}]"
    offered = offers_of("smarter", config, path_of("webcam"), tmp_path)
    nodes = sorted(node for devices in offered.values() for device in devices for node in device)
    assert nodes == [f"/dev/{name}" for name in names]


@pytest.mark.parametrize(
    ("regex", "resources"),
    [
        ("^net/tun$", ["net_tun"]),
        ("^(fuse|kvm|net/tun)$", ["fuse", "kvm", "net_tun"]),
        ("^fuse$|^kvm$", ["fuse", "kvm"]),
        ("^video[0-29]$", ["video0", "video1", "video2", "video9"]),
        (r"^a\.b$", ["a.b"]),
        ("^ttyA?$", ["tty"]),
        ("^video[0-9][0-9]$", ["video"]),
        ("^i2c-[0-9]*$", ["i2c"]),
        ("^sd[a-z]$", ["sd"]),
        ("kvm", ["kvm"]),
        (".*", ["devices"]),
    ],
)
def test_names_stay_where_the_files_are_known(regex: str, resources: list[str]) -> None:
    text = text_of("smarter", f"[{{devicematch: '{regex}', nummaxdevices: 3}}]")
    assert re.findall(r"  - name: smarter-devices/(.*)", text) == resources


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("[{devicematch: '(', nummaxdevices: 1}]", "not a regular expression of RE2"),
        ("[{devicematch: a}, {nummaxdevices: 1}]", "devicematch is missing"),
        ("[{devicematch: a, nummaxdevices: -1}]", "a whole number"),
        ("[{devicematch: a, nummaxdevices: 010}]", "a whole number"),
        ("{a: b}", "not a config of smarter-device-manager: devicematch is missing"),
        ("[{devicematch: a}, a]", "expected a mapping"),
        ("[{devicematch: ^serial$, nummaxdevices: 1}]", "a directory of symbolic links"),
        ("[{devicematch: nvidia-gpu, nummaxdevices: 1}]", "nothing in it can be converted"),
    ],
)
def test_mistakes_have_a_location(config: str, said: str) -> None:
    first = problems_of("smarter", config)[0]
    assert first.startswith("config:1:")
    assert said in first
