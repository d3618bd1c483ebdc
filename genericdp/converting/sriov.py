"""sriov-network-device-plugin: config.json, also in a ConfigMap with a text for each node."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from genericdp.converting.draft import Draft, Resource, Said
from genericdp.converting.manifests import is_manifest, kind_of, objects, texts_of
from genericdp.converting.naming import checked_name
from genericdp.converting.parts import kept
from genericdp.converting.recognizing import looks_like
from genericdp.converting.sriovselectors import USER_SPACE, Chosen, Manner, Mode, chosen_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from genericdp.converting.parts import Keys, Part

_PREFIX = "intel.com"
_CLASSES = {"netdevice": "02*", "accelerator": "12*"}
_HEAD = [
    "Of network adapters only virtual functions are offered: the plugin offers physical ones, too,"
    " but for that with the node's default route, which a config cannot know. To have one, name it:"
    " match: [{pci: {address: ...}}].",
    "A name in pfNames or rootDevices is taken as a whole; the plugin also looks for it as an"
    " expression, anywhere in the name.",
    "PCIDEVICE_..._INFO, the variable with JSON, is not set.",
]
_DRIVERS_OPEN = (
    "Without drivers the plugin also offers what is bound for user space and then gives other"
    " nodes; for that write a resource with drivers."
)
_BUSY = "A physical function with virtual ones is not offered, as with the plugin."
_ANOTHER = (
    "{name} for the plugin, too: what a container gets with these differs from the above, and a"
    " resource says that once. Pods that are to have one of these ask for the name below."
)
_AUXILIARY = (
    "devices of the auxiliary bus are no PCI functions: see match: [{udev: {subsystem: auxiliary}}]"
)
_WHY = {
    "additionalInfo": "it becomes part of PCIDEVICE_..._INFO; write inject.env if a pod needs it",
    "SelectorObj": "the plugin writes it itself",
    "rootDevices": "versions before 3 had it here; now it belongs into selectors",
    "sriovMode": "versions before 3 had it",
    "mdevMode": "versions before 3 had it",
}
_UNKNOWN = "the plugin has no such key and ignores it"


def convert(documents: tuple[Part, ...]) -> Draft:
    """Make a config of what the plugin reads."""
    draft = Draft(head=list(_HEAD))
    for document in documents:
        for one in objects(document):
            if not is_manifest(one):
                _convert_file(one, "", draft)
            elif kind_of(one) == "ConfigMap":
                for key, texts in texts_of(one):
                    node = "" if key.endswith((".json", ".yaml", ".yml")) else key
                    for text in texts:
                        _convert_file(text, node, draft)
            else:
                draft.left.append(f"Not converted, the {kind_of(one)}: it holds no config.")
    return draft


def _convert_file(document: Part, node: str, draft: Draft) -> None:
    keys = document.keys()
    found = keys.take("resourceList")
    if found is None:
        missing = "this is no config of sriov-network-device-plugin: resourceList is missing"
        document.fail(missing, looks_like(document, "sriov"))
        return
    for entry in found.entries():
        _convert_entry(entry, node, draft)
    draft.left += keys.kept(_WHY, _UNKNOWN)


def _convert_entry(entry: Part, node: str, draft: Draft) -> None:
    keys = entry.keys()
    prefix = keys.text("resourcePrefix") or _PREFIX
    name = checked_name(f"{prefix}/{keys.text('resourceName')}", entry)
    kind = keys.text("deviceType", "netDevice").lower()
    topology = "none" if keys.is_true("excludeTopology") else ""
    is_rdma = keys.is_true("isRdma")
    first = Resource(name=name)
    chosen: list[Chosen] = []
    if kind in _CLASSES:
        wanted = _wanted(keys)
        found = (chosen_of(one, _CLASSES[kind], first, is_rdma=is_rdma) for one in wanted)
        chosen = [one for one in found if one is not None]
        first.withheld = "" if chosen else "it has no selectors that could be converted"
    elif kind == "auxnetdevice":
        first.withheld = _AUXILIARY
        first.left += (line for one in _wanted(keys) for line in kept(one, _AUXILIARY))
    else:
        entry.fail(f"deviceType {kind[:40]!r} is not netDevice, accelerator or auxNetDevice")
    first.left += keys.kept(_WHY, _UNKNOWN)
    if not chosen:
        draft.resources.append(first)
    alike: dict[Manner, list[Chosen]] = {}
    for one in chosen:
        alike.setdefault(one.manner, []).append(one)
    for i, (manner, group) in enumerate(alike.items()):
        resource = first if not i else Resource(name=name, comments=[_ANOTHER.format(name=name)])
        resource.node_names = [node] if node else []
        resource.topology = topology
        _fill(resource, manner, group)
        _add_named(resource, entry, draft, is_first=not i)


def _add_named(resource: Resource, entry: Part, draft: Draft, *, is_first: bool) -> None:
    """Add a resource under its name, or under another one if it is not the first of its entry."""
    name = draft.name_for(resource.name)
    # A name may be there again for other nodes.
    if is_first and name != resource.name and not resource.node_names:
        entry.fail(f"{name!r} is there twice, which the plugin refuses")
    if not is_first or not resource.node_names:
        resource.name = name
    draft.resources.append(resource)


def _wanted(keys: Keys) -> Iterable[Part]:
    """Give the selectors: old versions have one, new ones a list."""
    part = keys.take("selectors")
    if part is None:
        return ()
    return (part,) if part.node.items is not None else part.entries()


def _fill(resource: Resource, manner: Manner, group: list[Chosen]) -> None:
    for one in group:
        resource.values.update(one.values)
    for said in (said for one in group for said in one.selectors):
        if said not in resource.match:
            resource.match.append(said)
    resource.devices = [Said(node) for node in _nodes(manner)]
    if manner.mode is Mode.KERNEL and any(one.has_any_driver for one in group):
        resource.exclude.append(Said({"pci": {"driver": list(USER_SPACE)}}, [_DRIVERS_OPEN]))
    if manner.mode is not Mode.KERNEL and any(one.is_network for one in group):
        resource.values["functions"] = Said({"file": "$(device.syspath)/sriov_numvfs"})
        busy = {"pci": {"function": "physical"}, "values": {"functions": "[1-9]*"}}
        resource.exclude.append(Said(busy, [_BUSY]))
    variable = re.sub(r"[^A-Za-z0-9]", "_", resource.name).upper()
    resource.env = {f"PCIDEVICE_{variable}": "$(pci.address)"}


def _nodes(manner: Manner) -> Iterator[dict[str, Any]]:
    """Give the entries of ``inject.devices``."""
    if manner.mode is Mode.VFIO:
        yield {"path": "/dev/vfio/$(pci.iommuGroup)"}
        yield {"path": "/dev/vfio/vfio"}
    elif manner.mode is Mode.UIO:
        yield {"subsystem": "uio"}
    if manner.is_rdma:
        yield {"subsystem": "infiniband_verbs"}
        yield {"subsystem": "infiniband_mad", "optional": True}
        yield {"path": "/dev/infiniband/rdma_cm", "optional": True}
    if manner.needs_vhost_net:
        yield {"path": "/dev/vhost-net"}
        yield {"path": "/dev/net/tun"}
