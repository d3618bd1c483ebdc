"""Attributes that are read through links: the device that they lead to shows when they change.

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
HEAD = """
apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources:
  - name: example.com/vf
    inject: {devices: [{path: /dev/vfio/vfio, shared: true}], env: {COUNT: %s}}
    values: {count: {file: "$(device.syspath)/physfn/sriov_numvfs"}}
"""
ONE = 'attributes: {physfn/sriov_numvfs: "1"}'
MATCHES = {
    "attributes of the candidate": (f"[{{udev: {{subsystem: pci, {ONE}}}}}]", FUNCTION),
    "attributes of its parent": (
        f"[{{udev: {{subsystem: vfio-dev}}, hardware: {{udev: {{subsystem: pci, {ONE}}}}}}}]",
        f"{FUNCTION}-vfio-dev",
    ),
    "through two links": (
        '[{udev: {subsystem: vfio-dev, attributes: {device/physfn/sriov_numvfs: "1"}}}]',
        f"{FUNCTION}-vfio-dev",
    ),
    "excluded": (
        "[{pci: {function: virtual}}]\n"
        '    exclude: [{udev: {subsystem: pci, attributes: {physfn/sriov_numvfs: "2"}}}]',
        FUNCTION,
    ),
    "value of a selector": ('[{pci: {function: virtual}, values: {count: "1"}}]', FUNCTION),
}


class Card:
    """The card, and what a config offers after each event of it."""

    def __init__(self, directory: Path, config: str) -> None:
        file = directory / "config.yaml"
        file.write_text(config)
        self.resources = load((file,)).resources
        self.machine = built("vfio", directory / "machine").directory
        self.discoverer = Discoverer(Root(self.machine))
        self.count = self.machine / f"sys{CARD}/sriov_numvfs"


@pytest.mark.parametrize(("match", "device"), MATCHES.values(), ids=MATCHES)
async def test_it_is_read_again_when_the_device_behind_the_link_changes(
    match: str, device: str, tmp_path: Path
) -> None:
    """Not at a full look only."""
    card = Card(tmp_path, f"{HEAD % 'x'}    match: {match}\n")
    lists = (await card.discoverer.discover(card.resources, {})).lists
    assert healthy(lists, "vf") == [device]
    for count in (2, 1, 2):
        card.count.write_text(f"{count}\n")
        card.discoverer.mark_event(Uevent(action="change", syspath=f"/sys{CARD}"))
        lists = (await card.discoverer.discover(card.resources, lists, full=False)).lists
        assert healthy(lists, "vf") == ([device] if count == 1 else [])


@pytest.mark.parametrize("text", ["$(attribute.physfn/sriov_numvfs)", "$(value.count)"])
async def test_what_containers_get_follows_the_device_behind_the_link(
    text: str, tmp_path: Path
) -> None:
    """Its ID does not, even where it was made of that: a listed device keeps its ID."""
    match = "    match: [{pci: {function: virtual}}]\n"
    card = Card(tmp_path, f"{HEAD % text}{match}    id: n-{text}\n")
    lists = (await card.discoverer.discover(card.resources, {})).lists
    for count in (1, 2, 1, 2):
        card.count.write_text(f"{count}\n")
        card.discoverer.mark_event(Uevent(action="change", syspath=f"/sys{CARD}"))
        lists = (await card.discoverer.discover(card.resources, lists, full=False)).lists
        assert healthy(lists, "vf") == ["n-1"]
        device = lists["example.com/vf"].devices["n-1"].device
        assert edits([device]).env == {"COUNT": str(count)}
    fresh = (await card.discoverer.discover(card.resources, {}, full=False)).lists
    assert healthy(fresh, "vf") == ["n-2"]
