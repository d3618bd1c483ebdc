"""Hardware that must not be offered: disks of the system, VFIO groups in use, control nodes.

A control node is one that containers need in addition to each device: ``/dev/davinci*`` matches the
NPUs of a machine, but also ``/dev/davinci_manager``, which would be one more Healthy device, and
useless for a pod.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp.devices.hardware import is_scsi_device, lineage
from genericdp.devices.resourcenames import resulting
from genericdp.devices.topology import backing_devices, functions_of, group_number
from genericdp.printing import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from genericdp.devices.device import DeviceNode
    from genericdp.devices.devicelist import DeviceList
    from genericdp.devices.inventory import Host, Inventory
    from genericdp.model import Resource

_MOUNTS, _SWAPS = "/proc/self/mountinfo", "/proc/swaps"
_MOUNT = (
    re.compile(  # number, mount point, source; in a pod, only mounts from the kubelet's directory
        r"(?m)^\d+ \d+ (\d+:\d+) \S+ (/|/boot|/boot/efi|/etc(?:/hosts)?|/usr|/var(?:/lib)?"
        r"|/var/lib/kubelet(?:/device-plugins)?) .* - \S+ (/dev/\S+)"
    )
)
_DISK = re.compile(r"^block:|/(?:block/|bsg/|nvme|scsi_generic/)")
"""A part of the key or the syspath of each node that gives access to a disk."""


def with_warnings(
    lists: Mapping[str, DeviceList], resources: Iterable[Resource], inventory: Inventory
) -> dict[str, DeviceList]:
    """Return the lists with a warning for each device that should not be on offer."""
    warnings = _of_disks(lists, inventory)
    for name, resource in resulting(resources, lists).items():
        warnings[name] |= _of_control_nodes(resource, lists[name], inventory)
    return {name: replace(devices, warnings=warnings[name]) for name, devices in lists.items()}


def _of_control_nodes(
    resource: Resource, devices: DeviceList, inventory: Inventory
) -> dict[str, str]:
    """Return warnings about devices that are injected with the others of their list."""
    if len(devices.devices) < 2 or resource.group_by is not None:
        return {}
    found = (inventory.found(pattern) for pattern in _control_paths(resource))
    paths = {file.key: file.path for files in found for file in files}
    return {
        device_id: f"it is the control node {path}, which comes with every device: exclude it,"
        f" as in exclude: [{{path: {path}}}], or give each device its own: path: $(device.path)"
        for device_id, entry in devices.devices.items()
        if entry.is_present and (path := paths.get(entry.device.key))
    }


def _control_paths(resource: Resource) -> Iterator[str]:
    """Yield the paths and globs of nodes that are injected with every device."""
    for entry in resource.inject.devices or ():
        if entry.path is not None and not entry.path.references:
            yield "".join(map(str, entry.path.parts))


def _of_disks(lists: Mapping[str, DeviceList], inventory: Inventory) -> dict[str, dict[str, str]]:
    """Return warnings about devices that the system itself uses, by resource."""
    nodes = [
        (name, device_id, node)
        for name, listed in lists.items()
        for device_id, entry in listed.devices.items()
        for node in (entry.device.nodes if entry.is_present else ())
        if _DISK.search(f"{node.key} {node.identity.syspath}")
    ]
    warnings: dict[str, dict[str, str]] = {name: {} for name in lists}
    uses, why = dict[str, str](), ""
    try:
        why = _find_uses(inventory, uses) if nodes else ""
    except Exception as error:  # noqa: BLE001  # whatever it is, the lists are decided already
        why = shortened(repr(error))
    for name, device_id, node in nodes:
        if use := uses.get(node.key) or (why and f"may have something ({why})"):
            warnings[name][device_id] = f"the system {use} on {node.host_path}: exclude it"
    return warnings


def _find_uses(inventory: Inventory, found: dict[str, str]) -> str:
    """Add the uses of disks, by the key of each of their nodes; return why some may be missing."""
    host = inventory.host
    used = _MOUNT.findall(host.text(_MOUNTS, limit=1 << 20) or "")
    swaps = re.findall(r"(?m)^/dev/\S+", host.text(_SWAPS) or "")
    for number, use, path in (*used, *(("", "swap", path) for path in swaps)):
        syspath = number and host.realpath(f"/sys/dev/block/{number}")
        if not syspath and (
            file := inventory.file(path)
        ):  # btrfs has its own numbers, not those of a disk
            syspath = file.identity.syspath
        pending = [host.device(syspath)] if syspath else []
        for device in pending:
            if device is not None and device.key not in found:
                found[device.key] = f"has {use}"
                parents = lineage(device, host)
                pending += (parent for parent in parents if parent.subsystem in {"block", "nvme"})
                pending += backing_devices(device, host)
                for scsi in filter(is_scsi_device, parents):
                    pending += host.below(scsi.syspath, "scsi_generic")
                    pending += host.below(scsi.syspath, "bsg")
    whys = (f"{path}: {why}" for path in (_MOUNTS, _SWAPS) if (why := host.why_unreadable(path)))
    return next(whys, "")


def why_not_bound(nodes: Iterable[DeviceNode], host: Host, wanted: Iterable[str] = ()) -> str:
    """Return the PCI function because of which VFIO cannot open a group whose node is among these.

    Empty if every function of the group, except bridges, is bound to a driver of VFIO. Otherwise a
    container could not open the group, and the host would still use its other functions. ``wanted``
    are paths of nodes that may not exist.
    """
    groups = [_group_of(node.host_path, node.identity.syspath, host) for node in nodes]
    # Before everything is bound there is no node yet, and the user needs to know the reason.
    groups += (_group_of(path, None, host) for path in wanted)
    for group in dict.fromkeys(filter(None, groups)):
        for function in functions_of(group, host):
            if function.subsystem == "pci" and not function.driver.startswith("vfio"):
                driver = f"the driver {function.driver}" if function.driver else "no driver"
                which = f"{function.name} of IOMMU group {group}"
                return f"{which} has {driver}, all of the group need vfio-pci"
    return ""


def _group_of(path: str, syspath: str | None, host: Host) -> str | None:
    """Return the IOMMU group of a node, whatever link leads to it."""
    if syspath is not None and (device := host.device(syspath)) is not None:
        return group_number(device.name) if device.subsystem == "vfio" else None
    directory, _, name = path.rpartition("/")
    return group_number(name) if directory == "/dev/vfio" else None
