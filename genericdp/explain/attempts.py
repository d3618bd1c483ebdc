"""How far each selector gets with a candidate: the first condition that does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.conditions import (
    Condition,
    conditions,
    is_candidate_of,
    kind_of,
    unmet,
    unmet_hardware,
)
from genericdp.devices.hardware import (
    is_net_interface,
    is_pci_function,
    is_usb_device,
    is_usb_interface,
    lineage,
)
from genericdp.devices.matching import of_device, of_file, unmet_values
from genericdp.explain.describe import any_of, complaint
from genericdp.model import PathSelector, UdevSelector
from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from genericdp.devices.conditions import SysSelector
    from genericdp.devices.inventory import Inventory
    from genericdp.devices.matching import Candidate
    from genericdp.devices.sysdevice import Host, SysDevice
    from genericdp.model import Resource, Selector

_OTHER_KIND = -1
_MOST_BELOW = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Try:
    """One entry of ``match`` against one candidate."""

    entry: str
    """Its place in the resource: ``match[0]``."""
    selector: Selector
    path: str
    """What was tried, as the selector found it."""
    failed: Condition | None = None
    """None: the selector takes it."""
    words: str = ""
    """What it wants that is not so, in words."""
    held: int = 0
    """How many conditions held before; -1: it looks at other things altogether."""
    about: str = ""
    """What was tried, if it is not what was asked about but sits on it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """One resource in one pass over the host, for which selectors are tried."""

    resource: Resource
    inventory: Inventory

    def tries(self, candidate: Candidate) -> tuple[Try, ...]:
        """Try every entry of ``match``."""
        return tuple(
            self._try(f"match[{i}]", selector, candidate)
            for i, selector in enumerate(self.resource.match)
        )

    def _try(self, entry: str, selector: Selector, candidate: Candidate) -> Try:
        seen, failed = self._as_seen(selector, candidate)
        if failed is None:
            failed = self._failure(selector, seen)
        path = seen.file.shown
        if failed is None:
            return Try(entry=entry, selector=selector, path=path)
        return Try(
            entry=entry,
            selector=selector,
            path=path,
            failed=failed,
            words=self._words(failed, seen, selector),
            held=_held(selector, candidate, failed, self.inventory.host),
        )

    def _failure(self, selector: Selector, seen: Candidate) -> Condition | None:
        """Return the first condition on hardware or values that does not hold."""
        host, where = self.inventory.host, seen.file.shown
        on_hardware = unmet_hardware(selector.hardware, seen.device, host, where)
        on_values = unmet_values(selector, seen, self.resource, self.inventory)
        return next(chain(on_hardware, on_values), None)

    def _as_seen(
        self, selector: Selector, candidate: Candidate
    ) -> tuple[Candidate, Condition | None]:
        """Give the candidate under the name that the selector finds it by, or why it does not."""
        wanted = selector.candidates
        if isinstance(wanted, PathSelector):
            return self._by_path(wanted, candidate)
        device, kind = candidate.device, kind_of(wanted)
        if device is None or not (is_candidate_of(wanted, device) or kind == "udev"):
            what = None if device is None else what_it_is(device)
            where = candidate.file.shown
            return candidate, Condition(key=kind, wanted=("*",), found=what, where=where)
        failed = next(unmet(wanted, device, self.inventory.host, sitting=device), None)
        return of_device(device, self.inventory) or candidate, failed

    def _by_path(
        self, wanted: PathSelector, candidate: Candidate
    ) -> tuple[Candidate, Condition | None]:
        found = [
            file
            for pattern in wanted.globs
            for file in self.inventory.found(pattern)
            if file.key == candidate.key
        ]
        where = candidate.file.shown
        if not found:
            return candidate, Condition(key="path", wanted=wanted.globs, found=where, where=where)
        usable = [file for file in found if file.type in wanted.types]
        if not usable:
            types = tuple(map(str, wanted.types))
            failed = Condition(key="type", wanted=types, found=str(found[0].type), where=where)
            return candidate, failed
        return of_file(usable[0], self.inventory), None

    def _words(self, failed: Condition, candidate: Candidate, selector: Selector) -> str:
        if isinstance(selector.candidates, PathSelector) and failed.key == "path":
            hanging = [one for one in failed.wanted if one in self.inventory.hanging]
            if hanging:
                return f"may look at it, but looking at {any_of(hanging)} does not end"
            if stolen := self._link_elsewhere(failed.wanted, candidate):
                return f"looks at {any_of(failed.wanted)}, but {stolen}"
        return complaint(failed, self.inventory.host)

    def _link_elsewhere(self, wanted: Iterable[str], candidate: Candidate) -> str:
        """Say which link that udev wanted for the device leads to another one; empty if none."""
        for link in () if candidate.device is None else candidate.device.links:
            file = self.inventory.file(link)
            named = any(glob.matches(pattern, link) for pattern in wanted)
            if named and file is not None and file.key != candidate.key:
                return (
                    f"{printable(link)} leads to {printable(file.target)}, which asks for the same"
                    " name (equal serial numbers? select by usb.port)"
                )
        return ""

    def taken_below(self, candidate: Candidate) -> Candidate | None:
        """Give what the resource takes and the candidate sits on, if there is such a thing."""
        for one in self._below(candidate):
            if any(attempt.failed is None for attempt in self.tries(one)):
                return one
        return None

    def _below(self, candidate: Candidate) -> Iterator[Candidate]:
        device, host = candidate.device, self.inventory.host
        if device is None:
            return
        for one in lineage(device, host):
            if one.syspath != device.syspath:
                below = of_device(one, self.inventory)
                if below is not None:
                    yield below
            if is_usb_device(one) or is_pci_function(one):
                return  # a hub that it hangs on, and the controller of that, only carry it

    def above(self, candidate: Candidate) -> tuple[Candidate, ...]:
        """Give what sits on the candidate and is of the kind that the resource looks at."""
        device = candidate.device
        if device is None:
            return ()
        folder = f"{device.syspath}/"
        found: dict[str, Candidate] = {}
        for one in self._looked_at(folder):
            found.setdefault(one.key, one)
            if len(found) >= _MOST_BELOW:
                break
        return tuple(found.values())

    def _looked_at(self, folder: str) -> Iterator[Candidate]:
        for selector in self.resource.match:
            wanted = selector.candidates
            if isinstance(wanted, PathSelector):
                files = (file for one in wanted.globs for file in self.inventory.found(one))
                found: Iterable[Candidate | None] = (of_file(one, self.inventory) for one in files)
            else:
                found = (of_device(one, self.inventory) for one in self._members(wanted, folder))
            for one in found:
                if one is not None and (one.file.identity.syspath or "").startswith(folder):
                    yield one

    def _members(self, wanted: SysSelector, folder: str) -> Iterator[SysDevice]:
        host = self.inventory.host
        subsystems = host.subsystems() if isinstance(wanted, UdevSelector) else (kind_of(wanted),)
        for subsystem in subsystems:
            for device in host.members(subsystem):
                if device.syspath.startswith(folder) and is_candidate_of(wanted, device):
                    yield device


