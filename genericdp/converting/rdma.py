"""k8s-rdma-shared-dev-plugin: config.json, also in a ConfigMap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.converting.draft import Draft, Resource, Said, replicas_of
from genericdp.converting.manifests import embedded, is_manifest
from genericdp.converting.naming import checked_name, exactly
from genericdp.converting.netpci import LINK_TYPES, hex_ids, link_type_numbers, names
from genericdp.converting.overlapping import tell
from genericdp.converting.recognizing import looks_like

if TYPE_CHECKING:
    from genericdp.converting.parts import Keys, Part

_PREFIX = "rdma"
_HEAD = (
    "All adapters of a resource are one device that rdmaHcaMax containers share, as there: each of"
    " them gets the nodes of all adapters. Without groupBy each adapter is a device of its own."
)
_WHY = {
    "periodicUpdateInterval": "genericdp sees at once what changes",
    "kubeletRootDir": "genericdp takes it as its flag --kubelet-dir",
}
_UNKNOWN = "the plugin has no such key and ignores it"
_NO_SELECTOR = "it has neither selectors nor devices, which the plugin refuses"
_INTERFACE = "$(device.syspath)/device/net"


def convert(documents: tuple[Part, ...]) -> Draft:
    """Make a config of what the plugin reads."""
    draft = Draft(head=[_HEAD])
    for document in documents:
        for one in embedded(document, draft) if is_manifest(document) else (document,):
            _convert_file(one, draft)
    tell(draft, "the plugin")
    return draft


def _convert_file(document: Part, draft: Draft) -> None:
    keys = document.keys()
    found = keys.take("configList")
    if found is None:
        missing = "this is no config of k8s-rdma-shared-dev-plugin: configList is missing"
        document.fail(missing, looks_like(document, "rdma"))
        return
    for entry in found.entries():
        draft.resources.append(_resource(entry, draft))
    draft.left += keys.kept(_WHY, _UNKNOWN)


def _resource(entry: Part, draft: Draft) -> Resource:
    keys = entry.keys()
    prefix = keys.text("resourcePrefix") or _PREFIX
    name = checked_name(f"{prefix}/{keys.text('resourceName')}", entry)
    if draft.name_for(name) != name:
        entry.fail(f"{name!r} is there twice, which the plugin refuses")
    resource = Resource(name=name, group_by="hca", topology="none")
    replicas_of(keys.number("rdmaHcaMax", 0), resource, "rdmaHcaMax")
    devices, selectors = keys.texts("devices"), keys.take("selectors")
    chosen = selectors.keys() if selectors is not None else None
    pci: dict[str, object] = {"class": "02*"}
    values: dict[str, object] = {}
    if chosen is not None:
        _select(chosen, pci, values, resource)
    if devices:
        _add_names(devices, values, resource)
    if not values and len(pci) == 1:
        resource.withheld = resource.withheld or _NO_SELECTOR
    selector: dict[str, object] = {"udev": {"subsystem": "infiniband"}, "hardware": {"pci": pci}}
    resource.match = [Said({**selector, **({"values": values} if values else {})})]
    resource.devices = [
        Said({"subsystem": "infiniband_verbs", "permissions": "rwm"}),
        Said({"subsystem": "infiniband_mad", "permissions": "rwm"}),
        Said({"path": "/dev/infiniband/rdma_cm", "permissions": "rwm"}),
    ]
    resource.left += keys.kept({}, _UNKNOWN)
    return resource


def _select(
    chosen: Keys, pci: dict[str, object], values: dict[str, object], resource: Resource
) -> None:
    for theirs, ours in (("vendors", "vendor"), ("deviceIDs", "device")):
        if (part := chosen.take(theirs)) is not None and (ids := hex_ids(part)):
            pci[ours] = ids
    if drivers := chosen.texts("drivers"):
        pci["driver"] = [exactly(driver) for driver in drivers]
    if interfaces := chosen.texts("ifNames"):
        _add_names(interfaces, values, resource)
    if types := chosen.texts("linkTypes"):
        numbers = link_type_numbers(types)
        if not numbers:
            known = ", ".join(LINK_TYPES)
            resource.withheld = f"of linkTypes only {known} can be told from sysfs"
        values["link_type"] = numbers or ["none"]
        _declare_interface(resource)
        file = f"{_INTERFACE}/$(value.interface)/type"
        comments = ["The number of the kernel: 1 is ether, 32 infiniband."]
        resource.values["link_type"] = Said({"file": file}, comments)
    resource.left += chosen.kept({}, _UNKNOWN)


def _add_names(given: tuple[str, ...], values: dict[str, object], resource: Resource) -> None:
    values["interface"] = names(given)
    _declare_interface(resource)


def _declare_interface(resource: Resource) -> None:
    comments = ["The network interface of the adapter; one with several of them has none here."]
    resource.values.setdefault("interface", Said({"link": f"{_INTERFACE}/*"}, comments))
