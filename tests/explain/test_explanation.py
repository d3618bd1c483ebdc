"""Explaining agrees with offering, finds what a person means, and survives any host."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from genericdp.config.load import load
from genericdp.devices.decide import decide
from genericdp.devices.devicelist import DeviceList
from genericdp.devices.inventory import Inventory, Look
from genericdp.explain.catalog import catalogue
from genericdp.explain.describe import as_glob, entry_of
from genericdp.explain.explanation import VerdictKind, explain
from genericdp.explain.find import Asked, Unknown, every, find
from genericdp.host.cache import HostCache
from genericdp.model import Resource, Selector
from genericdp.reasons import Code, Reason
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.devices.known import Known
from tests.devices.making import inject, node, nodes, resource
from tests.selecting import hardware, pci_selector, udev_selector, usb_selector
from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.explain.explanation import Explanation
    from genericdp.host.root import Root

TTY = udev_selector(subsystem=("tty",))
ALL_NODES = inject(nodes("$(device.path)"))
RESOURCES = (
    resource("video", "/dev/video0", "/dev/v4l/by-id/*index1", exclude=["/dev/video1"]),
    resource(
        "serial",
        Selector(
            candidates=TTY, hardware=hardware(usb=usb_selector(vendor=("0403",), product=("60*",)))
        ),
        id="$(usb.serial)",
    ),
    resource("usb", Selector(candidates=usb_selector(class_=("00", "ff")))),
    resource("any", Selector(candidates=udev_selector(name=("*0",)))),
    resource("edge", "/dev/*", node_names=("edge-*",)),
    resource("pci", Selector(candidates=pci_selector(vendor=("8086",))), given=ALL_NODES),
    resource("rest", "/dev/*", "/dev/*/*"),
)


def inventory_of(root: Root) -> Inventory:
    return Inventory(HostCache(root), "n")


def explained(root: Root, resources: Sequence[Resource], asked: str) -> Explanation | Unknown:
    inventory = Inventory(HostCache(root), "n")
    found = find(asked, inventory)
    if isinstance(found, Unknown):
        return found
    fitting = [each_resource for each_resource in resources if not each_resource.node_names]
    offers = decide(fitting, inventory.host, node_name="n", previous={}, now=0.0).lists
    entry_of(found.candidate, inventory)
    return explain(found, resources, offers, inventory)


@pytest.fixture(params=loading.NAMES)
def testbed(request: pytest.FixtureRequest, tmp_path: Path) -> Root:
    return loading.build(loading.path_of(request.param), tmp_path)


def test_it_never_contradicts_what_is_offered(testbed: Root) -> None:
    inventory = Inventory(HostCache(testbed), "n")
    fitting = [each_resource for each_resource in RESOURCES if not each_resource.node_names]
    offers = decide(fitting, inventory.host, node_name="n", previous={}, now=0.0).lists
    owner = {
        each_device.device.key: (name, device_id)
        for name, offer in offers.items()
        for device_id, each_device in offer.devices.items()
    }
    refused = {
        (name, entry.device.key) for name, offer in offers.items() for entry in offer.not_offered
    }
    asked = 0
    for device in every(inventory):
        found = find(device.syspath, inventory)
        assert isinstance(found, Asked)
        explanation = explain(found, RESOURCES, offers, inventory)
        key = found.candidate.key
        for verdict in explanation.verdicts:
            name = verdict.resource.name
            is_offered = verdict.outcome in {VerdictKind.OFFERED, VerdictKind.UNHEALTHY}
            assert is_offered == (owner.get(key) == (name, verdict.device_id))
            is_refused = verdict.outcome in {VerdictKind.REFUSED, VerdictKind.EXCLUDED}
            assert is_refused == ((name, key) in refused)
        asked += 1
    assert asked


def test_each_selector_of_the_catalogue_takes_what_it_stands_beside(
    testbed: Root, tmp_path: Path
) -> None:
    """Strings that YAML would read as something else are quoted."""
    config = tmp_path / "config.yaml"
    inventory = inventory_of(testbed)
    groups = catalogue(inventory)
    runs = [run for group in groups for run in (group.itself, *group.members) if run]
    assert runs
    for run in runs:
        config.write_text(
            "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginConfig\nresources:\n"
            f"  - name: example.com/it\n    match:\n      - {run.selector}\n"
            "    inject: {env: {A: b}}\n"
        )
        loaded = load([config])
        assert loaded.problems == ()
        for entry in run.entries:
            said = explained(testbed, loaded.resources, entry.path)
            assert not isinstance(said, Unknown)
            assert said.verdicts[0].outcome in {VerdictKind.OFFERED, VerdictKind.REFUSED}
            assert said.verdicts[0].tries[0].failed is None, (entry.path, run.selector)


def test_the_catalogue_names_every_device_file_and_each_thing_once(testbed: Root) -> None:
    inventory = inventory_of(testbed)
    entries = [
        entry
        for group in catalogue(inventory)
        for run in (group.itself, *group.members)
        if run
        for entry in run.entries
    ]
    paths = [entry.path for entry in entries]
    assert len(set(paths)) == len(paths)
    files = {item.device_file for item in every(inventory) if item.number is not None}
    assert files <= set(paths)


def _damage(directory: Path, chance: random.Random) -> None:
    files = sorted(path for path in directory.rglob("*") if path.is_file() or path.is_symlink())
    for path in chance.sample(files, min(len(files), 30)):
        kind = chance.randrange(4)
        target = path.parent.resolve() / path.name
        if not target.is_relative_to(directory.resolve()) or not target.parent.is_dir():
            continue
        target.unlink(missing_ok=True)
        if kind == 1:
            target.symlink_to(target.name)
        elif kind == 2:
            target.write_bytes(b"\xff\x00=\n\x1b" * 10)
        elif kind == 3:
            target.mkdir()


@settings(max_examples=examples(8))
@given(name=st.sampled_from(loading.NAMES), seed=st.integers(0, 2**32))
def test_a_damaged_host_is_explained_all_the_same(name: str, seed: int) -> None:
    chance = random.Random(seed)
    with TemporaryDirectory() as directory:
        root = loading.build(loading.path_of(name), Path(directory))
        known = [entry.syspath for entry in every(inventory_of(root))]
        _damage(Path(directory), chance)
        for syspath in chance.sample(known, min(len(known), 5)):
            said = explained(root, RESOURCES, syspath)
            assert isinstance(said, Unknown) or said.headline.isprintable()
        for asked in ("/dev/ttyUSB0", "1-1.1", "0000:0a:00.0", "eth0", "/dev", "/", "", ".."):
            explained(root, RESOURCES, asked)
        for group in catalogue(inventory_of(root)):
            for run in group.members:
                assert run.selector.isprintable()
                assert all(line.isprintable() for _, line in run.entries[0].lines())


@settings(max_examples=examples(40))
@given(text=st.text(max_size=40))
def test_whatever_is_asked_there_is_an_answer(text: str) -> None:
    found = find(text.replace("\0", ""), Inventory(Known(look=lambda _: None)))
    assert isinstance(found, Unknown)
    assert found.tried


def test_a_text_of_the_host_is_no_pattern() -> None:
    """A stick's serial number may be ``*``. Back if ``as_glob`` does not escape."""
    assert as_glob("a*[b]?") == "a[*][[]b][?]"
    assert as_glob("a\udcff") == "a?"


def test_a_file_that_sysfs_does_not_know_is_explained_by_its_path() -> None:
    def look(pattern: str) -> Look:
        return Look(files=(node("/dev/x", (240, 0)),) if pattern == "/dev/x" else ())

    inventory = Inventory(Known(look=look), "n")
    found = find("/dev/x", inventory)
    assert isinstance(found, Asked)
    resources = (resource("y", "/dev/y"), resource("z", "/srv/*"))
    said = explain(found, resources, {}, inventory)
    assert said.headline == (
        "/dev/x is not offered: example.com/y expected path /dev/y, found /dev/x"
    )
    assert explain(found, (), {}, inventory).headline == (
        "/dev/x is not offered: the config names no resource"
    )
    lists = {"example.com/y": DeviceList(undecided=Reason(Code.UNDECIDED, "out of memory"))}
    assert explain(found, resources[:1], lists, inventory).headline == (
        "/dev/x is not offered: example.com/y cannot be decided: out of memory"
    )
