"""k8s-rdma-shared-dev-plugin: config.json, also in a ConfigMap or a NicClusterPolicy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.convert.network import (
    LINK_LAYERS,
    entries_of,
    interface_value,
    link_layers,
    names,
    of_chart,
    pci_ids,
)
from genericdp.convert.output import CommentedValue, ConfigDraft, ConvertedResource
from genericdp.convert.sharing import share_hardware

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.convert.document import Part
    from genericdp.convert.output import Values

PLUGIN = "k8s-rdma-shared-dev-plugin"
MARKER = "configList"
MARKERS: tuple[str, ...] = (MARKER, "rdmaHcaMax", "rdmaSharedDevicePlugin")
HEAD: tuple[str, ...] = (
    "As in the plugin, all adapters of a resource are one device that rdmaHcaMax containers share."
    " Without groupBy each adapter is a device of its own.",
)
_OF_CHART = {"rdmaHcaMax": "63"}
"""What the chart of the network operator writes if its values do not."""
_REASONS = {
    "periodicupdateinterval": "genericdp notices changes at once",
    "kubeletrootdir": "see the option --kubelet-dir of genericdp run",
}


def is_config(part: Part) -> bool:
    """Return whether it is a mapping with a configList, or such a list in a chart or alone."""
    is_alone = not part.path and part.node.entries is not None
    return (
        part.has(MARKER)
        or (part.is_placed("rdma") and part.has("resources"))
        or (is_alone and any(entry.has("rdmaHcaMax") for entry in part.children()))
    )


def convert(configs: Sequence[Part], draft: ConfigDraft) -> None:
    """Add the resources of all configs."""
    for config in configs:
        entries, withheld = entries_of(config, MARKER)
        for entry in entries:
            _add_resource(of_chart(entry, _OF_CHART), withheld, draft)
        if config.has(MARKER):
            draft.left += config.without(MARKER).keys().rest(PLUGIN, _REASONS)
    share_hardware(draft.resources)


def _add_resource(entry: Part, withheld: str, draft: ConfigDraft) -> None:
    keys = entry.keys()
    prefix = keys.take("resourcePrefix").text() or "rdma"
    name = entry.resource_name(f"{prefix}/{keys.take('resourceName').text()}")
    if draft.unused_name(name) != name:
        entry.fail(f"{name!r} is defined twice, which the plugin refuses")
    resource = ConvertedResource(name=name, group_by="hca", topology="none", withheld=withheld)
    resource.share(keys.take("rdmaHcaMax").number(0), "rdmaHcaMax")
    devices, selectors = keys.take("devices").texts(), keys.take("selectors").keys()
    if bool(devices) == bool(selectors.left):
        which = "both selectors and devices" if devices else "neither selectors nor devices"
        entry.fail(f"it has {which}, which the plugin refuses")
    pci = {"class": "02*", **pci_ids(selectors.take("vendors"), selectors.take("deviceIDs"))}
    if drivers := selectors.take("drivers").texts():
        pci["driver"] = names(drivers)
    selector: Values = {"udev": {"subsystem": "infiniband"}, "hardware": {"pci": pci}}
    if types := selectors.take("linkTypes").texts():
        file = "$(device.syspath)/ports/1/link_layer"
        resource.values["link_layer"] = CommentedValue({"file": file})
        selector["values"] = {"link_layer": link_layers(types, resource)}
        if not set(types) & set(LINK_LAYERS):
            resource.withheld = resource.withheld or "none of its linkTypes can be read from sysfs"
    interfaces = dict.fromkeys((*devices, *selectors.take("ifNames").texts()))
    resource.match = [] if interfaces else [CommentedValue(selector)]
    for found in interfaces:
        value = interface_value(found, "$(device.syspath)/device/net", "has", resource)
        values = {**selector.get("values", {}), value: "*"}
        resource.match.append(CommentedValue({**selector, "values": values}))
    resource.devices = [
        CommentedValue({"subsystem": "infiniband_verbs", "permissions": "rwm"}),
        CommentedValue({"subsystem": "infiniband_mad", "permissions": "rwm"}),
        CommentedValue({"path": "/dev/infiniband/rdma_cm", "permissions": "rwm"}),
    ]
    resource.left += [*selectors.rest(PLUGIN), *keys.rest(PLUGIN)]
    draft.resources.append(resource)
