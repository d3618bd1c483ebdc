"""What finds nothing is told: a slip of the pen must not look like a machine without hardware."""

from __future__ import annotations

import errno
import json
import os
import re
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.cli.explain_output import HEAD
from tests.printed import resources_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CAM = '  - name: example.com/cam\n    match: [{usb: {vendor: "046e"}}]\n'
WHERE = (
    "  (genericdp hardware --root ROOT tells what there is,"
    " genericdp explain FILE DEVICE --root ROOT why it is not taken)"
)


@pytest.fixture
def webcam(testbed: Callable[[str], Path]) -> Path:
    return testbed("webcam")


@pytest.fixture
def run(
    tmp_path: Path, webcam: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    def run(resources: str, *command: str) -> tuple[int, str, str]:
        config = tmp_path / "config.yaml"
        config.write_text(HEAD + resources)
        code = main([*command, "--config", str(config), "--root", str(webcam)])
        out, err = capsys.readouterr()
        return code, out.replace(str(webcam), "ROOT"), err

    return run


@pytest.mark.parametrize(
    ("match", "text", "cause", "near"),
    [
        (
            'usb: {vendor: "046e"}',
            'usb: {vendor: "046e"}',
            "not_matched",
            "/dev/bus/usb/001/004: wants usb.vendor 046e, found 046d",
        ),
        ("udev: {subsystem: vide4linux}", "udev: {subsystem: vide4linux}", "nothing_found", ""),
        (
            'pci: {vendor: "1003"}',
            'pci: {vendor: "1003"}',
            "not_matched",
            "the PCI function 0000:00:14.0: wants pci.vendor 1003, found 8086",
        ),
        ("net: {name: eht0}", "net: {name: eht0}", "nothing_found", ""),
        (
            'path: "/dev/video*", hardware: {usb: {vendor: "046e"}}',
            'path: /dev/video*, hardware: {usb: {vendor: "046e"}}',
            "not_matched",
            "/dev/video0: wants hardware.usb.vendor 046e, found 046d",
        ),
        (
            'usb: {vendor: "046d"}, values: {model: x}',
            'usb: {vendor: "046d"}, values: {model: x}',
            "value_missing",
            "/dev/bus/usb/001/004: wants values.model x, but the value 'model': "
            "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-8/model: it does not exist",
        ),
    ],
)
def test_a_selector_that_takes_nothing_is_listed_in_words(
    run: Callable[..., tuple[int, str, str]], match: str, text: str, cause: str, near: str
) -> None:
    resources = f"  - name: example.com/x\n    match: [{{{match}}}]\n"
    resources += '    values: {model: {file: "$(device.syspath)/model"}}\n'
    resources += "    inject: {env: {A: b}}\n"
    code, out, _ = run(resources, "discover")
    hint = f" (nearest: {near})" if near else ""
    assert code == 0
    _, _, nothing = out.partition("\nNothing found:\n")
    assert nothing.splitlines() == [f"  example.com/x: {text}{hint}", WHERE]
    _, json_, _ = run(resources, "discover", "-o", "json")
    found = resources_in(json_)["example.com/x"]
    assert (found["emptyCause"], found["nothingFound"]) == (cause, [text])
    assert found["nearest"] == ({text: f"nearest: {near}"} if near else {})
    # Where no section tells the cause, there is one for it.
    listed = f"Without devices:\n  example.com/x: {found['empty']}" in out
    assert listed == (cause != "nothing_found")


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("/dev/vidoe0", " (there is /dev/video0 and /dev/video1)"),
        ("/dev/video[5-9]", " (there is /dev/video0 and /dev/video1)"),
        ("/dev/serial/by-id/*", " (there is no /dev/serial)"),
        ("/dev/{kvm,fuse}", " (braces are no alternatives: write a list of globs)"),
        ("/dev/xyzzy", ""),
    ],
)
def test_a_glob_that_finds_nothing_says_what_is_there_instead(
    run: Callable[..., tuple[int, str, str]], pattern: str, hint: str
) -> None:
    resources = f"  - name: example.com/x\n    match: [{{path: '{pattern}'}}]\n"
    _, out, _ = run(resources, "discover")
    assert out.splitlines()[2:] == ["Nothing found:", f"  example.com/x: {pattern}{hint}"]


def test_a_subsystem_that_an_entry_of_match_asks_for_is_told(
    run: Callable[..., tuple[int, str, str]],
) -> None:
    resources = "  - name: example.com/x\n    match:\n      - udev: {subsystem: video4linux}\n"
    resources += "        inject: {devices: [{subsystem: meida, optional: true}]}\n"
    _, out, _ = run(resources, "discover")
    assert "example.com/x: inject.devices: {subsystem: meida}" in out


def test_json_lists_it_too(run: Callable[..., tuple[int, str, str]]) -> None:
    _, out, _ = run(CAM, "discover", "-o", "json")
    found = resources_in(out)["example.com/cam"]
    assert found["nothingFound"] == ['usb: {vendor: "046e"}']


