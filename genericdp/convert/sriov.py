"""sriov-network-device-plugin: config.json, also in a ConfigMap or a NicClusterPolicy."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from genericdp.config.document import YamlNode
from genericdp.convert.network import (
    entries_of,
    interface_value,
    link_layers,
    names,
    of_chart,
    pci_ids,
)
from genericdp.convert.output import (
    ANOTHER,
    CommentedValue,
    ConfigDraft,
    ConvertedResource,
    any_of,
    exactly,
)
from genericdp.regex import PatternError, compiled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from genericdp.convert.document import Part
    from genericdp.convert.output import Values

PLUGIN = "sriov-network-device-plugin"
MARKER = "resourceList"
MARKERS: tuple[str, ...] = (MARKER, "resourceName", "sriovDevicePlugin")
MAX_PARENTS = 16
_CLASSES = {"netdevice": "02*", "accelerator": "12*"}
_SYSPATH = "$(device.syspath)"
_USER_SPACE = ("vfio-pci", "uio", "igb_uio", "uio_pci_generic")
_PLAIN = re.compile(r"[A-Za-z0-9_.:@-]+")
_RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")
HEAD: tuple[str, ...] = (
    "Of network adapters only virtual functions are offered, unless addresses are given. The plugin"
    " also offers physical ones without the default route, and in a virtual machine all functions"
    " are physical: name these, as in match: [{pci: {address: ...}}].",
    "A name in pfNames or rootDevices is taken as a whole; the plugin also looks for it as an"
    " expression, anywhere in the name.",
    "PCIDEVICE_..._INFO, the variable with JSON, is not set.",
)
_BUSY = "As in the plugin, a physical function that has virtual ones is not offered."
_NO_DRIVERS = (
    "Without drivers the plugin also offers functions that are bound to a user-space driver, with"
    " other device files; for these add a resource with drivers."
)
_NO_KERNEL = (
    "Without drivers the plugin also offers functions without a user-space driver, of which a"
    " container gets only the address."
)
_BY_RDMA = (
    "By its RDMA device, as the interface moves into the pod. A function without one is Ethernet."
)
_NUMBER = "Its number: the name of the link that the physical function has to it."
_ONLY_FIRST = (
    "Of several entries for one physical function the plugin takes only the first; here all count."
)
_VFIO_GROUP = "The IOMMU group of a function that is bound to vfio-pci."
_NO_IOMMU = "In its place where VFIO works without an IOMMU, as in most virtual machines."
_AMBIGUOUS = "None if the physical function has several interfaces: then write out the names."
_NOTHING = "it has no selectors that could be converted"
_AUXILIARY = (
    "devices of the auxiliary bus are not PCI functions; match: [{udev: {subsystem: auxiliary}}]"
    " finds them"
)
_OF_CHART = {"resourcePrefix": "nvidia.com", "isRdma": "true"}
"""What the chart of the network operator writes into each entry."""
_DRIVERS_OF_VERSION_2: dict[str, tuple[str, ...]] = {
    "netdevice": (),
    "vfio": ("vfio-pci",),
    "uio": ("uio", "igb_uio", "uio_pci_generic"),
}
"""The drivers that the values of deviceType stood for before v3."""
_WRITE = (
    "write selectors: {rootDevices: [...]} for virtual functions, {pciAddresses: [...]} for these"
    " themselves, with drivers in place of vfio or uio"
)
_OLD = "Its config has the format before v3 of the plugin (2018-19): rootDevices with sriovMode."
_UNREADABLE = ("ddpProfiles", "vdpaType", "pKeys", "nicNames", "auxTypes")
_REASONS = {
    "additionalinfo": "it becomes part of PCIDEVICE_..._INFO; use inject.env if a pod needs it",
    "selectorobj": "the plugin writes it itself",
}


class Mode(StrEnum):
    """The device files that a container gets, by the drivers of a function."""

    KERNEL = "kernel"
    VFIO = "vfio"
    UIO = "uio"
    EITHER = "either"


@dataclass(frozen=True, kw_only=True, slots=True)
class SriovSelector:
    """One entry of ``selectors``."""

    is_network: bool
    pci: Values
    indexes: tuple[str, ...]
    drivers: tuple[str, ...]
    link_types: tuple[str, ...]
    parents: list[Part]
    is_rdma: bool
    needs_vhost_net: bool


def is_config(part: Part) -> bool:
    """Return whether it is a mapping with a resourceList, or such a list in a chart or alone."""
    is_alone = not part.path and part.node.entries is not None
    return (
        part.has(MARKER)
        or (part.is_placed("sriov") and part.has("resources"))
        or (
            is_alone
            and any(
                entry.has("resourceName") and not entry.has("rdmaHcaMax")
                for entry in part.children()
            )
        )
    )


def convert(configs: Sequence[Part], draft: ConfigDraft) -> None:
    """Add the resources of all configs."""
    for config in configs:
        # A ConfigMap may have a config for each node, with the node's name as key.
        key = str(config.source.within[-1]) if config.source.within[-2:-1] == ("data",) else ""
        node = "" if key.endswith((".json", ".yaml", ".yml")) else key
        entries, withheld = entries_of(config, MARKER)
        for entry in entries:
            _add_entry(of_chart(entry, _OF_CHART), node, withheld, draft)
        if config.has(MARKER):
            draft.left += config.without(MARKER).keys().rest(PLUGIN, _REASONS)


def _add_entry(entry: Part, node: str, withheld: str, draft: ConfigDraft) -> None:
    comments = [_OLD] if entry.has("rootDevices") else []
    keys = _of_version_2(entry).keys() if comments else entry.keys()
    prefix = keys.take("resourcePrefix").text() or "intel.com"
    name = entry.resource_name(f"{prefix}/{keys.take('resourceName').text()}")
    kind = (keys.take("deviceType").text() or "netDevice").lower()
    topology = "none" if keys.take("excludeTopology").is_true() else ""
    nodes = [exactly(node)] if node else []
    _check_name(name, nodes, entry, draft)
    is_rdma = keys.take("isRdma").is_true()
    selectors = keys.take("selectors")
    found: dict[object, ConvertedResource] = {}
    left: list[str] = []
    # Old versions have one, newer ones a list.
    for part in (selectors,) if selectors.node.items is not None else selectors.entries():
        if kind in _CLASSES:
            _add_selector(part, kind, is_rdma=is_rdma, found=found, left=left)
        else:
            left += part.quotation(_AUXILIARY)
    if kind not in {*_CLASSES, "auxnetdevice"}:
        entry.fail(f"deviceType {kind[:40]!r} is not netDevice, accelerator or auxNetDevice")
    resources = list(found.values()) or [ConvertedResource(name=name, withheld=_NOTHING)]
    resources[0].left += [*left, *keys.rest(PLUGIN, _REASONS)]
    for i, resource in enumerate(resources):
        unused = draft.unused_name(name)
        # The same name is fine for other nodes.
        resource.name = unused if i or not nodes else name
        if i:
            resource.comments.insert(0, ANOTHER.format(name=name))
        resource.comments += comments
        resource.withheld = resource.withheld or withheld
        resource.node_names, resource.topology = nodes, topology
        variable = re.sub(r"[^A-Za-z0-9]", "_", resource.name).upper()
        resource.env = {f"PCIDEVICE_{variable}": "$(pci.address)"}
        draft.resources.append(resource)


def _of_version_2(entry: Part) -> Part:
    """Return an entry of the format before v3 in today's form."""
    keys = entry.keys()
    devices, is_virtual = keys.take("rootDevices"), keys.take("sriovMode").is_true()
    kind = (keys.take("deviceType").text() or "netdevice").lower()
    if kind not in _DRIVERS_OF_VERSION_2 or entry.has("selectors"):
        what = f"deviceType {kind[:40]!r}" if kind not in _DRIVERS_OF_VERSION_2 else "selectors"
        devices.fail(f"this is the format before v3, but it has {what}", _WRITE)
    mark = devices.node.mark
    drivers = _DRIVERS_OF_VERSION_2.get(kind, ())
    listed = tuple(YamlNode(mark=mark, scalar=driver) for driver in drivers)
    selector = {
        "rootDevices" if is_virtual else "pciAddresses": (mark, devices.node),
        "drivers": (mark, YamlNode(mark=mark, entries=listed)),
    }
    others = entry.without("rootDevices", "sriovMode", "deviceType")
    items = {"selectors": (mark, YamlNode(mark=mark, items=selector)), **(others.node.items or {})}
    return replace(others, node=replace(others.node, items=items))