def what_it_is(device: SysDevice) -> str:
    """Say what kind of device it is, for people."""
    if is_usb_device(device):
        return "a USB device"
    if is_usb_interface(device):
        return "an interface of a USB device"
    if is_pci_function(device):
        return "a PCI function"
    if is_net_interface(device):
        return "a network interface"
    kind = device.devtype or device.subsystem
    if not kind:
        return "a device of no known kind"
    article = "an" if kind[:1] in "aeiou" else "a"
    return f"{article} {printable(kind)} device"


def _held(selector: Selector, candidate: Candidate, failed: Condition, host: Host) -> int:
    """Count the conditions that held before one failed, to tell who came closest."""
    wanted, device = selector.candidates, candidate.device
    if failed.key in {"path", "usb", "pci", "net", "udev", "udev.subsystem"}:
        folder = candidate.path.rpartition("/")[0]
        beside = any(one.rpartition("/")[0] == folder for one in failed.wanted)
        return 0 if failed.key == "path" and beside else _OTHER_KIND
    if failed.key == "type" or device is None:
        return 0
    # A path stands for subsystem and name.
    keys = ["path"] * 2 if isinstance(wanted, PathSelector) else [kind_of(wanted)]
    keys += _keys(selector, device, host)
    places = [i for i, key in enumerate(keys) if key.startswith(failed.key)]
    return places[0] if places else len(keys)


def _keys(selector: Selector, device: SysDevice, host: Host) -> Iterator[str]:
    hardware = selector.hardware
    for part, prefix in (
        (selector.candidates, ""),
        (hardware.usb, "hardware."),
        (hardware.pci, "hardware."),
        (hardware.udev, "hardware."),
    ):
        if part is not None and not isinstance(part, PathSelector):
            asked = conditions(part, device, host, prefix=prefix, sitting=device)
            yield from (condition.key for condition in asked)
