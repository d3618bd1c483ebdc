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
from tests.hosts.hosts import DIRECTORY, EXAMPLES
from tests.testbeds import loading

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.slow

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


def test_no_probe_and_no_hook_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The generator's programs would be started: on the real machine, whose devices it has."""
    Machine(tmp_path).node("qrandom0", "240:0")
    (printed,) = json_of(capsys, "init", "--root", str(tmp_path))["resources"]
    assert (printed["name"], ids_of(printed)) == ("example.com/qrng", ["qrandom0"])
    assert capsys.readouterr().err == ""