def _check_name(name: str, nodes: list[str], entry: Part, draft: ConfigDraft) -> None:
    """Find a name that is defined for the same nodes already."""
    others = [
        resource.node_names
        for resource in draft.resources
        if resource.name == name and not resource.withheld
    ]
    if nodes in others:
        entry.fail(f"{name!r} is defined twice, which the plugin refuses")
    elif others and not (nodes and all(others)):
        entry.fail(f"{name!r} is defined for one node and for all: convert the keys one by one")


def _add_selector(
    part: Part, kind: str, *, is_rdma: bool, found: dict[object, ConvertedResource], left: list[str]
) -> None:
    """Add one entry of ``selectors`` to the resources, by what a container gets with each."""
    if unreadable := [key for key in _UNREADABLE if part.has(key)]:
        why = "cannot be read from sysfs, and without it more would be offered"
        left += part.quotation(f"{unreadable[0]} {why}")
        return
    keys = part.keys()
    pci = {"class": _CLASSES[kind], **pci_ids(keys.take("vendors"), keys.take("devices"))}
    if addresses := keys.take("pciAddresses").texts():
        pci["address"] = names(_with_domain(address) for address in addresses)
    asked = SriovSelector(
        is_network=kind == "netdevice",
        pci=pci,
        indexes=keys.take("acpiIndexes").texts(),
        drivers=keys.take("drivers").texts(),
        link_types=keys.take("linkTypes").texts(),
        parents=[keys.take(key) for key in ("pfNames", "rootDevices")],
        is_rdma=keys.take("isRdma").is_true() or is_rdma,
        needs_vhost_net=keys.take("needVhostNet").is_true(),
    )
    for mode, drivers in _modes(asked).items():
        if asked.link_types and mode is not Mode.KERNEL:
            why = f"a function with {' or '.join(drivers)} has no interface, so no linkTypes"
            left += part.quotation(why)
            continue
        given = (mode, asked.is_rdma, asked.needs_vhost_net)
        _match(found.setdefault(given, ConvertedResource(name="")), asked, mode, drivers)
    left += keys.rest(PLUGIN)


