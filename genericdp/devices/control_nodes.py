"""Control nodes that pass for devices: a glob matches what comes with every device anyway.

``/dev/davinci*`` matches the NPUs of a machine, and ``/dev/davinci_manager``, which containers need
beside each of them. It would be one more device, Healthy, and of no use to a pod.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.resourcenames import resulting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from genericdp.devices.devicelist import DeviceList
    from genericdp.devices.inventory import Inventory
    from genericdp.model import Resource


def with_control_nodes(
    lists: Mapping[str, DeviceList], resources: Sequence[Resource], inventory: Inventory
) -> dict[str, DeviceList]:
    """Return the lists with a warning for each device that comes with the others of its list."""
    found = dict(lists)
    for name, resource in resulting(resources, lists).items():
        listed = lists[name]
        if len(listed.devices) < 2 or resource.group_by is not None:
            continue
        files = (inventory.file(path) for path in control_paths(resource))
        paths = {file.key: file.path for file in files if file is not None}
        warnings = {
            device_id: f"it is the control node {path}, which comes with every device: exclude it,"
            f" as in exclude: [{{path: {path}}}]"
            for device_id, one in listed.devices.items()
            if one.is_present and (path := paths.get(one.device.key))
        }
        if warnings:
            found[name] = replace(listed, warnings={**listed.warnings, **warnings})
    return found


def control_paths(resource: Resource) -> Iterator[str]:
    """Yield the paths of nodes that come with every device, whatever it is."""
    for entry in resource.inject.devices or ():
        if entry.path is not None and not entry.path.references:
            path = "".join(map(str, entry.path.parts))
            if not glob.has_wildcard(path):
                yield glob.unescape(path)
