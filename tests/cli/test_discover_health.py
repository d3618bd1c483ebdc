"""The health of devices in commands that run no probes: ``discover``, ``explain``, ``allocate``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from tests.cli.test_probe import HEAD, exec_of, own
from tests.fixtures.make_tree import Tree
from tests.printed import resources_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Capture = pytest.CaptureFixture[str]
    Discover = Callable[..., list[str]]


@pytest.fixture
def discover(tmp_path: Path, capsys: Capture) -> Discover:
    """Discover the resources of a config and give the lines that are printed."""

    def run(resources: str, *arguments: str) -> list[str]:
        config = tmp_path / "config.yaml"
        config.write_text(HEAD + resources)
        assert main(["discover", f"--config={config}", "--node-name=n", *arguments]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out.splitlines()

    return run


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    folder = tmp_path / "plain"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / name).touch()
    return folder


def states(lines: list[str]) -> list[str]:
    """Give the column STATE."""
    table = lines[: lines.index("")] if "" in lines else lines
    begin, end = table[0].index("STATE"), table[0].index("NODES")
    return [line[begin:end].rstrip() for line in table[1:]]


def test_nothing_is_run_unasked_and_a_line_says_who_does(
    discover: Discover, plain: Path, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    lines = discover(own(plain, health=exec_of("/bin/touch", ran)) + own(plain, name="later"))
    assert states(lines) == ["not probed", "not probed"]
    assert lines[3:5] == [
        "",
        f"not probed: genericdp probe {tmp_path}/config.yaml --node-name n runs the probes",
    ]
    assert not ran.exists()


def test_where_there_are_no_probes_there_is_no_such_line(discover: Discover, plain: Path) -> None:
    lines = discover(own(plain))
    assert states(lines) == ["Healthy", "Healthy"]
    assert len(lines) == 3


def test_json_has_state_and_reason(discover: Discover, plain: Path) -> None:
    resource = own(plain, health=exec_of("/usr/bin/test", "$(device.name)", "=", "a"))
    found = resources_in("\n".join(discover(resource, "-o", "json")))
    devices = found["example.com/own"]["devices"]
    known = [(device["state"], device["reason"]) for device in devices]
    assert known == [("Unprobed", "its probes have not been run")] * 2


def test_explain_and_allocate_say_as_much(plain: Path, tmp_path: Path, capsys: Capture) -> None:
    ran, config = tmp_path / "ran", tmp_path / "config.yaml"
    probed = own(plain, glob="a", health=exec_of("/bin/touch", ran))
    config.write_text(HEAD + probed + own(plain, glob="b", name="plain"))
    host = [f"--config={config}", "--node-name=n"]
    hint = ["", f"not probed: genericdp probe {config} --node-name n runs the probes"]

    assert main(["explain", *host, f"{plain}/a"]) == 0
    lines = capsys.readouterr().out.splitlines()
    offered = f"{plain}/a is offered: it is a of example.com/own; its probes have not been run"
    assert lines[0] == offered
    assert lines[-2:] == hint
    assert main(["explain", *host, f"{plain}/a", "-o", "json"]) == 0
    device = json.loads(capsys.readouterr().out)["resources"][0]["device"]
    assert (device["state"], device["probes"][0]["result"]) == ("Unprobed", "")
    assert main(["explain", *host, f"{plain}/b"]) == 0
    assert "probe" not in capsys.readouterr().out

    assert main(["allocate", *host, "example.com/own=1", "example.com/plain=1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        *("example.com/own:", f"  env         FILE_OWN={plain}/a", "  not probed  a"),
        *("example.com/plain:", f"  env         FILE_PLAIN={plain}/b"),
        *hint,
    ]
    assert not ran.exists()


def test_a_device_that_lacks_a_node_is_unhealthy_unasked(
    discover: Discover, plain: Path, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    resource = own(plain, glob="a", health=exec_of("/bin/touch", ran))
    resource = resource.replace("{env: {FILE_OWN: $(device.path)}}", "{devices: [{path: /dev/no}]}")
    assert states(discover(resource)) == ["Unhealthy: /dev/no does not exist"]
    assert not ran.exists()


def test_for_a_copy_no_line_names_who_runs_the_probes(discover: Discover, tmp_path: Path) -> None:
    """In a copy, genericdp probe runs no command and opens no device."""
    tree = Tree(tmp_path / "a copy")
    tree.node("sensor", "10:1")
    resource = (
        "  - name: example.com/one\n    match: [{path: /dev/sensor}]\n    health: [{open: {}}]\n"
    )
    lines = discover(resource, f"--root={tree.folder}")
    assert states(lines) == ["not probed"]
    assert len(lines) == 2
