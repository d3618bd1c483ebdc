"""sriov-network-device-plugin: what its documentation says is offered."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.convert.offering import FUNCTIONS, converted, discovered, problems_of, prose_of, text_of

if TYPE_CHECKING:
    from pathlib import Path

VFIO = ["0000:3b:01.2", "0000:62:00.0", "0000:63:00.0"]
IAVF = ["0000:3b:01.0", "0000:3b:01.1"]


def pool(*selectors: dict[str, Any], **more: object) -> str:
    """Make a config of one resource."""
    return json.dumps({"resourceList": [{"resourceName": "r", "selectors": selectors, **more}]})


def devices_of(config: str, directory: Path) -> dict[str, dict[str, list[str]]]:
    """Return the nodes of each address of each resource, on this directory's machine."""
    found = discovered(text_of("sriov", config), FUNCTIONS, directory)
    return {
        name: {device["id"]: device["nodes"] for device in devices}
        for name, devices in found.items()
    }


@pytest.mark.parametrize(
    ("selector", "addresses"),
    [
        ({"vendors": ["8086"], "drivers": ["iavf", "ixgbevf"]}, IAVF),
        # Not 0000:61:00.0, which has virtual functions.
        ({"drivers": ["vfio-pci"]}, VFIO),
        ({"devices": ["101e"]}, ["0000:5e:00.2"]),
        # The physical function has a representor next to ens1f0.
        ({"drivers": ["iavf"], "pfNames": ["ens1f0"]}, IAVF),
        ({"drivers": ["vfio-pci"], "pfNames": ["ens1f0"]}, ["0000:3b:01.2"]),
        ({"drivers": ["iavf"], "pfNames": ["ens1f0#1"]}, ["0000:3b:01.1"]),
        ({"drivers": ["iavf"], "pfNames": ["ens1f0#0-7"]}, IAVF),
        ({"drivers": ["vfio-pci"], "pfNames": ["ens1f0#0-1"]}, []),
        ({"drivers": ["vfio-pci"], "pfNames": ["ens1f0#1-2"]}, ["0000:3b:01.2"]),
        ({"pfNames": ["^ens[2-9]f0.*"]}, ["0000:5e:00.2"]),
        ({"drivers": ["iavf"], "pfNames": ["ens2f0np0"]}, []),
        ({"drivers": ["iavf"], "pfNames": ["ens1f0#7,1-255"]}, ["0000:3b:01.1"]),
        ({"pfNames": ["^ens[2-9]f0.*#0,2"]}, ["0000:5e:00.2"]),
        ({"pfNames": ["^ens[2-9]f0.*#1-2"]}, []),
        ({"rootDevices": ["0000:3b:00.0#0"]}, ["0000:3b:01.0"]),
        ({"rootDevices": ["0000:3b:00.0#0-1"], "pfNames": ["ens1f0#1-2"]}, ["0000:3b:01.1"]),
        ({"rootDevices": ["5e:00.0"]}, ["0000:5e:00.2"]),
        ({"pfNames": ["ens1f0"], "rootDevices": ["5e:00.0"]}, []),
        ({"linkTypes": ["infiniband"]}, ["0000:5e:00.2"]),
        ({"linkTypes": ["ether"], "vendors": ["15b3"]}, []),
        ({"linkTypes": ["ether"], "drivers": ["iavf"]}, IAVF),
        ({"isRdma": True}, ["0000:5e:00.2"]),
        ({"pciAddresses": ["0000:3b:01.1", "0000:3b:01.2"], "drivers": ["iavf"]}, IAVF[1:]),
        # In a virtual machine no function is virtual.
        ({"pciAddresses": ["64:00.0"]}, ["0000:64:00.0"]),
        ({"vendors": ["1af4"]}, []),
    ],
    ids=str,
)
def test_selectors_choose_the_same_functions(
    selector: dict[str, Any], addresses: list[str], tmp_path: Path
) -> None:
    """By its README: AND between selectors, OR within one, VFs of a PF by their number."""
    found = devices_of(pool(selector), tmp_path)
    assert list(found.get("intel.com/r", {})) == addresses


