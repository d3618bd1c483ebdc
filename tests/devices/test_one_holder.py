"""One piece of hardware, one name and one holder: whatever is plugged, booted, or edited.

15 histories of up to 40 steps, a quarter of them edits of the config: some 600 decisions. A model
of a kubelet starts pods and claims with what it is offered, and knows which hardware they have got.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from genericdp.model import Selector, ServedBy
from genericdp.template import parse
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.budget import examples
from tests.devices.holding import Node
from tests.devices.making import selector
from tests.devices.offering import offers, resource_of
from tests.devices.rack import FAMILIES, Machine, Rack
from tests.selecting import udev_selector, usb_selector

if TYPE_CHECKING:
    from genericdp.template import Template

    from tests.devices.rack import Part, Tree

pytestmark = pytest.mark.slow

PORTS = ("1-1.1", "1-1.2", "1-3", "2-1")
EXCLUDES = {
    "stick A1": Selector(candidates=usb_selector(serial=("A1",))),
    "port 1-3": Selector(candidates=usb_selector(port=("1-3",))),
    "partitions": Selector(candidates=udev_selector(subsystem=("block",), devtype=("partition",))),
    "ttyUSB0": selector("/dev/ttyUSB0"),
}
IDS = (
    *(None, "$(device.name)", "$(usb.serial)-$(device.name)", "$(usb.serial:-none)"),
    *("$(property.ID_NOTE)", "$(property.ID_NOTE:-none)-$(device.minor)"),
)
FIRST = tuple(
    replace(resource_of(subsystem), name=f"example.com/{name}")
    for name, subsystem in (("serial", "tty"), ("ftdi", "tty"), ("disks", "block"), ("nics", "net"))
)


def id_of(text: str | None) -> Template | None:
    return None if text is None else parse(text)


REST = ("sata 1", "sata 2", "sata 1 p1", "sata 2 p1", "can 0", "can 1")


@dataclass
class Stick:
    """A stick that can be held, and where it is."""

    name: str
    port: str
    serial: str = ""
    note: str = ""
    """What udev says of everything that it has."""

    @property
    def hardware(self) -> tuple[str, ...]:
        """The stick, and what it brings along: two serial ports."""
        return (self.name, f"{self.name} port 0", f"{self.name} port 1")

    def tree(self) -> Tree:
        """Return it as a rack has it."""
        bus, hub = self.port[0], "/1-1" if "." in self.port else ""
        ports: Tree = {}
        for number, name in enumerate(self.hardware[1:]):
            tty = {"subsystem": "tty", "node": "188", "ID_BUS": "usb", "ID_NOTE": self.note}
            links = [f"serial/by-id/{self.serial}-{number}"] if self.serial else []
            ports[f"/ttyUSB<tty#{number}>"] = {
                "is": name,
                "subsystem": "usb-serial",
                "port_number": str(number),
                "/tty/ttyUSB<tty>": {**tty, "links": links},
            }
        usb = {"subsystem": "usb", "busnum": bus, "devnum": "<seq>", "idVendor": "0403"}
        usb |= {"is": self.name, "DEVTYPE": "usb_device", "node": f"189 bus/usb/00{bus}/<seq>"}
        usb |= {"serial": self.serial} if self.serial else {}
        interface = {"subsystem": "usb", "DEVTYPE": "usb_interface", "bInterfaceNumber": "00"}
        path = f"/pci0000:00/0000:00:14.0/usb{bus}{hub}/{self.port}"
        return {path: {**usb, f"/{self.port}:1.0": {**interface, **ports}}}


def sticks() -> list[Stick]:
    return [
        Stick("stick 1", "1-1.1", "A1", note="left"),
        Stick("stick 2", "1-1.2", "A2", note="right"),
        Stick("stick 3", "1-3", note="left"),
        Stick("stick 4", "2-1"),
    ]


index = st.integers(0, 30)


class Histories(RuleBasedStateMachine):
    """Events of a node. After each step but a hidden one, the daemon decides."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self.sticks = sticks()
        self.machine = Machine(self._rack(*self.sticks), Path(self._directory.name, "machine"))
        self.config = [*FIRST]
        self.renamed = 0
        self.node = Node(self.machine, ())
        self.ids: dict[tuple[str, Part, str], str] = {}
        """The ID under which each part was offered: by resource, part and place."""
        self.is_seen = True
        """Whether the daemon has decided since the last change."""

    @initialize(new_ids=st.lists(st.sampled_from(IDS), min_size=2, max_size=2))
    def start(self, new_ids: list[str | None]) -> None:
        for number, new_id in enumerate(new_ids):
            self.config[number] = replace(self.config[number], id=id_of(new_id))
        for stick in self.sticks[:3]:
            self.machine.plug(*stick.hardware)
        self.machine.plug(*REST[:3])
        self._take_config()

    def _rack(self, *sticks: Stick) -> Rack:
        """Return what these sticks are in, with what can always be plugged."""
        hubs = {"/pci0000:00/0000:00:14.0": FAMILIES["usb serial"]["/pci0000:00/0000:00:14.0"]}
        trees = (stick.tree() for stick in sticks)
        return Rack(FAMILIES["sata"], FAMILIES["can"], hubs, *trees)

    def teardown(self) -> None:
        self._directory.cleanup()

    def _take_config(self) -> None:
        """A config with other resources, names or IDs."""
        self.node.resources = tuple(self.config)
        self.ids.clear()
        self._changed()

    def _changed(self, *, is_seen: bool = True, seconds: float = 1.0) -> None:
        self.is_seen = is_seen
        if is_seen:
            self.node.look(seconds)
            self._check_names()
            self._check_holders()

    def _check_names(self) -> None:
        """Check that no hardware is offered under two names, nor under one ID after the other.

        Its ID may change when the config does, when the hardware is plugged in elsewhere, and when
        its holder is done with an ID that the config no longer gives.
        """
        names: dict[Part, list[tuple[str, str]]] = {}
        for (name, part), ids in offers(self.node.lists, self.machine).items():
            names.setdefault(part, []).extend((name, device_id) for device_id in ids)
        several = {part: named for part, named in names.items() if len(named) > 1}
        assert not several, "hardware is offered under several names"
        now = {
            (named[0][0], part, self.node.place(part)): named[0][1] for part, named in names.items()
        }
        former = {key: self.ids[key] for key in now if key in self.ids}
        assert {key: now[key] for key in former} == former
        # Other hardware that has had one of these IDs may have lost it for good.
        passed = {(key[0], device_id) for key, device_id in now.items()}
        rest = {key: named for key, named in self.ids.items() if (key[0], named) not in passed}
        self.ids = rest | now

    def _check_holders(self) -> None:
        """Check that nothing that a pod or claim has is offered to another one.

        Only shares may go to several: of hardware that has several, then and now. And no name that
        is held is that of other hardware: its holder would get that at its next start.
        """
        for name, listed in self.node.free():
            conflicts = self.node.conflicts(name, listed)
            assert not conflicts, f"{name} is offered, and held as {conflicts[0]}"
        assert not [*self.node.foreign()], "a held name is that of other hardware"

    def _forget_named(self) -> None:
        """IDs that are not the default may be others once the daemon has forgotten devices."""
        default = {wanted.name for wanted in self.config if wanted.id is None}
        self.ids = {key: device_id for key, device_id in self.ids.items() if key[0] in default}

    # The hardware

    @rule(number=index, is_seen=st.booleans())
    def plug_or_unplug(self, number: int, *, is_seen: bool) -> None:
        hardware = REST[number % len(REST)]
        if hardware in self.machine.plugged:
            self.machine.unplug(hardware)
        else:
            self.machine.plug(hardware)
        self._changed(is_seen=is_seen)

    @rule(number=st.integers(0, 3), port=st.sampled_from(PORTS), is_seen=st.booleans())
    def plug_stick(self, number: int, port: str, *, is_seen: bool) -> None:
        """Into a port: the same one as before, a free one, or in place of another stick."""
        self._plug(self.sticks[number], port)
        self._changed(is_seen=is_seen)

    @precondition(lambda self: self._held_sticks())
    @rule(number=index, port=st.sampled_from(PORTS), is_seen=st.booleans())
    def plug_held_stick(self, number: int, port: str, *, is_seen: bool) -> None:
        held = self._held_sticks()
        self._plug(held[number % len(held)], port)
        self._changed(is_seen=is_seen)

    @precondition(lambda self: self._held_sticks())
    @rule(number=index, other=st.integers(0, 3))
    def replace_held_stick(self, number: int, other: int) -> None:
        held = self._held_sticks()
        self._plug(self.sticks[other], held[number % len(held)].port)
        self._changed()

    def _held_sticks(self) -> list[Stick]:
        hardware = {hold.part.hardware for hold in self.node.holds.values()}
        return [stick for stick in self.sticks if not hardware.isdisjoint(stick.hardware)]

    def _plugged(self) -> list[Stick]:
        return [stick for stick in self.sticks if stick.name in self.machine.plugged]

    def _plug(self, stick: Stick, port: str) -> None:
        there = [other for other in self.sticks if other.port == port]
        self.machine.unplug(stick.name, *(other.name for other in there))
        stick.port = port
        self.machine.rack = self._rack(stick, *self._plugged())
        self.machine.plug(*stick.hardware)

    @rule(number=st.integers(0, 3), is_seen=st.booleans())
    def unplug_stick(self, number: int, *, is_seen: bool) -> None:
        self.machine.unplug(self.sticks[number].name)
        self._changed(is_seen=is_seen)

    @rule(seed=st.none() | st.integers(0, 99))
    def restart(self, seed: int | None) -> None:
        """Restart the daemon or, by a seed, the machine: it finds everything in another order."""
        if seed is not None:
            plugged = [*self.machine.plugged]
            Random(seed).shuffle(plugged)
            self.machine.reboot(plugged)
        self.node.restart_daemon()
        self._forget_named()
        self._changed()

    @rule()
    def wait_until_devices_are_forgotten(self) -> None:
        self._forget_named()
        self._changed(seconds=400.0)
        self._changed()

    # Pods and claims

    @rule(numbers=st.lists(index, min_size=1, max_size=4))
    def start_pods(self, numbers: list[int]) -> None:
        for number in numbers:
            if not self.is_seen:
                self._changed()
            if free := list(self.node.free()):
                self.node.give(*free[number % len(free)])
                self.is_seen = False

    @precondition(lambda self: self.node.holds)
    @rule(number=index)
    def end_pod(self, number: int) -> None:
        """Its devices may be offered under the name that the config gives it now."""
        names = list(self.node.holds)
        del self.node.holds[names[number % len(names)]]
        self.ids.clear()
        self._changed()

    # The config

    @rule(number=index, new_id=st.sampled_from(IDS))
    def change_id(self, number: int, new_id: str | None) -> None:
        self._edit(number, id=id_of(new_id))

    @rule(number=index, kind=st.sampled_from(["name", "order", "served_by"]))
    def rename(self, number: int, kind: str) -> None:
        """Offer devices under another name, by another resource, or by the kubelet's other API."""
        number %= len(self.config)
        self.renamed += 1
        if kind == "order":
            self.config.append(self.config.pop(number))
            self._take_config()
        elif kind == "name":
            self._edit(number, name=f"example.com/renamed-{self.renamed}")
        else:
            former = self.config[number].served_by
            self._edit(number, served_by=next(api for api in ServedBy if api is not former))

    @rule(number=index, replicas=st.sampled_from([1, 2, 3]))
    def change_replicas(self, number: int, replicas: int) -> None:
        self._edit(number, replicas=replicas)

    @rule(number=index, name=st.sampled_from(list(EXCLUDES)))
    def change_exclude(self, number: int, name: str) -> None:
        excluded, entry = self.config[number % len(self.config)].exclude, EXCLUDES[name]
        others = tuple(other for other in excluded if other != entry)
        self._edit(number, exclude=others if entry in excluded else (*excluded, entry))

    def _edit(self, number: int, **changes: object) -> None:
        number %= len(self.config)
        self.config[number] = replace(self.config[number], **changes)  # type: ignore[arg-type]
        self._take_config()


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=examples(15), stateful_step_count=40, deadline=None, derandomize=True
)
