"""akri: what its documentation says is offered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from genericdp.converting.conversion import convert
from tests.converting.offering import (
    INPUTS,
    golden_of,
    inputs_of,
    offers,
    offers_of,
    problems_of,
    prose_of,
    text_of,
)
from tests.testbeds.loading import path_of

if TYPE_CHECKING:
    from pathlib import Path

PUBLISHED = INPUTS / "akri"


def configuration(*rules: str, **details: object) -> str:
    """Make a Configuration of udev rules."""
    wanted = json.dumps({"udevRules": rules, **details})
    handler = {"name": "udev", "discoveryDetails": wanted}
    spec = {"discoveryHandler": handler, "capacity": 1}
    head = {"apiVersion": "akri.sh/v0", "kind": "Configuration", "metadata": {"name": "c"}}
    return json.dumps({**head, "spec": spec})


@pytest.mark.parametrize("config", inputs_of("akri"), ids=lambda path: path.stem)
def test_what_akri_has_published_becomes_this(config: Path) -> None:
    assert convert("akri", str(config), config.read_bytes()).text == golden_of(config).read_text()


def test_its_example_offers_the_same_cameras(tmp_path: Path) -> None:
    offered = offers(golden_of(PUBLISHED / "video.yaml"), path_of("webcam"), tmp_path)
    assert offered == {"akri.sh/akri-udev-video": [["/dev/video0"], ["/dev/video1"]]}


@pytest.mark.parametrize(
    ("rules", "nodes"),
    [
        (['KERNEL=="ttyUSB[0-9]*"'], ["ttyUSB0", "ttyUSB1", "ttyUSB2", "ttyUSB3"]),
        (['KERNEL=="ttyUSB0|ttyUSB3"'], ["ttyUSB0", "ttyUSB3"]),
        (['SUBSYSTEM=="tty", ATTRS{idProduct}=="6015"'], ["ttyUSB2"]),
        (['SUBSYSTEM=="tty", DRIVERS=="ch341"'], ["ttyUSB3"]),
        (['SUBSYSTEM=="tty", DRIVER=="ch341"'], []),
        (['SUBSYSTEM=="tty", KERNELS=="1-1.1"'], ["ttyUSB0"]),
        (
            ['SUBSYSTEM=="tty", TAG=="systemd", SUBSYSTEMS=="usb", KERNEL!="ttyUSB[12]"'],
            ["ttyUSB0", "ttyUSB3"],
        ),
        (['SUBSYSTEM=="tty", DEVPATH=="*/1-1.2:1.0/*"'], ["ttyUSB1"]),
        (['SUBSYSTEM=="tty", ATTRS{idVendor}!="0403"'], ["ttyUSB3"]),
        (['KERNEL=="ttyUSB0"', 'KERNEL=="ttyUSB1"'], ["ttyUSB0", "ttyUSB1"]),
    ],
)
def test_a_rule_offers_what_udevs_manual_says(
    rules: list[str], nodes: list[str], tmp_path: Path
) -> None:
    config = configuration(*rules)
    offered = offers_of("akri", config, path_of("serial-adapters"), tmp_path)
    assert offered == ({"akri.sh/c": [[f"/dev/{node}"] for node in nodes]} if nodes else {})


def test_all_properties_must_hold(tmp_path: Path) -> None:
    """D11: akri takes one of them as enough; a selector for each of them brings that back."""
    rule = 'ENV{ID_VENDOR_ID}=="0403", ENV{ID_MODEL_ID}=="6015"'
    text = prose_of("akri", configuration(rule))
    assert "for which one of them is enough" in text
    offered = offers_of("akri", configuration(rule), path_of("serial-adapters"), tmp_path)
    assert offered == {"akri.sh/c": [["/dev/bus/usb/001/005"], ["/dev/ttyUSB2"]]}


def test_not_takes_a_glob(tmp_path: Path) -> None:
    """D12: ``KERNEL!="ttyUSB*"`` leaves them in at akri; so does a regex in ``exclude``."""
    rule = 'SUBSYSTEM=="video4linux", KERNEL!="video1*"'
    assert "it takes a regular expression" in prose_of("akri", configuration(rule))
    offered = offers_of("akri", configuration(rule), path_of("webcam"), tmp_path)
    assert offered == {"akri.sh/c": [["/dev/video0"]]}


@pytest.mark.parametrize(
    "rule",
    [
        'KERNEL=="video0", MODE="0666"',
        'NAME=="x"',
        'KERNEL=="a", KERNEL=="b"',
        'ENV{X}==""',
        'KERNEL=="[a"',
        'ATTR=="x"',
        'KERNEL{x}=="x"',
        'TAG=="a*b"',
        "KERNEL",
        "",
    ],
)
def test_a_rule_that_cannot_be_the_same_is_withheld(rule: str) -> None:
    text = text_of("akri", configuration(rule, 'KERNEL=="fuse"'))
    assert f"# Not converted, the rule {rule}".rstrip() in text
    assert text.count("- udev:") == 1


def test_not_of_one_rule_says_that_it_holds_for_all() -> None:
    others = ('SUBSYSTEM=="tty", ENV{ID_VENDOR_ID}=="0403"', 'SUBSYSTEM=="tty"')
    first = 'SUBSYSTEM=="tty", ENV{ID_MODEL_ID}!="6001"'
    for other in others:
        for rules in ((first, other), (other, first)):
            text = prose_of("akri", configuration(*rules))
            assert text.count("It holds for all rules") == 1
    assert "It holds for all rules" not in prose_of("akri", configuration(first))


def test_grouping_is_only_a_comment() -> None:
    problem = problems_of("akri", configuration('KERNEL=="fuse"', groupRecursive=True))[0]
    assert "groupRecursive makes one device" in problem
    assert "- udev: {name: fuse}" in problem


def test_handlers_of_the_network_say_why() -> None:
    config = configuration().replace('"udev"', '"onvif"')
    assert "finds devices on the network" in problems_of("akri", config)[0]
