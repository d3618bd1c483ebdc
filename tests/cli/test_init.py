from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from genericdp.cli import main
from genericdp.cli.recognising import RECOGNISERS
from genericdp.cli.starting import config_of
from genericdp.config.load import load
from genericdp.config.loaded import STDIN
from tests.fixtures.make_tree import Tree
from tests.hosts.hosts import FOLDER
from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MACHINES = [*map(loading.path_of, loading.NAMES), *sorted(FOLDER.glob("*/machine*.umockdev"))]
ROWS = {row.name: row for row in RECOGNISERS}


def json_of(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main([*argv, "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def offered(capsys: pytest.CaptureFixture[str], config: Path, root: Path) -> dict[str, list[str]]:
    """Give the ids of what is Healthy, by resource."""
    found = json_of(capsys, "discover", "--config", str(config), "--root", str(root))
    return {
        name: [one["id"] for one in offer["devices"] if one["state"] == "Healthy"]
        for name, offer in found["resources"].items()
    }


@pytest.mark.parametrize("machine", MACHINES, ids=lambda one: f"{one.parent.name}-{one.stem}")
def test_the_config_is_valid_and_offers_what_it_says(
    machine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, config = tmp_path / "machine", tmp_path / "config.yaml"
    loading.build(machine, root)
    told = json_of(capsys, "init", str(config), "--root", str(root))
    assert config.read_text() == told["config"]
    assert main(["validate", str(config)]) == 0
    assert capsys.readouterr().out == f"1 file, {max(1, len(plain(told)))} {noun(told)}: valid\n"
    found = offered(capsys, config, root)
    assert {name: ids for name, ids in found.items() if ids} == plain(told)
    # What is left out on purpose would do what its comment says, too.
    left = {str(one["name"]): one["devices"] for one in told["resources"] if one["leftOut"]}
    config.write_bytes(config_of([row for row in RECOGNISERS if row.name in {*plain(told), *left}]))
    if left:
        assert offered(capsys, config, root) == {**plain(told), **left}
        assert all(f"  # - name: {name}\n" in told["config"] for name in left)


def plain(told: dict[str, Any]) -> dict[str, list[str]]:
    return {one["name"]: one["devices"] for one in told["resources"] if not one["leftOut"]}


def noun(told: dict[str, Any]) -> str:
    return "resource" if len(plain(told)) < 2 else "resources"


def test_all_rows_together_are_a_config_that_nothing_is_to_be_said_of() -> None:
    assert len(ROWS) == len(RECOGNISERS)
    loaded = load([STDIN], stdin=config_of(RECOGNISERS))
    assert loaded.problems == ()
    assert loaded.warnings == ()
    assert [one.name for one in loaded.resources] == list(ROWS)


def test_a_stick_is_called_by_its_name_with_the_way_to_it(
    testbed: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--root", str(testbed("serial-adapters"))]) == 0
    printed = capsys.readouterr().out
    assert "  # Now: 4 devices.\n" in printed
    assert "  #   1-1.4:1.0-tty  /dev/ttyUSB3  USB Serial (usb 1a86:7523)\n" in printed
    assert "limits: {example.com/serial: 1}" in printed


def test_other_hardware_is_told_with_a_selector_that_takes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = Tree(tmp_path / "machine")
    usb = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-7"
    numbers = "MAJOR=189\nMINOR=6\nDEVNAME=bus/usb/001/007\n"
    tree.write(f"{usb}/uevent", f"{numbers}DEVTYPE=usb_device\n")
    for name, text in {"idVendor": "0bda", "idProduct": "2838", "product": "RTL2838UHIDIR"}.items():
        tree.write(f"{usb}/{name}", f"{text}\n")
    tree.link(f"{usb}/subsystem", "../../../../../bus/usb")
    tree.link("sys/bus/usb/devices/1-7", f"../../../../{usb}")
    tree.link("sys/dev/char/189:6", f"../../../{usb}")
    tree.write("dev/bus/usb/001/007", "")
    assert main(["init", "--root", str(tree.folder)]) == 0
    printed = capsys.readouterr().out
    line = next(one for one in printed.splitlines() if "0bda" in one)
    assert line.startswith('  # - {usb: {vendor: "0bda", product: "2838"}}  # ')
    assert "(usb 0bda:2838)" in line
    config = tmp_path / "config.yaml"
    selector = line.removeprefix("  # ").partition("  #")[0]
    config.write_text(
        "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
        f"  - name: example.com/sdr\n    match:\n      {selector}\n"
    )
    assert offered(capsys, config, tree.folder) == {"example.com/sdr": ["1-7"]}


def test_an_empty_machine_gets_a_template_that_is_valid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    root = Tree(tmp_path / "machine").folder
    assert main(["init", str(config), "--root", str(root)]) == 0
    assert "Nothing of this machine is recognised" in config.read_text()
    assert main(["validate", str(config)]) == 0
    capsys.readouterr()
    assert offered(capsys, config, root) == {"example.com/my-device": []}


def test_no_file_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, root = tmp_path / "config.yaml", Tree(tmp_path / "machine").folder
    config.write_text("mine")
    assert main(["init", str(config), "--root", str(root)]) == 2
    assert "is there already: it is not overwritten" in capsys.readouterr().err
    assert config.read_text() == "mine"


def test_names_that_cannot_be_printed_stay_comments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = Tree(tmp_path / "machine")
    usb = "devices/pci0000:00/0000:00:14.0/usb1/1-7"
    tree.write(f"sys/{usb}/uevent", "DEVTYPE=usb_device\n")
    tree.write(f"sys/{usb}/product", "Stick\n  - name: evil.com/x\n    match: [{path: /dev/mem}]\n")
    for name, text in {"idVendor": "0bda", "idProduct": "2838"}.items():
        tree.write(f"sys/{usb}/{name}", f"{text}\n")
    tree.link(f"sys/{usb}/subsystem", "../../../../../bus/usb")
    tree.link("sys/bus/usb/devices/1-7", f"../../../{usb}")
    tree.node("ttyUSB0", "188:0", at=f"{usb.removeprefix('devices/')}/1-7:1.0/tty")
    tree.link(f"sys/{usb}/1-7:1.0/tty/ttyUSB0/subsystem", "../../../../../../../../class/tty")
    tree.link("sys/class/tty/ttyUSB0", f"../../{usb}/1-7:1.0/tty/ttyUSB0")
    told = json_of(capsys, "init", "--root", str(tree.folder))
    assert list(plain(told)) == ["example.com/serial"]
    loaded = load([STDIN], stdin=told["config"].encode())
    assert [one.name for one in loaded.resources] == ["example.com/serial"]


def test_a_virtual_function_goes_to_one_pod_with_all_that_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "machine"
    loading.build(FOLDER / "sriov-vf/machine.umockdev", root)
    found = plain(json_of(capsys, "init", "--root", str(root)))
    functions = [*found["example.com/vf-net"], *found["example.com/vf-vfio"]]
    assert len(functions) > 3
    assert not [one for one in found["example.com/rdma"] if one.startswith(tuple(functions))]


def test_no_row_speaks_of_another_one_by_where_it_stands() -> None:
    told = {row.name: row.about for row in RECOGNISERS}
    assert not [name for name, about in told.items() if re.search(r"\b(above|below)\b", about)]


def test_its_commands_are_about_the_same_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Tree(tmp_path / "a machine").folder
    assert main(["init", "--root", str(root)]) == 0
    told = capsys.readouterr().out
    assert f"genericdp discover --config FILE --root '{root}'    what it offers" in told
    assert f"genericdp simulate --config FILE --root '{root}'    what a node" in told
    assert told.endswith(f": genericdp discover --all --root '{root}'\n")
    assert main(["init", str(tmp_path / "c.yaml"), "--root", str(root)]) == 0
    assert capsys.readouterr().out.endswith(f"c.yaml --root '{root}'\n")
