"""Selectors: the files that they read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from genericdp.config.load import load
from genericdp.devices.matching import reads_properties

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """apiVersion: genericdp.io/v1alpha1
kind: DevicePluginConfig
resources: [{name: %s}]
"""


MATCH = "match: [{path: /dev/a}]"
RECORDED = "udev: {subsystem: tty, properties: {ID_BUS: usb}}"


@pytest.mark.parametrize(
    ("keys", "reads"),
    [
        (MATCH, False),
        (f"{MATCH}, inject: {{env: {{A: $(attribute.dev)}}}}", False),
        (f"match: [{{path: /dev/a}}, {{{RECORDED}}}]", True),
        ("match: [{usb: {}, hardware: {udev: {properties: {ID_BUS: usb}}}}]", True),
        (f"{MATCH}, exclude: [{{{RECORDED}}}]", True),
        (f"{MATCH}, id: $(property.ID_BUS)", True),
        (f"{MATCH}, hooks: {{preStart: {{exec: {{command: [/bin/true, $(property.A)]}}}}}}", True),
        ("match: [{path: /dev/a, inject: {env: {A: $(property.ID_BUS)}}}]", True),
        (f"{MATCH}, values: {{v: {{text: a$(property.A)}}}}, id: $(value.v)", True),
        (f"example.com/$(property.A), names: [example.com/*], {MATCH}", True),
    ],
)
def test_a_resource_that_reads_what_udev_records_is_known_wherever_it_says_so(
    keys: str, reads: bool, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG % (keys if keys.startswith("example") else f"example.com/x, {keys}"))
    loaded = load([config])
    assert not loaded.problems
    assert [*map(reads_properties, loaded.resources)] == [reads]
