"""The value ``linkedBy``: the name of the one link that leads to a device's own folder."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from genericdp.cli import main
from genericdp.devices.decide import decide
from genericdp.devices.inventory import FoundFile
from genericdp.host.cache import HostCache
from genericdp.host.root import Root
from tests.config.loading import HEAD, loaded
from tests.fixtures.make_tree import Tree
from tests.printed import resources_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from genericdp.devices.inventory import Look
    from genericdp.host.pathwalk import Walk

Capture = pytest.CaptureFixture[str]
SLOT = "    values: {slot: {linkedBy: '/sys/class/slots/slot*', regex: '[0-9]+'}}\n"
OF_GPS0 = "/sys/devices/virtual/misc/gps0"
POLICY = "apiVersion: genericdp.io/v1alpha1\nkind: DevicePluginPolicy\ndevices: {}\n"
NOT_KNOWN = "may be excluded, but the value 'slot': "


class Machine(Tree):
    """A host of receivers in slots."""

    def slot(self, name: str, target: str) -> None:
        """Put a device into a slot."""
        self.link(f"sys/class/slots/slot{name}", f"../../devices/virtual/misc/{target}")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Three receivers, the last one in no slot, and a file that is no device."""
    machine = Machine(tmp_path / "root")
    for i in range(3):
        machine.node(f"gps{i}", f"10:{i + 1}")
    machine.slot("7", "gps0")
    machine.slot("12", "gps1")
    machine.write("dev/gps.conf", "")
    return machine