def _match(
    resource: ConvertedResource, asked: SriovSelector, mode: Mode, drivers: list[str]
) -> None:
    """Let a resource offer the functions of a selector that have these drivers."""
    pci = dict(asked.pci)
    # Certain functions may be requested, physical or virtual.
    is_named = "address" in pci or bool(asked.indexes)
    if mode is Mode.KERNEL and asked.is_network and not is_named:
        pci["function"] = "virtual"
    elif asked.is_network:
        resource.values["functions"] = CommentedValue({"file": f"{_SYSPATH}/sriov_numvfs"})
        busy = {"pci": {"function": "physical"}, "values": {"functions": "[1-9]*"}}
        _add(resource.exclude, CommentedValue(busy, [_BUSY]))
    if drivers:
        pci["driver"] = names(drivers)
    conditions = _conditions(asked, resource)
    for alternative in _alternatives(asked.parents, resource):
        selector: Values = {"pci": pci}
        if values := {**conditions, **alternative}:
            selector["values"] = values
        _add(resource.match, CommentedValue(selector))
    resource.devices = list(_nodes(mode, asked, resource))
    if not asked.drivers and asked.is_network:
        bound = {"pci": {"driver": list(_USER_SPACE)}}
        _add(resource.exclude, CommentedValue(bound, [_NO_DRIVERS]))
    elif not asked.drivers:
        _add(resource.comments, _NO_KERNEL)


def _add(found: list[Any], value: object) -> None:
    if value not in found:
        found.append(value)


def _conditions(asked: SriovSelector, resource: ConvertedResource) -> Values:
    """Declare the values that a selector needs; return the conditions on them."""
    found: Values = {}
    if asked.indexes:
        resource.values["acpi_index"] = CommentedValue({"file": f"{_SYSPATH}/acpi_index"})
        found["acpi_index"] = names(asked.indexes)
    if asked.is_rdma or asked.link_types:
        resource.values["rdma"] = CommentedValue({"link": f"{_SYSPATH}/infiniband/*"})
    if asked.is_rdma:
        found["rdma"] = "*"
    if asked.link_types:
        path = f"{_SYSPATH}/infiniband/$(value.rdma:-none)/ports/1/link_layer"
        resource.values["rdma_layer"] = CommentedValue({"file": path})
        text = {"text": "$(value.rdma_layer:-Ethernet)"}
        resource.values["link_layer"] = CommentedValue(text, [_BY_RDMA])
        found["link_layer"] = link_layers(asked.link_types, resource)
    return found


def _modes(asked: SriovSelector) -> dict[Mode, list[str]]:
    """Return the drivers by the mode of use in a container."""
    if not asked.drivers:
        # The address alone is of use for a network adapter only, which a CNI plugin moves.
        return {Mode.KERNEL: []} if asked.is_network else {Mode.EITHER: list(_USER_SPACE)}
    of_user = [driver for driver in asked.drivers if driver in _USER_SPACE]
    of_kernel = [driver for driver in asked.drivers if driver not in _USER_SPACE]
    found = {Mode.KERNEL: of_kernel} if of_kernel else {}
    if of_user == ["vfio-pci"]:
        found[Mode.VFIO] = of_user
    elif of_user:
        found[Mode.EITHER if "vfio-pci" in of_user else Mode.UIO] = of_user
    return found


