"""Configs of other plugins become what these document: ``becomes/PEER.yaml``.

A case of these files has the ``config``, the name of a ``file`` that its project publishes, or a
part by which one of ``wraps`` is filled, and

=============================== ================================================================
``machine`` and ``offers``      the nodes of each device of each resource, on one of the testbeds
``devices``                     the nodes of each device by its id, on functions.umockdev
``resources``                   the names of what is converted
``comment``, ``text``           a part of it, with the lines of comments joined, or as it is
``without``                     what it does not have
``udev``, ``numbers``           how many selectors of udev it has, and globs of functions' numbers
``problem``                     a part of what is said where nothing is converted
``why``                         what is remarkable
=============================== ================================================================
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.convert.offering import (
    DIRECTORY,
    FUNCTIONS,
    discovered,
    offers,
    problems_of,
    prose_of,
    text_of,
)
from tests.testbeds.loading import path_of

if TYPE_CHECKING:
    from pathlib import Path

Case = dict[str, Any]


def _cases() -> list[tuple[str, Case]]:
    found = []
    for file in sorted(DIRECTORY.glob("becomes/*.yaml")):
        document = yaml.load(file.read_text(), yaml.CSafeLoader)
        for case in document["cases"]:
            if published := case.get("file"):
                case["config"] = (DIRECTORY / "peers" / file.stem / published).read_text()
            for name, text in document["wraps"].items():
                if name in case:
                    case["config"] = _filled(text, case[name])
            found.append((file.stem, case))
    return found


def _filled(text: str, value: Any) -> str:
    """Put a value in: ``%r`` as it is, ``%s`` as JSON, ``%q`` as JSON within a string of JSON."""
    inner = json.dumps(value)
    text = text.replace("%s", inner).replace("%q", json.dumps(inner)[1:-1])
    return text.replace("%r", str(value))


CASES = _cases()
NAMES = [f"{peer}-{next(iter(case.values()))}"[:70] for peer, case in CASES]


@pytest.mark.parametrize(("peer", "case"), CASES, ids=NAMES)
def test_a_config_becomes_what_its_plugin_documents(peer: str, case: Case, tmp_path: Path) -> None:
    if said := case.get("problem"):
        located = rf"(?s)config( \(.*?\))?:\d+:\d+: .*{re.escape(said)}"
        assert any(re.match(located, problem) for problem in problems_of(peer, case["config"]))
        return
    text = text_of(peer, case["config"])
    prose = prose_of(text)
    assert case.get("comment", "") in prose
    assert case.get("text", "") in text
    assert "without" not in case or case["without"] not in prose
    if "machine" in case:
        name = case["machine"]
        machine = FUNCTIONS if name == "functions" else path_of(name)
        assert offers(text, machine, tmp_path) == case["offers"]
    if "devices" in case:
        found = discovered(text, FUNCTIONS, tmp_path).items()
        assert case["devices"] == {
            name: {device["id"]: device["nodes"] for device in devices} for name, devices in found
        }
    if "resources" in case:
        names = [resource["name"] for resource in yaml.safe_load(text)["resources"]]
        assert names == case["resources"]
    if "udev" in case:
        assert text.count("- udev:") == case["udev"]
    if "numbers" in case:
        (resource,) = yaml.safe_load(text)["resources"]
        assert resource["match"][0]["values"]["number"] == case["numbers"]


def test_more_than_can_be_meant_is_refused() -> None:
    paths = ", ".join(["{path: /dev/x}"] * 257)
    squat = problems_of("squat", f"{{name: s, groups: [{{paths: [{paths}]}}]}}")
    assert "more than 256 groups" in squat[0]
    rules = json.dumps([f'KERNEL=="a{i}"' for i in range(257)])
    text = f"udev: {{configuration: {{name: c, discoveryDetails: {{udevRules: {rules}}}}}}}"
    assert any("at most 256 are allowed" in problem for problem in problems_of("akri", text))


def test_paths_of_a_group_are_paired_by_what_their_stars_stand_for(tmp_path: Path) -> None:
    """D2: squat pairs by index, so that a device gets the node of another one."""
    paired = "{name: s, groups: [{paths: [{path: /dev/snd/controlC*}, {path: /dev/snd/pcmC*D0c}]}]}"
    text = text_of("squat", paired)
    assert "by position in two sorted lists" in prose_of(text)
    machine = tmp_path / "machine"
    machine.write_text(path_of("webcam").read_text().replace("pcmC1D0c", "pcmC10D0c"))
    assert offers(text, machine, tmp_path) == {}


def pool(**keys: object) -> str:
    """Make a config of sriov with one resource."""
    return json.dumps({"resourceList": [{"resourceName": "r", **keys}]})


def ids_of(config: str, machine: Path, directory: Path) -> dict[str, list[str]]:
    found = discovered(text_of("sriov", config), machine, directory).items()
    return {name: [device["id"] for device in devices] for name, devices in found}


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
    config = pool(selectors=[{"drivers": ["iavf"], "pfNames": ["ens1f0#1-2"]}])
    assert ids_of(config, machine, tmp_path) == {"intel.com/r": ["0000:3b:01.1"]}


def test_ranges_of_a_card_that_is_bound_to_vfio_are_divided(tmp_path: Path) -> None:
    """Each resource has the functions of its range."""
    machine = tmp_path / "machine.umockdev"
    driver = "L: driver=../../../bus/pci/drivers/"
    text = FUNCTIONS.read_text().replace("DRIVER=iavf", "DRIVER=vfio-pci")
    machine.write_text(text.replace(f"{driver}iavf", f"{driver}vfio-pci"))
    resources = [
        {
            "resourceName": f"r{i}",
            "selectors": {"drivers": ["vfio-pci"], "pfNames": [f"ens1f0#{numbers}"]},
        }
        for i, numbers in enumerate(("0", "1-2"))
    ]
    assert ids_of(json.dumps({"resourceList": resources}), machine, tmp_path) == {
        "intel.com/r0": ["0000:3b:01.0"],
        "intel.com/r1": ["0000:3b:01.1", "0000:3b:01.2"],
    }