def discovered(
    machine: Machine, capsys: Capture, keys: str, *, types: str = "char", files: str = ""
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the ids of what ``discover`` finds, by path, and the reasons for what it does not."""
    config = machine.folder.parent / "config.yaml"
    match = f"    match: [{{path: '/dev/gps*', type: [{types}]}}]\n"
    config.write_text(f"{HEAD}  - name: example.com/gps\n{match}{keys}")
    options = [f"--config={config}", f"--root={machine.folder}", "-o", "json"]
    if files:
        policy = config.with_name("policy.yaml")
        policy.write_text(f"{POLICY}files: ['{files}']\n")
        options.append(f"--policy={policy}")
    assert main(["discover", *options]) == 0
    found = resources_in(capsys.readouterr().out)["example.com/gps"]
    ids = {one["path"].removeprefix("/dev/"): one["id"] for one in found["devices"]}
    reasons = {one["path"].removeprefix("/dev/"): one["reason"] for one in found["notOffered"]}
    return ids, reasons


def test_it_is_the_name_of_the_link_that_leads_to_the_device(
    machine: Machine, capsys: Capture
) -> None:
    ids, reasons = discovered(machine, capsys, f"{SLOT}    id: in-$(value.slot)\n")
    assert ids == {"gps0": "in-7", "gps1": "in-12"}
    said = "no link among /sys/class/slots/slot* leads to /sys/devices/virtual/misc/gps2"
    assert said in reasons["gps2"]


def test_a_selector_takes_a_device_by_it(machine: Machine, capsys: Capture) -> None:
    config = f"{SLOT}    exclude: [{{path: /dev/gps*, values: {{slot: '7'}}}}]\n"
    ids, reasons = discovered(machine, capsys, config)
    assert ids.keys() == {"gps1", "gps2"}
    assert reasons == {"gps0": "excluded by the config"}


def test_what_has_no_folder_in_sysfs_lacks_it(machine: Machine, capsys: Capture) -> None:
    keys = f"{SLOT}    id: in-$(value.slot:-none)\n    inject: {{devices: [], env: {{A: b}}}}\n"
    ids, _ = discovered(machine, capsys, keys, types="file")
    assert ids == {"gps.conf": "in-none"}
    _, reasons = discovered(machine, capsys, keys.replace(":-none", ""), types="file")
    assert "it has no folder in sysfs" in reasons["gps.conf"]


def test_a_folder_or_file_of_the_glob_is_no_link(machine: Machine, capsys: Capture) -> None:
    keys = "    values: {me: {linkedBy: '/sys/devices/virtual/misc/*'}}\n    id: $(value.me)\n"
    ids, reasons = discovered(machine, capsys, keys)
    assert ids == {}
    assert all("no link among" in one for one in reasons.values())


def test_its_folder_may_be_reached_by_links_of_each_device(
    machine: Machine, capsys: Capture
) -> None:
    """As functions of a card lead to it by their physfn."""
    for i in range(3):
        machine.link(f"sys/devices/virtual/misc/gps{i}/card", "../../../../class/slots")
    keys = "    values: {v: {linkedBy: '$(device.syspath)/card/s*'}}\n    id: $(value.v:-none)\n"
    ids, _ = discovered(machine, capsys, keys)
    assert ids == {"gps0": "slot7", "gps1": "slot12", "gps2": "none"}


@pytest.mark.parametrize("count", [16, 64])
def test_each_link_is_followed_once_for_all_devices(tmp_path: Path, count: int) -> None:
    """256 functions of a card have 256 links, which are not followed for each of them."""
    machine = Machine(tmp_path / "root")
    for i in range(count):
        machine.node(f"gps{i}", f"10:{i}")
        machine.link(f"sys/devices/virtual/misc/gps{i}/card", "../../../../class/slots")
        machine.slot(str(i), f"gps{i}")
    walked = []

    class Counting(Root):
        def walk(self, path: str, *, past_missing: bool = False) -> Walk:
            walked.append(path)
            return super().walk(path, past_missing=past_missing)

    values = "values: {v: {linkedBy: '$(device.syspath)/card/s*'}}, id: $(value.v)"
    config = loaded(f"{HEAD}  - {{name: a/gps, match: [{{path: '/dev/gps*'}}], {values}}}\n")
    host = HostCache(Counting(machine.folder))
    found = decide(config.resources, host, node_name="n", previous={}, now=0.0)
    assert sorted(found.lists["a/gps"].devices) == sorted(f"slot{i}" for i in range(count))
    assert len(walked) < 10 * count


@pytest.mark.parametrize("count", [16, 64])
def test_links_are_gone_through_once_and_a_value_is_found_out_once_for_each_device(
    tmp_path: Path, count: int
) -> None:
    """Else 5,000 devices would have 25,000,000 links. A value may be needed in four places."""
    machine = Machine(tmp_path / "root")
    for i in range(count):
        machine.node(f"gps{i}", f"10:{i}")
        machine.slot(str(i), f"gps{i}")
    asked, passes = [], []

    class Counted(tuple[FoundFile, ...]):
        __slots__ = ()

        def __iter__(self) -> Iterator[FoundFile]:
            passes.append(self)
            return super().__iter__()

    class Counting(HostCache):
        def look(self, pattern: str) -> Look | None:
            if (look := super().look(pattern)) is None or "slot" not in pattern:
                return look
            asked.append(pattern)
            if len(asked) == 1:
                self.of_slots = replace(look, files=Counted(look.files))
            return self.of_slots

    match = "match: [{path: '/dev/gps*', values: {v: slot*}}], groupBy: $(value.v), id: $(value.v)"
    values = "values: {v: {linkedBy: '/sys/class/slots/slot*'}}"
    config = loaded(f"{HEAD}  - {{name: a/gps, {match}, {values}}}\n")
    host = Counting(Root(machine.folder))
    found = decide(config.resources, host, node_name="n", previous={}, now=0.0)
    assert sorted(found.lists["a/gps"].devices) == sorted(f"slot{i}" for i in range(count))
    assert len(asked) == count
    assert len(passes) == 2


def test_two_links_are_no_answer_for_the_device_that_they_lead_to(
    machine: Machine, capsys: Capture
) -> None:
    machine.slot("8", "gps0")
    keys = f"{SLOT}    exclude: [{{path: /dev/gps*, values: {{slot: '99'}}}}]\n"
    ids, reasons = discovered(machine, capsys, keys)
    assert ids.keys() == {"gps1", "gps2"}
    several = f"2 links among /sys/class/slots/slot* lead to {OF_GPS0}, wanted one"
    assert reasons == {"gps0": NOT_KNOWN + several}
    ids, _ = discovered(machine, capsys, f"{SLOT}    id: $(device.name)-$(value.slot:-x)\n")
    assert ids == {"gps0": "gps0-x", "gps1": "gps1-12", "gps2": "gps2-x"}


@pytest.mark.parametrize("target", ["gone", "../../../class/slots/slot9"])
def test_a_link_that_leads_nowhere_may_exclude(
    machine: Machine, capsys: Capture, target: str
) -> None:
    """The second one leads to itself."""
    machine.slot("9", target)
    keys = f"{SLOT}    exclude: [{{path: /dev/gps*, values: {{slot: '99'}}}}]\n"
    ids, reasons = discovered(machine, capsys, keys)
    assert ids == {}
    assert set(reasons.values()) == {
        f"{NOT_KNOWN}/sys/class/slots/slot9 is a link that leads nowhere"
    }


@pytest.mark.parametrize("folder", ["/run/slots", "$(device.syspath)/slots"])
def test_a_folder_that_cannot_be_read_may_exclude(
    machine: Machine, capsys: Capture, folder: str
) -> None:
    machine.link("run/slots", "slots")
    for i in range(3):
        machine.link(f"sys/devices/virtual/misc/gps{i}/slots", "/run/slots")
    keys = f"    values: {{slot: {{linkedBy: '{folder}/s*'}}}}\n"
    keys += "    exclude: [{path: /dev/gps*, values: {slot: s9}}]\n"
    ids, reasons = discovered(machine, capsys, keys)
    assert ids == {}
    assert len(reasons) == 3
    assert all(one.startswith(NOT_KNOWN) for one in reasons.values())


def test_a_link_that_a_user_can_turn_is_not_believed(machine: Machine, capsys: Capture) -> None:
    """Turned away from a device, it would undo what the config excludes."""
    machine.link("run/slots/s1", OF_GPS0)
    (machine.folder / "run/slots").chmod(0o777)
    keys = "    values: {slot: {linkedBy: /run/slots/s*}}\n"
    keys += "    exclude: [{path: /dev/gps*, values: {slot: s9}}]\n"
    ids, reasons = discovered(machine, capsys, keys)
    assert ids == {}
    said = f"{NOT_KNOWN}/run/slots/s1 must not be read: the link /run/slots/s1 lies in a folder"
    assert all(one.startswith(said) for one in reasons.values())


@pytest.mark.parametrize("files", ["/sys/class/slots", "/sys/class/*/slot[0-9]*", "/sys"])
def test_a_policy_allows_the_links(machine: Machine, capsys: Capture, files: str) -> None:
    keys = "    values: {v: {linkedBy: '/sys/class/slots/slot[0-9]*'}}\n    id: $(value.v)\n"
    ids, _ = discovered(machine, capsys, keys, files=files)
    assert ids == {"gps0": "slot7", "gps1": "slot12"}


@pytest.mark.parametrize("folder", ["slots", "sl*"])
def test_a_policy_that_allows_some_links_refuses_the_others(
    machine: Machine, capsys: Capture, folder: str
) -> None:
    keys = f"    values: {{v: {{linkedBy: '$(property.none:-/sys)/class/{folder}/*'}}}}\n"
    ids, reasons = discovered(
        machine, capsys, f"{keys}    id: $(value.v)\n", files="/sys/class/slots/slot7"
    )
    assert ids == {"gps0": "slot7"}
    assert "/sys/class/slots/slot12 is not among the files that are allowed" in reasons["gps1"]
