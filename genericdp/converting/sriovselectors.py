"""The selectors of sriov-network-device-plugin, each as selectors of PCI functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING, Any

from genericdp.converting.draft import Said
from genericdp.converting.naming import exactly
from genericdp.converting.netpci import LINK_TYPES, hex_ids, link_type_numbers, names
from genericdp.converting.parts import kept
from genericdp.regex import PatternError, compiled

if TYPE_CHECKING:
    from genericdp.converting.draft import Resource
    from genericdp.converting.parts import Keys, Part

_UIO = ("uio", "igb_uio", "uio_pci_generic")
USER_SPACE = ("vfio-pci", *_UIO)
"""Drivers of functions that have no network interface."""
MAX_FUNCTIONS = 256
"""As many as a physical function has on one bus."""
MAX_PARENTS = 64
_NARROWER = {
    "ddpProfiles": "the profile is asked from the firmware, no file holds it",
    "vdpaType": "devices of vDPA have a bus of their own",
    "pKeys": "no file of the function holds its partition keys",
    "nicNames": "what it means for the function is nowhere said",
    "auxTypes": "it is about devices of the auxiliary bus",
}
_OTHER_DRIVERS = (
    "Not converted, drivers {drivers}: they need other nodes and so a resource of their own."
)
_WITHHELD = "; without it more would be offered, so this entry of selectors is left out"
_UNKNOWN = "the plugin has no such selector and ignores it"
_PLAIN = re.compile(r"[A-Za-z0-9_.:@-]+")
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")
_SYSPATH = "$(device.syspath)"
_INTERFACE_COMMENT = (
    "Its network interface: while a pod has that in its own network, the function is Unhealthy."
)


class Mode(StrEnum):
    """What the drivers of a selector mean for the nodes."""

    KERNEL = "kernel"
    VFIO = "vfio"
    UIO = "uio"


@dataclass(frozen=True, kw_only=True, slots=True)
class Manner:
    """What a container gets with a function."""

    mode: Mode
    is_rdma: bool
    needs_vhost_net: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """One entry of ``selectors``."""

    manner: Manner
    has_any_driver: bool
    is_network: bool
    selectors: tuple[Said, ...]
    values: dict[str, Said]


def chosen_of(part: Part, of_class: str, resource: Resource, *, is_rdma: bool) -> Chosen | None:
    """Give what an entry selects, or None where that would be more than the plugin offers."""
    keys = part.keys()
    for name, why in _NARROWER.items():
        if keys.has(name):
            resource.left += kept(part, f"{name}: {why}{_WITHHELD}")
            return None
    drivers = keys.texts("drivers")
    mode, used = _mode(drivers)
    if others := sorted(set(drivers) - set(used)):
        resource.left.append(_OTHER_DRIVERS.format(drivers=", ".join(others)))
    pci = _of_pci(keys, of_class, mode)
    if used:
        pci["driver"] = [exactly(driver) for driver in used]
    values: dict[str, Said] = {}
    manner = Manner(
        mode=mode,
        is_rdma=keys.is_true("isRdma") or is_rdma,
        needs_vhost_net=keys.is_true("needVhostNet"),
    )
    wanted = _conditions(keys, values, resource, is_rdma=manner.is_rdma)
    by_name = _of_parent(keys.take("pfNames"), "pf", mode, values, resource)
    by_root = _of_parent(keys.take("rootDevices"), "root", mode, values, resource)
    resource.left += keys.kept({}, _UNKNOWN)
    if wanted is None or not by_name or not by_root:
        return None
    if len(by_name) * len(by_root) > MAX_FUNCTIONS:
        part.fail(f"more than {MAX_FUNCTIONS} pairs of pfNames and rootDevices")
        return None
    asked = [{**wanted, **one, **other} for one, other in product(by_name, by_root)]
    return Chosen(
        manner=manner,
        has_any_driver=not drivers,
        is_network=of_class.startswith("02"),
        selectors=tuple(Said({"pci": pci, **({"values": one} if one else {})}) for one in asked),
        values=values,
    )


def _of_pci(keys: Keys, of_class: str, mode: Mode) -> dict[str, Any]:
    pci: dict[str, Any] = {"class": of_class}
    for theirs, ours in (("vendors", "vendor"), ("devices", "device")):
        if (found := keys.take(theirs)) is not None and (ids := hex_ids(found)):
            pci[ours] = ids
    if addresses := keys.texts("pciAddresses"):
        pci["address"] = names(_full(address) for address in addresses)
    if of_class.startswith("02") and mode is Mode.KERNEL:
        pci["function"] = "virtual"
    return pci


def _mode(drivers: tuple[str, ...]) -> tuple[Mode, list[str]]:
    """Give the mode of a list of drivers and those of them that have it."""
    of_kernel = [driver for driver in drivers if driver not in USER_SPACE]
    if of_kernel or not drivers:
        return Mode.KERNEL, of_kernel
    if "vfio-pci" in drivers:
        return Mode.VFIO, ["vfio-pci"]
    return Mode.UIO, list(drivers)


def _conditions(
    keys: Keys, values: dict[str, Said], resource: Resource, *, is_rdma: bool
) -> dict[str, Any] | None:
    wanted: dict[str, Any] = {}
    if types := keys.texts("linkTypes"):
        numbers = link_type_numbers(types)
        if len(numbers) < len(set(types)):
            known = ", ".join(LINK_TYPES)
            resource.left.append(
                f"Not converted, linkTypes {', '.join(types)}: only {known} can be told from sysfs."
            )
        if not numbers:
            return None
        _declare_interface(values)
        file = f"{_SYSPATH}/net/$(value.interface)/type"
        values["link_type"] = Said({"file": file}, ["Of the kernel: 1 is ether, 32 infiniband."])
        wanted["link_type"] = numbers
    if indexes := keys.texts("acpiIndexes"):
        values["acpi_index"] = Said({"file": f"{_SYSPATH}/acpi_index"})
        wanted["acpi_index"] = names(indexes)
    if is_rdma:
        values["rdma"] = Said({"link": f"{_SYSPATH}/infiniband/*"})
        wanted["rdma"] = "*"
    return wanted


def _of_parent(
    part: Part | None, key: str, mode: Mode, values: dict[str, Said], resource: Resource
) -> list[dict[str, Any]]:
    """Give the alternatives for the physical function; none where nothing can be converted."""
    if part is None or not part.entries():
        return [{}]
    if len(part.entries()) > MAX_PARENTS:
        part.fail(f"more than {MAX_PARENTS} physical functions")
        return []
    link = "physfn/net/*" if key == "pf" else "physfn"
    values[key] = Said({"link": f"{_SYSPATH}/{link}"})
    whole: list[str] = []
    found: list[dict[str, Any]] = []
    for entry in part.entries():
        name, hash_sign, ranges = entry.text().partition("#")
        asked = _parent_named(name, key, entry, values)
        if not hash_sign:
            if key in asked:
                whole.append(asked[key])
            else:
                found.append(asked)
        elif mode is not Mode.KERNEL:
            resource.left += kept(entry, _NO_RANGE)
        else:
            found += _numbered(ranges, asked, entry, values)
    return [*([{key: list(dict.fromkeys(whole))}] if whole else []), *found]


_NO_RANGE = (
    "the number of a virtual function is found by its network interface, which it has none of with"
    " such a driver; name the addresses: pci: {address: [...]}"
)


def _parent_named(name: str, key: str, part: Part, values: dict[str, Said]) -> dict[str, Any]:
    if key == "root":
        return {key: exactly(_full(name))}
    if _PLAIN.fullmatch(name):
        return {key: exactly(name)}
    try:
        compiled(f"({name})")
    except PatternError:
        return {key: exactly(name)}
    one = f"pf_{len(values)}"
    values[one] = Said({"text": "$(value.pf)", "regex": f"({name})"})
    if not name:
        part.fail("the name of a physical function is missing")
    return {one: "*"}


def _numbered(
    ranges: str, asked: dict[str, Any], part: Part, values: dict[str, Said]
) -> list[dict[str, Any]]:
    """Give the condition that it is one of the numbered virtual functions."""
    numbers: set[int] = set()
    for text in ranges.split(","):
        found = _RANGE.fullmatch(text.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if first > last or last >= MAX_FUNCTIONS:
            part.fail(f"{text[:40]!r} is no number of a virtual function and no range of them")
            return []
        numbers.update(range(first, last + 1))
    _declare_interface(values)
    for number in numbers:
        # Which of its links leads here is told by the network interface behind it.
        link = f"{_SYSPATH}/physfn/virtfn{number}/net/$(value.interface)"
        values[f"vf_{number}"] = Said({"link": link})
    one = "is_" + re.sub(r"[^0-9]+", "_", ranges).strip("_")
    text = "".join(f"$(value.vf_{number}:-)" for number in sorted(numbers))
    values[one] = Said({"text": text, "regex": ".+"}, [f"Whether it is one of {ranges}."])
    return [{**asked, one: "*"}]


def _declare_interface(values: dict[str, Said]) -> None:
    said = Said({"link": f"{_SYSPATH}/net/*"}, [_INTERFACE_COMMENT])
    values.setdefault("interface", said)


def _full(address: str) -> str:
    """Give a PCI address with its domain."""
    return address if address.count(":") == 2 else f"0000:{address}"