def test_several_selectors_are_alternatives(tmp_path: Path) -> None:
    config = pool({"devices": ["101e"]}, {"drivers": ["iavf"], "pfNames": ["ens1f0#0"]})
    assert list(devices_of(config, tmp_path)["intel.com/r"]) == ["0000:3b:01.0", "0000:5e:00.2"]


@pytest.mark.parametrize(
    "selectors",
    [({"drivers": ["iavf"]}, {"drivers": ["vfio-pci"]}), ({"drivers": ["iavf", "vfio-pci"]},)],
)
def test_what_needs_other_nodes_has_a_name_of_its_own(
    selectors: tuple[dict[str, Any], ...], tmp_path: Path
) -> None:
    found = devices_of(pool(*selectors), tmp_path)
    assert list(found["intel.com/r"]) == IAVF
    assert list(found["intel.com/r-2"]) == VFIO


@pytest.mark.parametrize(
    ("selector", "kind", "nodes"),
    [
        (
            {"drivers": ["vfio-pci"]},
            "netDevice",
            {
                "0000:3b:01.2": ["/dev/vfio/12", "/dev/vfio/vfio"],
                "0000:62:00.0": ["/dev/vfio/14", "/dev/vfio/vfio"],
                # Without an IOMMU.
                "0000:63:00.0": ["/dev/vfio/noiommu-15", "/dev/vfio/vfio"],
            },
        ),
        # Without drivers, by what each function is bound to.
        (
            {"devices": ["0d90"]},
            "accelerator",
            {
                "0000:65:00.0": ["/dev/vfio/16", "/dev/vfio/vfio"],
                "0000:66:00.0": ["/dev/vfio/vfio", "/dev/uio0"],
            },
        ),
        ({"drivers": ["igb_uio"]}, "accelerator", {"0000:66:00.0": ["/dev/uio0"]}),
    ],
)
def test_a_container_gets_the_nodes_of_the_driver(
    selector: dict[str, Any], kind: str, nodes: dict[str, list[str]], tmp_path: Path
) -> None:
    found = devices_of(pool(selector, deviceType=kind), tmp_path)
    assert found == {"intel.com/r": nodes}


@pytest.mark.parametrize("key", ["ddpProfiles", "vdpaType", "pKeys", "auxTypes", "nicNames"])
def test_what_cannot_be_told_is_withheld_not_ignored(key: str) -> None:
    problem = problems_of("sriov", pool({"vendors": ["8086"], key: ["x"]}))[0]
    assert "more would be offered" in problem


def test_link_types_that_sysfs_does_not_have_are_kept_as_a_comment() -> None:
    text = prose_of("sriov", pool({"linkTypes": ["ether", "token ring"]}))
    assert "Not converted, linkTypes token ring: only ether, infiniband can be read" in text


@pytest.mark.parametrize("group", ["", "L: iommu_group=../../../kernel/iommu_groups/10\n"])
def test_functions_have_numbers_without_interfaces_and_groups_of_their_own(
    tmp_path: Path, group: str
) -> None:
    """By its README: what counts is the number that the physical function gives it."""
    machine = tmp_path / "machine.umockdev"
    text = re.sub(r"L: iommu_group=.*/1[0-2]\n", group, FUNCTIONS.read_text())
    # Without the interfaces of virtual functions, as with a user-space driver.
    parts = [part for part in text.split("\n\n") if "/net/ens1f0v" not in part]
    machine.write_text("\n\n".join(parts))
    config = text_of("sriov", pool({"drivers": ["iavf"], "pfNames": ["ens1f0#1-2"]}))
    found = discovered(config, machine, tmp_path)
    assert [entry["id"] for entry in found["intel.com/r"]] == ["0000:3b:01.1"]


def test_a_nic_cluster_policy_has_ranges_too(tmp_path: Path) -> None:
    selector = {"drivers": ["vfio-pci"], "pfNames": ["ens1f0#2-7"]}
    policy = {
        "apiVersion": "mellanox.com/v1alpha1",
        "kind": "NicClusterPolicy",
        "metadata": {"name": "nic-cluster-policy"},
        "spec": {"sriovDevicePlugin": {"config": pool(selector)}},
    }
    found = devices_of(json.dumps(policy), tmp_path)
    assert found == {"intel.com/r": {"0000:3b:01.2": ["/dev/vfio/12", "/dev/vfio/vfio"]}}