def _nodes(
    mode: Mode, asked: SriovSelector, resource: ConvertedResource
) -> Iterator[CommentedValue]:
    """Yield the entries of ``inject.devices``."""
    is_either = mode is Mode.EITHER
    optional = {"optional": True} if is_either else {}
    if mode in {Mode.VFIO, Mode.EITHER}:
        group = "$(pci.iommuGroup)"
        if is_either:
            group = "$(value.vfio_group:-none)"
            text = {"text": "$(pci.driver):$(pci.iommuGroup:-)", "regex": "^vfio-pci:(.+)$"}
            resource.values["vfio_group"] = CommentedValue(text, [_VFIO_GROUP])
        path = f"/dev/vfio/{group}"
        yield CommentedValue({"path": path, "optional": True})
        other = {"path": f"/dev/vfio/noiommu-{group}", "containerPath": path, "optional": True}
        yield CommentedValue(other, [_NO_IOMMU])
        yield CommentedValue({"path": "/dev/vfio/vfio", **optional})
    if mode in {Mode.UIO, Mode.EITHER}:
        yield CommentedValue({"subsystem": "uio", **optional})
    if asked.is_rdma:
        yield CommentedValue({"subsystem": "infiniband_verbs"})
        yield CommentedValue({"subsystem": "infiniband_mad", "optional": True})
        yield CommentedValue({"path": "/dev/infiniband/rdma_cm", "optional": True})
    if asked.needs_vhost_net:
        yield CommentedValue({"path": "/dev/vhost-net"})
        yield CommentedValue({"path": "/dev/net/tun"})


def _alternatives(parents: Sequence[Part], resource: ConvertedResource) -> list[Values]:
    """Return conditions for the physical function, any of which must hold."""
    found: list[Values] = [{}]
    for part in parents:
        if len(part.entries()) * len(found) > MAX_PARENTS:
            part.fail(f"more than {MAX_PARENTS} physical functions")
        elif part.entries():
            named = {entry.text().partition("#")[0].lower() for entry in part.entries()}
            if len(named) < len(part.entries()):
                _add(resource.comments, _ONLY_FIRST)
            asked = [_parent(entry, resource) for entry in part.entries()]
            found = [{**alternative, **other} for alternative in found for other in asked]
    return found


def _parent(entry: Part, resource: ConvertedResource) -> Values:
    """Return the conditions for ``ens1f0`` or ``0000:3b:00.0``, maybe with ``#0-3``."""
    name, hash_sign, ranges = entry.text().partition("#")
    found: Values = {}
    is_root = str(entry.path[-2]).lower() != "pfnames"
    if is_root:
        resource.values["pf_address"] = CommentedValue({"link": f"{_SYSPATH}/physfn"})
        found["pf_address"] = exactly(_with_domain(name))
    elif not name:
        entry.fail("the name of a physical function is missing")
    elif _PLAIN.fullmatch(name):
        found[interface_value(name, f"{_SYSPATH}/physfn/net", "pf", resource)] = "*"
    else:
        try:
            compiled(f"({name})")
        except PatternError as error:
            entry.fail(f"not a regular expression: {error}")
        resource.values["pf"] = CommentedValue({"link": f"{_SYSPATH}/physfn/net/*"}, [_AMBIGUOUS])
        value = f"pf_like_{len(resource.values)}"
        resource.values[value] = CommentedValue({"text": "$(value.pf)", "regex": f"({name})"})
        found[value] = "*"
    if hash_sign:
        by_number = {"linkedBy": f"{_SYSPATH}/physfn/virtfn*", "regex": r"^virtfn(\d+)$"}
        number = "root_number" if is_root else "number"
        resource.values[number] = CommentedValue(by_number, [_NUMBER])
        found[number] = any_of(_numbers(ranges, entry))
    return found


def _numbers(ranges: str, entry: Part) -> Iterator[str]:
    """Yield globs for the numbers of virtual functions in ``0,2-4``."""
    for text in ranges.split(","):
        found = _RANGE.fullmatch(text.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if first > last:
            wanted = "the number of a virtual function, or a range of them"
            entry.fail(f"expected {wanted}, not {text[:40]!r}")
        yield from _range_globs(first, last)


def _range_globs(first: int, last: int) -> Iterator[str]:
    """Yield globs for decimal numbers: ``[8-9]``, ``[1-9][0-9]``, ``10[0-5]`` for 8 to 105."""
    while first <= last:
        text = str(first)
        free = len(text) - 1  # digits at the end that may be any
        while first % 10**free or first + 10**free - 1 > last:
            free -= 1
        digit = first // 10**free % 10
        more = min(9 - digit, (last - first + 1) // 10**free - 1)
        digits = f"[{digit}-{digit + more}]" if more else str(digit)
        yield text[: len(text) - 1 - free] + digits + "[0-9]" * free
        first += (more + 1) * 10**free


def _with_domain(address: str) -> str:
    """Return a PCI address with its domain."""
    return address if address.count(":") == 2 else f"0000:{address}"
