"""PCI addresses are hexadecimal: they come in the order of their numbers, also in variables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from genericdp.cli import main
from tests.cli.explain_output import HEAD
from tests.fixtures.make_tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

CARDS = HEAD + (
    "  - name: example.com/card\n"
    '    match: [{pci: {vendor: "10de"}}]\n'
    "    inject: {devices: [], env: {CARDS: $(pci.address), LABELS: $(attribute.label)}}\n"
)


def machine(folder: Path, **labels: str) -> Tree:
    """A host with a card at each address, behind a root bus of its own."""
    tree = Tree(folder)
    for name, label in labels.items():
        bus = name.removeprefix("bus")
        address = f"0000:{bus}:00.0"
        card = f"devices/pci0000:{bus}/{address}"
        tree.write(f"sys/{card}/uevent", "")
        tree.write(f"sys/{card}/vendor", "0x10de\n")
        tree.write(f"sys/{card}/label", f"{label}\n")
        tree.link(f"sys/{card}/subsystem", "../../../bus/pci")
        tree.link(f"sys/bus/pci/devices/{address}", f"../../../{card}")
    return tree


def ran(tmp_path: Path, capsys: pytest.CaptureFixture[str], *command: str) -> dict[str, Any]:
    config = tmp_path / "config.yaml"
    config.write_text(CARDS)
    options = ["--config", str(config), "--root", str(tmp_path / "root"), "-o", "json"]
    assert main([*command, *options]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_devices_are_listed_by_the_numbers_of_their_addresses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(tmp_path / "root", bus0f="a", bus4e="b", bus07="c", bus47="d")
    (found,) = ran(tmp_path, capsys, "discover")["resources"]
    ids = [one["id"] for one in found["devices"]]
    assert ids == ["0000:07:00.0", "0000:0f:00.0", "0000:47:00.0", "0000:4e:00.0"]


def test_a_variable_has_them_in_that_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(tmp_path / "root", bus0f="a", bus4e="b", bus07="c", bus47="d")
    answer = ran(tmp_path, capsys, "allocate", "example.com/card=4")
    assert (
        answer["example.com/card"]["env"]["CARDS"]
        == "0000:07:00.0,0000:0f:00.0,0000:47:00.0,0000:4e:00.0"
    )


@pytest.mark.parametrize(
    ("labels", "joined"),
    [
        ({"bus07": "GPU-1", "bus0f": ""}, "GPU-1"),
        ({"bus07": "", "bus0f": "GPU-1", "bus47": "", "bus4e": "GPU-2"}, "GPU-1,GPU-2"),
        ({"bus07": "", "bus0f": ""}, ""),
    ],
)
def test_an_empty_text_leaves_no_separator_in_a_variable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], labels: dict[str, str], joined: str
) -> None:
    machine(tmp_path / "root", **labels)
    answer = ran(tmp_path, capsys, "allocate", f"example.com/card={len(labels)}")
    assert answer["example.com/card"]["env"]["LABELS"] == joined