def test_ranges_of_a_card_that_is_bound_to_vfio_are_divided(tmp_path: Path) -> None:
    """Each resource has the functions of its range."""
    machine = tmp_path / "machine.umockdev"
    driver = "L: driver=../../../bus/pci/drivers/"
    text = FUNCTIONS.read_text().replace("DRIVER=iavf", "DRIVER=vfio-pci")
    machine.write_text(text.replace(f"{driver}iavf", f"{driver}vfio-pci"))
    selectors = [
        {"drivers": ["vfio-pci"], "pfNames": [f"ens1f0#{entry}"]} for entry in ("0", "1-2")
    ]
    resources = [
        {"resourceName": f"r{i}", "selectors": selector} for i, selector in enumerate(selectors)
    ]
    config = text_of("sriov", json.dumps({"resourceList": resources}))
    found = discovered(config, machine, tmp_path)
    assert {name: [device["id"] for device in devices] for name, devices in found.items()} == {
        "intel.com/r0": ["0000:3b:01.0"],
        "intel.com/r1": ["0000:3b:01.1", "0000:3b:01.2"],
    }


@pytest.mark.parametrize(
    ("ranges", "globs"),
    [
        ("0-7", "[0-7]"),
        ("0,2-4,7", ["0", "[2-4]", "7"]),
        ("8-105", ["[8-9]", "[1-9][0-9]", "10[0-5]"]),
        ("0-255", ["[0-9]", "[1-9][0-9]", "1[0-9][0-9]", "2[0-4][0-9]", "25[0-5]"]),
        ("007", "7"),
    ],
)
def test_a_range_becomes_few_globs(ranges: str, globs: str | list[str]) -> None:
    config = yaml.safe_load(text_of("sriov", pool({"pfNames": [f"a#{ranges}"]})))
    assert config["resources"][0]["match"][0]["values"]["number"] == globs


def test_names_of_functions_are_not_mixed_up() -> None:
    text = prose_of("sriov", pool({"pfNames": ["a.b", "a_b"]}))
    assert "/net/a.b}" in text
    assert "/net/a_b}" in text


def test_that_the_plugin_takes_only_the_first_entry_for_a_function_is_told() -> None:
    said = "the plugin takes only the first"
    assert said in prose_of("sriov", pool({"pfNames": ["a#0-1", "a#4"]}))
    assert said not in prose_of("sriov", pool({"pfNames": ["a#0-1", "b#4"]}))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("{}", "not a config of sriov-network-device-plugin: resourceList is missing"),
        (pool({"vendors": ["0x8086"]}), "four hexadecimal digits"),
        (pool({"pfNames": ["a#3-1"]}), "a range of them"),
        (pool({"pfNames": ["#1"]}), "name of a physical function is missing"),
        (pool({"pfNames": ["a("]}), "not a regular expression"),
        (pool({"pfNames": ["a"] * 17}), "more than 16 physical functions"),
        (pool({"vendors": ["8086"]}, deviceType="toaster"), "deviceType"),
        (pool({"vendors": ["8086"]}, deviceType="auxNetDevice"), "auxiliary bus"),
        (pool({"vendors": ["8086"]}, resourceName="a b"), "cannot be the name of a resource"),
        (pool({"linkTypes": ["ether"], "drivers": ["vfio-pci"]}), "has no interface"),
    ],
)
def test_mistakes_are_told(config: str, said: str) -> None:
    assert any(said in problem for problem in problems_of("sriov", config))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["node1", "config.json"], "'intel.com/a' is defined for one node and for all"),
        (["config.json", "node1"], "'intel.com/a' is defined for one node and for all"),
        (["config.json", "other.json"], "'intel.com/a' is defined twice"),
        (["node1", "node2.example.com"], ""),
    ],
)
def test_a_name_for_one_node_and_for_all_is_told_as_that(keys: list[str], said: str) -> None:
    text = pool({"vendors": ["8086"]}, resourceName="a")
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": dict.fromkeys(keys, text)}
    problems = converted("sriov", json.dumps(manifest)).problems
    assert [said in str(problem) for problem in problems] == [True] * bool(said)
