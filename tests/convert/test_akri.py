"""akri: what its documentation says is offered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.convert.offering import DIRECTORY, golden_of, offers, offers_of, problems_of, prose_of
from tests.convert.offering import text_of as converted_text
from tests.testbeds.loading import path_of

if TYPE_CHECKING:
    from pathlib import Path


def configuration(*rules: str, **details: object) -> str:
    """Make a Configuration of udev rules."""
    wanted = json.dumps({"udevRules": rules, **details})
    handler = {"name": "udev", "discoveryDetails": wanted}
    spec = {"discoveryHandler": handler, "capacity": 1}
    head = {"apiVersion": "akri.sh/v0", "kind": "Configuration", "metadata": {"name": "c"}}
    return json.dumps({**head, "spec": spec})


def test_its_example_offers_the_same_cameras(tmp_path: Path) -> None:
    golden = golden_of(DIRECTORY / "peers/akri/video.yaml").read_text()
    offered = offers(golden, path_of("webcam"), tmp_path)
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
        # D11: akri takes one of the properties as enough.
        (
            ['ENV{ID_VENDOR_ID}=="0403", ENV{ID_MODEL_ID}=="6015"'],
            ["bus/usb/001/005", "ttyUSB2"],
        ),
    ],
)
def test_a_rule_offers_what_udevs_manual_says(
    rules: list[str], nodes: list[str], tmp_path: Path
) -> None:
    config = configuration(*rules)
    offered = offers_of("akri", config, path_of("serial-adapters"), tmp_path)
    assert offered == ({"akri.sh/c": [[f"/dev/{node}"] for node in nodes]} if nodes else {})


def test_not_takes_a_glob(tmp_path: Path) -> None:
    """D12: ``KERNEL!="ttyUSB*"`` leaves them in at akri."""
    rule = 'SUBSYSTEM=="video4linux", KERNEL!="video1*"'
    offered = offers_of("akri", configuration(rule), path_of("webcam"), tmp_path)
    assert offered == {"akri.sh/c": [["/dev/video0"]]}


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (['ENV{A}=="1", ENV{B}=="2"'], "For akri one of several ENV conditions is enough"),
        (
            ['SUBSYSTEM=="a"', 'SUBSYSTEM=="a", KERNEL!="b"'],
            'udevRule: SUBSYSTEM=="a" udevRule: SUBSYSTEM=="a", KERNEL',
        ),
        (['SUBSYSTEM=="tty", ENV{A}!="1"', 'KERNEL=="b"'], "excludes also what other rules match"),
        (['KERNEL=="a"'], "UDEV_DEVPATH: $(value.devpath)"),
        (['KERNEL=="a"'], "{path: $(device.path), permissions: rwm}"),
    ],
)
def test_what_is_not_the_same_has_a_comment(rules: list[str], said: str) -> None:
    assert said in prose_of("akri", configuration(*rules))


@pytest.mark.parametrize(
    "rule",
    [
        'KERNEL=="video0", MODE="0666"',
        'NAME=="x"',
        'KERNEL=="a", KERNEL=="b"',
        'ENV{X}=="a", ENV{X}!=""',
        'ENV{X}==""',
        'KERNEL=="[a"',
        'ATTR=="x"',
        'KERNEL{x}=="x"',
        'KERNEL=="a|"',
        'KERNEL=="a" SUBSYSTEM=="b"',
        'TAG=="a*b"',
        "KERNEL",
    ],
)
def test_a_rule_that_cannot_be_the_same_is_a_comment(rule: str) -> None:
    text = converted_text("akri", configuration(rule, 'KERNEL=="fuse"'))
    assert f"# Not converted, the rule {rule}" in text
    assert text.count("- udev:") == 1


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (configuration('KERNEL=="fuse"', groupRecursive=True), "groupRecursive makes one device"),
        (configuration('KERNEL=="fuse"', groupRecursive=True), "- udev: {name: fuse}"),
        (configuration().replace('"udev"', '"onvif"'), "finds devices on the network"),
        (configuration('KERNEL=="a"', permissions="x"), "letters of rwm"),
        (configuration(""), "expected a string"),
        (configuration(*(f'KERNEL=="a{i}"' for i in range(257))), "at most 256 are allowed"),
        (configuration().replace("akri.sh", "example.com"), "has no config of akri"),
        (configuration().replace('"c"', '"a b"'), "cannot be the name of a resource"),
        ("{udev: {configuration: {discoveryDetails: text}}}", "expected a mapping with udevRules"),
        ("{a: b}", "not a config of akri: discoveryDetails is missing"),
        (configuration().replace("discoveryHandler", "x"), "discoveryHandler is missing"),
        (f"{configuration()}\n---\n{configuration()}", "is defined twice"),
        ("{udev: {configuration: {enabled: false}}}", "enabled is false"),
        ("{udev: {configuration: {enabled: {}}}}", "expected a string"),
        ("{udev: {configuration: {enabled: maybe}}}", "expected true or false"),
        ("{udev: {configuration: {brokerProperties: {1a: b}}}}", "environment variable"),
        (
            configuration('SUBSYSTEM=="usb"').replace(
                '"name": "udev"', '"name": "udev", "discoveryProperties": [{"name": "%s"}]'
            )
            % "devicePluginResourceName",
            "'' is not the name of a resource",
        ),
    ],
)
def test_mistakes_are_told(config: str, said: str) -> None:
    assert any(said in problem for problem in problems_of("akri", config))