def test_a_subsystem_to_inject_that_nobody_knows_is_listed(
    run: Callable[..., tuple[int, str, str]],
) -> None:
    resources = '  - name: example.com/cam\n    match: [{usb: {vendor: "046d"}}]\n'
    resources += "    inject: {devices: [{subsystem: vide4linux, optional: true}]}\n"
    _, out, _ = run(resources, "discover")
    assert "  example.com/cam: inject.devices: {subsystem: vide4linux}" in out.splitlines()


def test_allocate_says_why_there_are_not_enough(
    run: Callable[..., tuple[int, str, str]],
) -> None:
    code, _, err = run(CAM, "allocate", "example.com/cam=1")
    assert code == 1
    assert re.fullmatch(
        r"genericdp: example.com/cam: 1 wanted, 0 healthy\n"
        r'  no devices: nothing on this node matches match\[0\] {usb: {vendor: "046e"}} \(.*:5\):'
        r" 2 USB devices, none fits: wants usb.vendor 046e, found 1d6b, 046d\n",
        err,
    )
    excluded = "  - name: example.com/cam\n    match: [{path: /dev/video0}]\n"
    excluded += '    exclude: [{path: "/dev/video*"}]\n'
    _, _, err = run(excluded, "allocate", "example.com/cam=1")
    assert "\n  not offered: /dev/video0: excluded by the config\n" in err
    assert (
        "\n  no devices: all that is matched is excluded by exclude[0] {path: /dev/video*} (" in err
    )
    lacking = "  - name: example.com/cam\n    match: [{path: /dev/video0}]\n"
    lacking += "    inject: {devices: [{path: /dev/none}]}\n"
    _, _, err = run(lacking, "allocate", "example.com/cam=1")
    assert "\n  1-8:1.0-video4linux is Unhealthy: /dev/none does not exist\n" in err


def test_an_attribute_that_cannot_be_read_is_told(
    run: Callable[..., tuple[int, str, str]], webcam: Path
) -> None:
    (vendor,) = webcam.glob("sys/devices/pci*/*/usb1/1-8/idVendor")
    vendor.unlink()
    vendor.mkdir()  # as good as a lacking permission, for root too
    _, out, _ = run(CAM.replace("046e", "046d"), "discover")
    file = vendor.relative_to(webcam)
    assert f'  example.com/cam: usb: {{vendor: "046d"}} (/{file} cannot be read: ' in out


@pytest.mark.parametrize("folder", ["dev", "sys", "sys/devices"])
def test_a_folder_that_cannot_be_read_is_not_an_empty_machine(
    run: Callable[..., tuple[int, str, str]], webcam: Path, folder: str
) -> None:
    (webcam / folder).rename(webcam / "elsewhere")
    (webcam / folder).symlink_to(webcam / folder)  # as good as a lacking permission, for root too
    code, out, err = run(CAM, "discover")
    loop = os.strerror(errno.ELOOP).lower()
    assert (code, out) == (2, "")
    assert err == f"genericdp: {webcam / folder} cannot be read: {loop}\n"


@pytest.mark.parametrize("folder", ["sys", "sys/devices"])
def test_a_machine_without_sysfs_is_told_once(
    run: Callable[..., tuple[int, str, str]], webcam: Path, folder: str
) -> None:
    (webcam / folder).rename(webcam / "elsewhere")
    resources = "  - name: example.com/x\n    match: [{path: /dev/none}]\n"
    code, _, err = run(resources, "discover")
    assert code == 0
    assert err == (
        f"warning: {webcam}/sys/devices is missing: only path selectors can find anything, and"
        " hardware is unknown\n"
    )


def test_explain_says_why_a_resource_has_no_devices(
    run: Callable[..., tuple[int, str, str]],
) -> None:
    _, out, _ = run(CAM, "explain", "/dev/video0")
    assert (
        '\n  it has no devices: nothing on this node matches match[0] {usb: {vendor: "046e"}} ('
        in out
    )
    _, out, _ = run(CAM, "explain", "/dev/video0", "-o", "json")
    (found,) = json.loads(out)["resources"]
    assert found["emptyCause"] == "not_matched"
    assert found["empty"].endswith(
        "2 USB devices, none fits: wants usb.vendor 046e, found 1d6b, 046d"
    )
    _, out, _ = run(CAM.replace("046e", "046d"), "explain", "/dev/video0", "-o", "json")
    (found,) = json.loads(out)["resources"]
    assert (found["empty"], found["emptyCause"]) == ("", "")


def test_simulate_says_why_a_resource_has_no_devices(
    run: Callable[..., tuple[int, str, str]],
) -> None:
    _, out, _ = run(CAM, "simulate", "--once")
    _, _, below = out.partition("No devices:\n")
    assert below.startswith("  example.com/cam: nothing on this node matches match[0] {usb: ")
    _, out, _ = run(CAM, "simulate", "--once", "-o", "json")
    assert "none fits: wants usb.vendor 046e" in resources_in(out)["example.com/cam"]["empty"]
