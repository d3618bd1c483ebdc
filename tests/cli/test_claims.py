"""What discover and explain tell of devices that DRA serves, as claims see them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from genericdp.cli import main
from tests.cli.explain_output import HEAD, answer
from tests.printed import resources_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    Testbed = Callable[[str], Path]

SERIAL = """\
  - name: example.com/serial
    servedBy: dra
    replicas: 5
    match: [{udev: {subsystem: tty, name: ttyUSB3}}]
    id: STICK
    attributes:
      place: $(node.name)/$(device.id)
      number: {int: $(device.minor)}
      hotplug: {bool: "yes"}
      release: {version: "2.04"}
      wrong: {version: $(device.name)}
      long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa$(device.minor:-3)aaa
      lacking: $(usb.serial)
  - name: example.com/plain
    match: [{udev: {subsystem: tty, name: ttyUSB2}}]
"""
BUILT_IN = {
    "driver": "ch341-uart",
    "usbVendor": "1a86",
    "usbProduct": "7523",
    "usbSerial": "",
    "pciVendor": "8086",
    "pciDevice": "a36d",
}
STANDARD = {
    "resource.kubernetes.io/pcieRoot": "pci0000:00",
    "resource.kubernetes.io/pciBusID": "0000:00:14.0",
}
NOTES = {
    "wrong": "'ttyUSB3' is no version such as 1.2.3",
    "long": "cut: it has 68 bytes, at most 64 are possible",
    "lacking": "it has no '$(usb.serial)'",
}


def discovered(capsys: pytest.CaptureFixture[str], tmp_path: Path, root: Path, *more: str) -> str:
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + SERIAL)
    where = ("--config", str(config), "--root", str(root), "--node-name=n")
    assert main(["discover", *where, *more]) == 0
    return capsys.readouterr().out


def test_data_has_the_attributes_of_what_dra_serves(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, testbed: Testbed
) -> None:
    root = testbed("serial-adapters")
    printed = discovered(capsys, tmp_path, root, "-o", "json")
    found = resources_in(printed)
    (plain,), (stick,) = (found[f"example.com/{one}"]["devices"] for one in ("plain", "serial"))
    assert plain["dra"] is None
    names, notes = stick["dra"]["devices"], stick["dra"]["notes"]
    assert names[0].startswith("stick-")
    assert len({*names}) == 5
    assert notes == NOTES
    assert stick["dra"]["attributes"] == {
        **{name: {"string": text} for name, text in {**BUILT_IN, **STANDARD}.items()},
        "place": {"string": "n/STICK"},
        "number": {"int": 3},
        "hotplug": {"bool": True},
        "release": {"version": "2.4.0"},
        "wrong": {"version": "0.0.0"},
        "long": {"string": "a" * 64},
        "lacking": {"string": ""},
    }
    lines = answer(capsys, tmp_path, root, SERIAL, "STICK", "-o", "json")
    explained = json.loads("\n".join(lines))["resources"]
    assert [resource["device"] for resource in explained] == [stick, None]


def test_people_see_attributes_as_claims_compare_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, testbed: Testbed
) -> None:
    root = testbed("serial-adapters")
    attributes = [f'{name} "{text}"' for name, text in BUILT_IN.items()]
    attributes += ['place "n/STICK"', "number 3", "hotplug true", 'release semver("2.4.0")']
    attributes += ['wrong semver("0.0.0")', f'long "{"a" * 64}"', 'lacking ""']
    attributes += [f'{name} "{text}"' for name, text in STANDARD.items()]
    printed = discovered(capsys, tmp_path, root, "-o", "wide").splitlines()
    at = printed.index("example.com/serial STICK, as claims see it:")
    names, *lines = printed[at + 1 :]
    assert names.startswith("  in slices   stick-")
    assert names.endswith(" and 2 more")
    assert lines == [
        f"  attributes  {', '.join(attributes)}",
        f'  wrong       is semver("0.0.0"): {NOTES["wrong"]}',
        f'  long        is "{"a" * 64}": {NOTES["long"]}',
        f'  lacking     is "": {NOTES["lacking"]}',
    ]
    assert "as claims see it" not in discovered(capsys, tmp_path, root)
    explained = answer(capsys, tmp_path, root, SERIAL, "/dev/ttyUSB3")
    assert [one for one in explained if one in {names, *lines}] == [names, *lines]
