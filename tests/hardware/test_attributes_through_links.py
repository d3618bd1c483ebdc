"""Attributes that are read through links: the device that they lead to tells when they change.

Here of the network card whose virtual function is bound to vfio: it is not above the function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from genericdp.config.load import load
from genericdp.devices.allocation import edits
from genericdp.host.events import Uevent
from genericdp.host.root import Root
from tests.decisions import Discoverer
from tests.devices.making import healthy
from tests.hardware.adapters import built

if TYPE_CHECKING:
    from pathlib import Path

CARD = "/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
FUNCTION = "0000:3b:01.0"
FUNCTIONS = "pci: {function: virtual}"
PHYSFN = "physfn/sriov_numvfs"
HEAD = """
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/vf
"""
CONFIG = f"{HEAD}    inject: {{devices: [{{path: /dev/vfio/vfio, shared: true}}]}}\n"
ONE_THEN_NONE: tuple[list[str], list[str]] = ([FUNCTION], [])
CASES = {
    "attributes of the candidate": (
        f'match: [{{udev: {{subsystem: pci, attributes: {{{PHYSFN}: "1"}}}}}}]',
        ONE_THEN_NONE,
    ),
    "attributes of what it sits on": (
        "match: [{udev: {subsystem: vfio-dev},"
        f' hardware: {{udev: {{subsystem: pci, attributes: {{{PHYSFN}: "1"}}}}}}}}]',
        ([f"{FUNCTION}-vfio-dev"], []),
    ),
    "through two links": (
        'match: [{udev: {subsystem: vfio-dev, attributes: {device/physfn/sriov_numvfs: "1"}}}]',
        ([f"{FUNCTION}-vfio-dev"], []),
    ),
    "excluded": (
        f"match: [{{{FUNCTIONS}}}]\n"
        f'    exclude: [{{udev: {{subsystem: pci, attributes: {{{PHYSFN}: "2"}}}}}}]',
        ONE_THEN_NONE,
    ),
    "value of a selector": (
        f'match: [{{{FUNCTIONS}, values: {{count: "1"}}}}]\n'
        f'    values: {{count: {{file: "$(device.syspath)/{PHYSFN}"}}}}',
        ONE_THEN_NONE,
    ),
}


TEXTS = {
    "scope": f"$(attribute.{PHYSFN})",
    "value": f'$(value.count)\n    values: {{count: {{file: "$(device.syspath)/{PHYSFN}"}}}}',
}


@pytest.mark.parametrize("case", CASES)
async def test_it_is_read_again_when_the_device_behind_the_link_changes(
    case: str, tmp_path: Path
) -> None:
    """Not at a full look only."""
    text, (of_one, of_two) = CASES[case]
    config = tmp_path / "config.yaml"
    config.write_text(f"{CONFIG}    {text}\n")
    wanted = load((config,)).resources
    machine = built("vfio", tmp_path / "machine").root
    discoverer = Discoverer(Root(machine))
    offers = (await discoverer.discover(wanted, {})).lists
    assert healthy(offers, "vf") == of_one
    for count in (2, 1, 2):
        (machine / f"sys{CARD}/sriov_numvfs").write_text(f"{count}\n")
        discoverer.mark_event(Uevent(action="change", syspath=f"/sys{CARD}"))
        offers = (await discoverer.discover(wanted, offers, full=False)).lists
        assert healthy(offers, "vf") == (of_one if count == 1 else of_two)


@pytest.mark.parametrize("case", TEXTS)
async def test_what_containers_get_follows_the_device_behind_the_link(
    case: str, tmp_path: Path
) -> None:
    """Its ID does not, even where it was made of that: a listed device keeps its ID."""
    template, _, values = TEXTS[case].partition("\n")
    config = tmp_path / "config.yaml"
    given = f'{{devices: [{{path: /dev/vfio/vfio, shared: true}}], env: {{COUNT: "{template}"}}}}'
    text = f"    match: [{{{FUNCTIONS}}}]\n    id: n-{template}\n    inject: {given}\n{values}\n"
    config.write_text(f"{HEAD}{text}")
    wanted = load((config,)).resources
    machine = built("vfio", tmp_path / "machine").root
    discoverer = Discoverer(Root(machine))
    offers = (await discoverer.discover(wanted, {})).lists
    for count in (1, 2, 1, 2):
        (machine / f"sys{CARD}/sriov_numvfs").write_text(f"{count}\n")
        discoverer.mark_event(Uevent(action="change", syspath=f"/sys{CARD}"))
        offers = (await discoverer.discover(wanted, offers, full=False)).lists
        assert healthy(offers, "vf") == ["n-1"]
        device = offers["example.com/vf"].devices["n-1"].device
        assert edits([device]).env == {"COUNT": str(count)}
    fresh = (await discoverer.discover(wanted, {}, full=False)).lists
    assert healthy(fresh, "vf") == ["n-2"]
