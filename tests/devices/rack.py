"""Machines whose hardware is plugged in and out, as described by ``rack.yaml``.

Hardware knows its place and its serial number, but not its names: a ``Kernel`` hands out ``sda``,
``ttyUSB0`` and minor numbers in the order of appearance, always the lowest free number. So after a
reboot in another order everything has another name, and is still the same hardware.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from genericdp.host.cache import HostCache
from genericdp.host.root import Root

from tests.cases.description import entry_of
from tests.testbeds import loading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tests.testbeds.loading import Entry

Tree = dict[str, Any]
FAMILIES: Mapping[str, Tree] = yaml.load(
    Path(__file__).with_name("rack.yaml").read_text(), yaml.CBaseLoader
)["families"]
"""Hardware whose numbers the kernel counts together, by paths of sysfs."""
_BLANK = re.compile(r"<(\w+)(#\w+)?>")
_FIRST = {"ata": 1, "ifindex": 2, "ns": 1, "renderD": 128, "ttyS": 4}


class Part(NamedTuple):
    """One device of some hardware, whatever the kernel calls it."""

    hardware: str
    label: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Place:
    """A device of a rack: each blank of its keys is a number, which has an owner."""

    path: str
    keys: Tree
    parent: Place | None
    is_passed: bool
    """Whether there is hardware at or below it."""

    @cached_property
    def lineage(self) -> tuple[str, ...]:
        """All hardware that it is a part of, or is on: the nearest last."""
        above = self.parent.lineage if self.parent else ()
        own = self.keys.get("is")
        return (*above, own) if own else above

    @property
    def hardware(self) -> str:
        """The nearest hardware at or above it, or an empty string."""
        return self.lineage[-1] if self.lineage else ""

    @property
    def part(self) -> Part:
        """The hardware, and which of its devices this is."""
        return Part(self.hardware, f"{self.keys['subsystem']} {self.path.rpartition('/')[2]}")

    @cached_property
    def owners(self) -> dict[str, str]:
        """Return what has each number that is to be filled in."""
        above = self.parent.owners if self.parent else {}
        blanks = [blank for blank, _ in _BLANK.findall(f"{self.path} {self.keys}")]
        return {**dict.fromkeys(blanks, self.hardware or self.path), **above}

    def inherited(self, key: str) -> str:
        """Return the value of a key, or that of what it is on, or an empty string."""
        own = self.keys.get(key, "")
        return own or (self.parent.inherited(key) if self.parent else "")

    @property
    def default_id(self) -> str:
        """The ID that it has without a template."""
        return self.inherited("id").replace("<sub>", self.keys["subsystem"])


def _flattened(tree: Tree, path: str, texts: Tree) -> Iterator[tuple[str, Tree]]:
    while base := tree.get("as"):
        tree = _merged(base, {key: value for key, value in tree.items() if key != "as"})
    texts = {**texts, **tree.get("with", {})}
    below = {key: value for key, value in tree.items() if key.startswith("/")}
    keys = {key: value for key, value in tree.items() if key not in {*below, "with"}}
    yield path, _filled(keys, texts)
    for name, device in below.items():
        yield from _flattened(device, path + _filled(name, texts), texts)


def _merged(base: Tree, over: Tree) -> Tree:
    both = base.keys() & over.keys()
    nested = {key: _merged(base[key], over[key]) for key in both if isinstance(base[key], dict)}
    return {**base, **over, **nested}


def _filled(value: Any, texts: Mapping[str, object]) -> Any:
    """Fill blanks in, wherever they are in a value."""
    if isinstance(value, dict):
        return {key: _filled(item, texts) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, texts) for item in value]
    return _BLANK.sub(lambda blank: str(texts.get(blank[1], blank[0])), value)


def _above(path: str) -> Iterator[str]:
    """Yield a path and the directories that it lies in, the nearest first."""
    while path:
        yield path
        path = path.rpartition("/")[0]


class Rack:
    """Hardware that can be plugged in."""

    def __init__(self, *trees: Tree) -> None:
        keys: dict[str, Tree] = {}
        for tree in trees:
            for path, own in _flattened(tree, "/devices", {}):
                keys[path] = keys.get(path, {}) | own
        inhabited = {above for path in keys if "is" in keys[path] for above in _above(path)}
        self.places: dict[str, Place] = {}
        for path in sorted(keys):
            above = (self.places[place] for place in _above(path) if place in self.places)
            self.places[path] = Place(
                path=path,
                keys=keys[path],
                parent=next(above, None),
                is_passed=path in inhabited,
            )
        self.hardware = [*dict.fromkeys(own["is"] for own in keys.values() if "is" in own)]

    def place(self, hardware: str) -> Place:
        """Return the first device of some hardware."""
        return next(place for place in self.places.values() if place.keys.get("is") == hardware)

    def shown_by(self, hardware: str) -> list[Place]:
        """Return the devices that appear with hardware, and those that it is on."""
        own = [place for place in self.places.values() if place.keys.get("is") == hardware]
        ways = {path for place in own for path in _above(place.path)}
        lineage = own[0].lineage

        def is_shown(place: Place) -> bool:
            if place.hardware or place.is_passed:
                return place.path in ways or place.hardware in lineage
            return place.parent is not None and place.parent.path in ways

        return [place for place in self.places.values() if is_shown(place)]


class Kernel:
    """Hands out numbers from boot to shutdown."""

    def __init__(self, appearances: Iterator[int]) -> None:
        self._appearances = appearances
        self._numbers: dict[tuple[str, str], int] = {}
        self._used: set[tuple[str, str]] = set()

    def show(self, places: Iterable[Place]) -> dict[str, tuple[Place, Entry]]:
        """Return devices with their names; the numbers of those that are not shown are free."""
        shown = {}
        for place in places:
            numbers = {name: self._count(name, owner) for name, owner in place.owners.items()}
            keys = _filled(place.keys, numbers)
            for own in ("is", "id", "weak"):
                keys.pop(own, None)
            if "subsystem" not in keys:
                continue
            if node := keys.get("node"):
                major, *name = node.split(" ", 1)
                minor = self._count(f"minor {major}", place.path)
                keys["node"] = " ".join([f"{major}:{minor}", *name])
            path = _filled(place.path, numbers)
            appearance = self._count("seq", place.hardware or place.path)
            entry = replace(entry_of(path, keys), content=str(appearance).encode())
            shown[path] = (place, entry)
        self._numbers = {key: self._numbers[key] for key in self._used}
        self._used.clear()
        return shown

    def _count(self, kind: str, owner: str) -> int | str:
        """Return the number of an owner: the lowest of its kind that is free."""
        key = (kind, owner)
        self._used.add(key)
        if key not in self._numbers:
            taken = {number for (other, _), number in self._numbers.items() if other == kind}
            numbers = self._appearances if kind == "seq" else itertools.count(_FIRST.get(kind, 0))
            self._numbers[key] = next(number for number in numbers if number not in taken)
        number = self._numbers[key]
        return chr(ord("a") + number) if kind == "sd" else number


class Machine:
    """A copied tree, in which hardware appears and disappears."""

    def __init__(self, rack: Rack, directory: Path) -> None:
        self.rack = rack
        self.plugged: list[str] = []
        """The hardware in the order of appearance."""
        self._directory = directory
        self._appearances = itertools.count(1)
        self._kernel = Kernel(self._appearances)
        self.shown: dict[str, tuple[Place, Entry]] = {}
        """All devices by path."""
        self.host = HostCache(Root(directory))
        """The host as a decision reads it, without any memory of what it was before."""
        (directory / "sys/devices").mkdir(parents=True)

    def plug(self, *hardware: str) -> None:
        """Plug hardware in, or have the kernel make it (a partition, a subfunction)."""
        self.plugged += [new for new in hardware if new not in self.plugged]
        self.refresh()

    def unplug(self, *hardware: str) -> None:
        """Remove hardware, and what is on it."""
        gone = {*hardware}
        self.plugged = [
            there for there in self.plugged if gone.isdisjoint(self.rack.place(there).lineage)
        ]
        self.refresh()

    def reboot(self, order: Iterable[str]) -> None:
        """Boot again; the kernel may find the hardware in another order."""
        self.plugged = list(order)
        self._kernel = Kernel(self._appearances)
        self.refresh()

    def refresh(self) -> None:
        """Show what is plugged in as files."""
        places = [place for hardware in self.plugged for place in self.rack.shown_by(hardware)]
        former, self.shown = self.shown, self._kernel.show(dict.fromkeys(places))
        before, now = (
            {path: entry for path, (_, entry) in some.items()} for some in (former, self.shown)
        )
        changed = {path for path in before if _kernels(before[path]) != _kernels(now.get(path))}
        changed = {path for path in before if not changed.isdisjoint(_above(path))}
        for path in sorted(changed, reverse=True):
            loading.remove_entry(before[path], self._directory)
        new = sorted(path for path in now if path in changed or path not in before)
        loading.build_entries([now[path] for path in new], self._directory)
        for entry in now.values():
            if entry.udev:
                record = self._directory / "run/udev/data" / loading.record_name(entry)
                record.write_text(loading.record_of(entry))
        self.host = HostCache(Root(self._directory))
        self.__dict__.pop("parts", None)

    @cached_property
    def parts(self) -> dict[str, Part]:
        """All devices of hardware that are shown, by each path under which one can be found."""
        return {
            name: place.part
            for place, entry in self.shown.values()
            if place.hardware
            for name in (f"/sys{entry.path}", *_nodes(entry))
        }


def _nodes(entry: Entry) -> list[str]:
    return [f"/dev/{name}" for name in (entry.node, *entry.links)]


def _kernels(entry: Entry | None) -> Entry | None:
    """Return a device without what udev says of it."""
    return entry and replace(entry, udev={})
