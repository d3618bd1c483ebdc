"""Explaining agrees with offering, finds what a person means, and survives any host."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from genericdp.devices.decide import decide
from genericdp.devices.devicelist import DeviceList
from genericdp.devices.inventory import Inventory, Look
from genericdp.devices.matching import for_node
from genericdp.explain.catalog import catalogue
from genericdp.explain.describe import entry_of
from genericdp.explain.explanation import VerdictKind, explain
from genericdp.explain.find import Asked, Unknown, every, find
from genericdp.host.cache import HostCache
from genericdp.model import Resource
from genericdp.reasons import Code, Reason
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.config.loading import HEAD, loaded
from tests.devices.known import Known
from tests.devices.making import node, resource
from tests.testbeds import loading
from tests.testbeds.damaging import DAMAGES, damage, mend, paths_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.devices.decide import DeviceLists
    from genericdp.explain.explanation import Explanation
    from genericdp.host.root import Root

CONFIG = f"""\
{HEAD}\
  - name: a/video
    match: [{{path: [/dev/video0, "/dev/v4l/by-id/*index1"]}}]
    exclude: [{{path: /dev/video1}}]
  - name: a/serial
    match: [{{udev: {{subsystem: tty}}, hardware: {{usb: {{vendor: "0403", product: "60*"}}}}}}]
    id: $(usb.serial)
  - {{name: a/usb, match: [{{usb: {{class: ["00", ff]}}}}]}}
  - {{name: a/any, match: [{{udev: {{name: "*0"}}}}]}}
  - {{name: a/edge, match: [{{path: /dev/*}}], nodeNames: [edge-*]}}
  - name: a/pci
    match: [{{pci: {{vendor: "8086"}}}}]
    inject: {{devices: [{{path: $(device.path)}}]}}
  - {{name: a/rest, match: [{{path: [/dev/*, /dev/*/*]}}]}}
"""


@pytest.fixture(scope="module")
def resources() -> Sequence[Resource]:
    return loaded(CONFIG).resources


def inventory_of(root: Root) -> Inventory:
    return Inventory(HostCache(root), "n")


def offers_of(resources: Sequence[Resource], inventory: Inventory) -> DeviceLists:
    here = for_node(resources, "n")
    return decide(here, inventory.host, node_name="n", previous={}, now=0.0).lists


def explained(root: Root, resources: Sequence[Resource], asked: str) -> Explanation | Unknown:
    inventory = inventory_of(root)
    found = find(asked, inventory)
    if isinstance(found, Unknown):
        return found
    offers = offers_of(resources, inventory)
    entry_of(found.candidate, inventory)
    return explain(found, resources, offers, inventory)


@pytest.fixture(params=loading.NAMES)
def testbed(request: pytest.FixtureRequest, tmp_path: Path) -> Root:
    return loading.build(loading.path_of(request.param), tmp_path)


def test_it_never_contradicts_what_is_offered(testbed: Root, resources: Sequence[Resource]) -> None:
    inventory = inventory_of(testbed)
    offers = offers_of(resources, inventory)
    owner = {
        each_device.device.key: (name, device_id)
        for name, offer in offers.items()
        for device_id, each_device in offer.devices.items()
    }
    refused = {
        (name, entry.device.key) for name, offer in offers.items() for entry in offer.not_offered
    }
    devices = [*every(inventory)]
    assert devices
    for device in devices:
        found = find(device.syspath, inventory)
        assert isinstance(found, Asked)
        explanation = explain(found, resources, offers, inventory)
        key = found.candidate.key
        for verdict in explanation.verdicts:
            name = verdict.resource.name
            is_offered = verdict.outcome in {VerdictKind.OFFERED, VerdictKind.UNHEALTHY}
            assert is_offered == (owner.get(key) == (name, verdict.device_id))
            is_refused = verdict.outcome in {VerdictKind.REFUSED, VerdictKind.EXCLUDED}
            assert is_refused == ((name, key) in refused)


def test_the_catalogue_names_every_device_file_once_and_its_selectors_match(testbed: Root) -> None:
    """Strings that YAML would read as something else are quoted."""
    inventory = inventory_of(testbed)
    groups = catalogue(inventory)
    runs = [run for group in groups for run in (group.itself, *group.members) if run]
    paths = [entry.path for run in runs for entry in run.entries]
    assert len(set(paths)) == len(paths)
    files = {item.device_file for item in every(inventory) if item.number is not None}
    assert files <= set(paths)
    for run in runs:
        text = f"{HEAD}  - name: a/it\n    match:\n      - {run.selector}\n"
        config = loaded(f"{text}    inject: {{env: {{A: b}}}}\n")
        assert config.problems == ()
        for path in (entry.path for entry in run.entries):
            said = explained(testbed, config.resources, path)
            assert not isinstance(said, Unknown)
            assert said.verdicts[0].outcome in {VerdictKind.OFFERED, VerdictKind.REFUSED}
            assert said.verdicts[0].tries[0].failed is None, (path, run.selector)


@settings(max_examples=examples(8))
@given(name=st.sampled_from(loading.NAMES), seed=st.integers(0, 2**32))
def test_a_damaged_host_is_explained_all_the_same(
    resources: Sequence[Resource], name: str, seed: int
) -> None:
    chance = random.Random(seed)
    with TemporaryDirectory() as directory:
        root = loading.build(loading.path_of(name), Path(directory))
        known = [entry.syspath for entry in every(inventory_of(root))]
        for path in chance.sample(paths_of(name), 30):
            damage(Path(directory), path, chance.choice(sorted(DAMAGES)))
        for syspath in chance.sample(known, min(len(known), 5)):
            said = explained(root, resources, syspath)
            assert isinstance(said, Unknown) or said.headline.isprintable()
        for asked in ("/dev/ttyUSB0", "1-1.1", "0000:0a:00.0", "eth0", "/dev", "/", "", ".."):
            explained(root, resources, asked)
        for group in catalogue(inventory_of(root)):
            for run in group.members:
                assert run.selector.isprintable()
                assert all(line.isprintable() for _, line in run.entries[0].lines())
        mend(Path(directory))


def test_what_cannot_be_decided_is_the_reason() -> None:
    inventory = Inventory(Known(look=lambda _: Look(files=(node("/dev/x", (240, 0)),))))
    found = find("/dev/x", inventory)
    assert isinstance(found, Asked)
    lists = {"example.com/y": DeviceList(undecided=Reason(Code.UNDECIDED, "out of memory"))}
    assert explain(found, [resource("y", "/dev/y")], lists, inventory).headline == (
        "/dev/x is not offered: example.com/y cannot be decided: out of memory"
    )
