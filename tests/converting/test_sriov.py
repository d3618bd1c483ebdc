"""sriov-network-device-plugin: what its documentation says is offered."""

from __future__ import annotations

import contextlib
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from genericdp.cli import main
from genericdp.converting.conversion import convert
from tests.converting.offering import (
    FOLDER,
    converted,
    golden_of,
    inputs_of,
    problems_of,
    text_of,
)
from tests.testbeds import loading

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = FOLDER / "functions.umockdev"
Vfs = list[str]


def pool(*selectors: dict[str, Any], **more: object) -> str:
    """Make a config of one resource."""
    return json.dumps({"resourceList": [{"resourceName": "r", "selectors": selectors, **more}]})


def ids_of(config: str, tmp_path: Path) -> dict[str, Vfs]:
    """Give the addresses that each resource offers on this folder's machine."""
    root = tmp_path / "root"
    loading.build(MACHINE, root)
    file = tmp_path / "config.yaml"
    file.write_text(text_of("sriov", config))
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        assert main(["discover", "--config", str(file), "--root", str(root), "-o", "json"]) == 0
    resources = json.loads(out.getvalue())["resources"]
    return {
        name: [device["id"] for device in one["devices"]]
        for name, one in resources.items()
        if one["devices"]
    }


@pytest.mark.parametrize("config", inputs_of("sriov"), ids=lambda path: path.stem)
def test_what_the_plugin_has_published_becomes_this(config: Path) -> None:
    assert convert("sriov", str(config), config.read_bytes()).text == golden_of(config).read_text()


@pytest.mark.parametrize(
    ("selector", "addresses"),
    [
        ({"vendors": ["8086"], "drivers": ["iavf", "ixgbevf"]}, ["0000:3b:01.0", "0000:3b:01.1"]),
        # Not 0000:61:00.0, which has virtual functions.
        ({"drivers": ["vfio-pci"]}, ["0000:3b:01.2", "0000:62:00.0"]),
        ({"devices": ["101e"]}, ["0000:5e:00.2"]),
        ({"drivers": ["iavf"], "pfNames": ["ens1f0#1"]}, ["0000:3b:01.1"]),
        ({"drivers": ["iavf"], "pfNames": ["ens1f0#0-7"]}, ["0000:3b:01.0", "0000:3b:01.1"]),
        ({"drivers": ["vfio-pci"], "pfNames": ["ens1f0"]}, ["0000:3b:01.2"]),
        ({"pfNames": ["^ens[2-9]f0.*"]}, ["0000:5e:00.2"]),
        ({"drivers": ["iavf"], "pfNames": ["ens2f0np0"]}, []),
        ({"rootDevices": ["0000:3b:00.0#0"]}, ["0000:3b:01.0"]),
        ({"rootDevices": ["0000:5e:00.0"]}, ["0000:5e:00.2"]),
        ({"linkTypes": ["infiniband"]}, ["0000:5e:00.2"]),
        ({"linkTypes": ["ether"], "vendors": ["15b3"]}, []),
        ({"isRdma": True}, ["0000:5e:00.2"]),
        ({"pciAddresses": ["0000:3b:01.1", "0000:3b:01.2"], "drivers": ["iavf"]}, ["0000:3b:01.1"]),
    ],
    ids=str,
)
def test_selectors_choose_the_same_functions(
    selector: dict[str, Any], addresses: Vfs, tmp_path: Path
) -> None:
    """By its README: AND between selectors, OR within one, VFs of a PF by their number."""
    expected = {"intel.com/r": addresses} if addresses else {}
    assert ids_of(pool(selector), tmp_path) == expected


def test_several_selectors_are_alternatives(tmp_path: Path) -> None:
    config = pool({"devices": ["101e"]}, {"drivers": ["iavf"], "pfNames": ["ens1f0#0"]})
    assert ids_of(config, tmp_path) == {"intel.com/r": ["0000:3b:01.0", "0000:5e:00.2"]}


def test_what_needs_other_nodes_has_a_name_of_its_own(tmp_path: Path) -> None:
    config = pool({"drivers": ["iavf"]}, {"drivers": ["vfio-pci"]})
    assert ids_of(config, tmp_path) == {
        "intel.com/r": ["0000:3b:01.0", "0000:3b:01.1"],
        "intel.com/r-2": ["0000:3b:01.2", "0000:62:00.0"],
    }


def test_a_container_gets_what_the_plugin_gives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, file = tmp_path / "root", tmp_path / "config.yaml"
    loading.build(MACHINE, root)
    file.write_text(text_of("sriov", pool({"vendors": ["8086"], "drivers": ["vfio-pci"]})))
    arguments = ["--config", str(file), "--root", str(root), "intel.com/r=1"]
    assert main(["allocate", *arguments]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  device      /dev/vfio/12 (rw) from /dev/vfio/12",
        "  device      /dev/vfio/vfio (rw) from /dev/vfio/vfio",
        "  env         PCIDEVICE_INTEL_COM_R=0000:3b:01.2",
    ]


@pytest.mark.parametrize("key", ["ddpProfiles", "vdpaType", "pKeys", "auxTypes", "nicNames"])
def test_what_cannot_be_told_is_withheld_not_ignored(key: str) -> None:
    """Without it more would be offered: dropping ``_NARROWER`` brings that about."""
    problem = problems_of("sriov", pool({"vendors": ["8086"], key: ["x"]}))[0]
    assert "more would be offered" in problem


def test_numbers_of_functions_without_an_interface_are_withheld() -> None:
    config = pool({"drivers": ["vfio-pci"], "pfNames": ["ens1f0#0-1"]})
    assert "network interface" in problems_of("sriov", config)[0]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("{}", "resourceList is missing"),
        (pool({"vendors": ["0x8086"]}), "four hexadecimal digits"),
        (pool({"pfNames": ["a#3-1"]}), "no range"),
        (pool({"vendors": ["8086"]}, deviceType="toaster"), "deviceType"),
        (pool({"vendors": ["8086"]}, resourceName="a b"), "cannot be a resource"),
    ],
)
def test_mistakes_have_a_place(config: str, said: str) -> None:
    assert said in problems_of("sriov", config)[0]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["node1", "config.json"], "'intel.com/a' is there for node 'node1' by one key"),
        (["config.json", "node1"], "'intel.com/a' is there for node 'node1' by one key"),
        (["config.json", "other.json"], "'intel.com/a' is there twice"),
        (["node1", "node2"], ""),
    ],
)
def test_a_name_for_one_node_and_for_all_is_told_as_that(keys: list[str], said: str) -> None:
    text = pool({"vendors": ["8086"]}, resourceName="a")
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": dict.fromkeys(keys, text)}
    problems = converted("sriov", json.dumps(manifest)).problems
    assert [said in str(one) for one in problems] == [True] * bool(said)
