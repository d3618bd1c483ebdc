"""``genericdp init``: the packaged examples that find something, as one config."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from genericdp.cli import main
from genericdp.config.files import STDIN
from genericdp.config.load import load

from tests.cases.machine import Machine
from tests.fixtures.make_tree import Tree
from tests.hosts.hosts import DIRECTORY, EXAMPLES, Host
from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ORDER = (EXAMPLES.parent / "init-order.txt").read_text()
LINES = [line.partition("#")[0].split() for line in ORDER.splitlines()]
TRIED = {line[0]: line[1:] for line in LINES if line}
MACHINES = [
    *map(loading.path_of, loading.NAMES),
    *(
        machine
        for machine in sorted(DIRECTORY.glob("*/machine*.umockdev"))
        if f"{machine.parent.name}.yaml" not in TRIED
    ),
]
"""The others have a test next to them, in tests/hosts."""


def json_of(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main([*argv, "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def ids_of(resource: dict[str, Any]) -> list[str]:
    """Return the ids of what is healthy, were all probes passed."""
    return [device["id"] for device in resource["devices"] if device["state"] != "Unhealthy"]


def offered(capsys: pytest.CaptureFixture[str], config: Path, root: Path) -> dict[str, list[str]]:
    """Return the ids of what is healthy, by resource, were all probes passed."""
    found = json_of(capsys, "discover", "--config", str(config), "--root", str(root))
    return {resource["name"]: ids_of(resource) for resource in found["resources"]}


def written(capsys: pytest.CaptureFixture[str], config: Path, root: Path) -> dict[str, list[str]]:
    """Write a config, which is valid and offers what it says; give that."""
    printed = json_of(capsys, "init", str(config), "--root", str(root))
    assert config.read_text() == printed["config"]
    assert main(["validate", "--strict", str(config)]) == 0
    capsys.readouterr()
    found = offered(capsys, config, root)
    listed = {resource["name"]: ids_of(resource) for resource in printed["resources"]}
    assert {name: ids for name, ids in found.items() if ids} == listed
    assert all(listed.values())
    # What one resource has, no other one has.
    assert len(found) == max(1, len(listed))
    return found


@pytest.mark.parametrize("machine", MACHINES, ids=lambda entry: f"{entry.parent.name}-{entry.stem}")
def test_the_config_is_valid_and_offers_what_it_says(
    machine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "machine"
    loading.build(machine, root)
    written(capsys, tmp_path / "config.yaml", root)


def test_each_example_is_in_the_order_or_there_is_a_reason() -> None:
    names = {path.name for path in EXAMPLES.glob("*.yaml")}
    assert TRIED.keys() <= names
    assert [name for name in names if name not in ORDER] == []


@pytest.mark.parametrize("name", TRIED)
def test_each_resource_of_an_example_is_valid_without_the_others(name: str) -> None:
    """``init`` cuts an example at its resources: an anchor of one must not be used by another."""
    text = (EXAMPLES / name).read_text()
    head, _, body = text.partition("\nresources:\n")
    resources = [resource.name for resource in load([EXAMPLES / name]).resources]
    assert set(TRIED[name]) <= set(resources)
    starts = [hit.start() for hit in re.finditer(r"(?m)^  - name: ", body)]
    for start, end in zip(starts, [*starts[1:], len(body)], strict=True):
        alone = f"{head}\nresources:\n{body[start:end]}"
        assert load([STDIN], pipes={STDIN: alone.encode()}).problems == ()


def test_the_text_is_that_of_the_examples_with_what_they_find(
    testbed: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--root", str(testbed("serial-adapters"))]) == 0
    printed = capsys.readouterr().out
    assert "# serial.yaml\n#\n# Serial adapters on USB, of any make" in printed
    assert "  # Now: 4 devices, 4 shares.\n" in printed
    assert re.search(r"  #   1-1\.4:1\.0-tty  /dev/\S+  USB_Serial  ch341-uart\n", printed)
    assert "        # In the container the adapters are /dev/serial0" in printed
    assert "limits: {example.com/serial: 1}" in printed
    assert "example.com/video" not in printed


def test_what_one_example_takes_the_next_does_not_offer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = json_of(capsys, "init", "--root", str(Host("zigbee").build(tmp_path)))["resources"]
    ids = {resource["name"]: ids_of(resource) for resource in printed}
    examples = {resource["name"]: resource["example"] for resource in printed}
    assert examples["example.com/zigbee"] == "zigbee.yaml"
    assert not {*ids["example.com/zigbee"]} & {*ids.get("example.com/serial", [])}


def test_a_virtual_function_goes_to_one_pod_with_all_that_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = json_of(capsys, "init", "--root", str(Host("sriov-vf").build(tmp_path)))["resources"]
    ids = [device_id for resource in printed for device_id in ids_of(resource)]
    assert [resource["example"] for resource in printed].count("sriov-vf.yaml") > 1
    assert len(ids) == len({re.sub(r"-.*", "", device_id) for device_id in ids})


def test_no_probe_and_no_hook_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The generator's programs would be started: on the real machine, whose devices it has."""
    Tree(tmp_path).node("qrandom0", "240:0")
    (printed,) = json_of(capsys, "init", "--root", str(tmp_path))["resources"]
    assert (printed["name"], ids_of(printed)) == ("example.com/qrng", ["qrandom0"])
    assert capsys.readouterr().err == ""


def test_an_id_that_can_change_at_boot_is_told_with_what_to_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = tmp_path / "machine.yaml"
    machine.write_text(NPU)
    Machine(machine, tmp_path / "root")
    assert main(["init", "--root", str(tmp_path / "root")]) == 0
    printed = capsys.readouterr()
    why = "npu.1.auto is numbered in the order of discovery"
    boot = f"npu.1.auto-drm is only as stable as the kernel's name, which can change at boot: {why}"
    assert f"  # The ID {boot}: write id: " in printed.out
    assert printed.err.startswith(f"warning: example.com/rockchip-npu: the ID {boot}")


NPU = """\
devices:
  /platform/npu.1.auto: {subsystem: platform, driver: RKNPU}
  /platform/npu.1.auto/drm/card0: {subsystem: drm, node: 226:0 dri/card0}
"""
STICK = r"""
devices:
  /pci0000:00/0000:00:14.0/usb1/1-7:
    subsystem: usb
    DEVTYPE: usb_device
    product: "Stick\n  - name: evil.com/x\n    match: [{path: /dev/mem}]"
    idVendor: 0bda
    idProduct: 2838
    /1-7:1.0/tty/ttyUSB0: {subsystem: tty, node: 188:0}
"""


def test_names_that_cannot_be_printed_stay_comments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = tmp_path / "machine.yaml"
    machine.write_text(STICK)
    Machine(machine, tmp_path / "root")
    printed = json_of(capsys, "init", "--root", str(tmp_path / "root"))
    assert [resource["name"] for resource in printed["resources"]] == ["example.com/serial"]
    loaded = load([STDIN], pipes={STDIN: printed["config"].encode()})
    assert [resource.name for resource in loaded.resources] == ["example.com/serial"]


def test_its_commands_are_about_the_same_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Tree(tmp_path / "a machine").directory
    assert main(["init", "--root", str(root)]) == 0
    reported = capsys.readouterr().out
    assert f"genericdp discover FILE --root '{root}'    what it offers" in reported
    assert f"genericdp simulate FILE --root '{root}'    what a node" in reported
    assert "No example finds anything here" in reported
    assert reported.endswith(f": genericdp hardware --root '{root}'\n")
