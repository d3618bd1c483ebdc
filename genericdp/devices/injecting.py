"""From a candidate to a device: its id and everything that a container gets for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.devices.allocation import AllocationConflictError, edits
from genericdp.devices.binding import bound_hooks, bound_probes
from genericdp.devices.bounding import why_refused
from genericdp.devices.device import (
    Device,
    MountPoint,
    Node,
    NotOffered,
    Variable,
)
from genericdp.devices.hardware import place_name
from genericdp.devices.ids import as_id
from genericdp.devices.inventory import NODE_TYPES
from genericdp.devices.lookup import Names
from genericdp.devices.matching import NONE_EXCLUDED, not_offered
from genericdp.devices.placing import closeness, spot_of
from genericdp.devices.requesting import (
    LATER,
    absolute_path,
    own_node,
    request,
    requested_nodes,
)
from genericdp.model import TopologyMode
from genericdp.template import Template, UnusableValueError, bind, expand

if TYPE_CHECKING:
    from genericdp.devices.candidates import Candidate
    from genericdp.devices.checks import BoundHooks, BoundProbe
    from genericdp.devices.inventory import Inventory
    from genericdp.devices.matching import Excluded
    from genericdp.devices.requesting import Request
    from genericdp.devices.sysdevice import Facts
    from genericdp.model import Resource
    from genericdp.template import Lookup

_CDI_NAME = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
    r"=[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A device that only lacks what its globs find."""

    resource: Resource
    candidate: Candidate
    id: str
    requests: tuple[Request, ...]
    mounts: tuple[MountPoint, ...]
    cdi: tuple[str, ...]
    probes: tuple[BoundProbe, ...]
    hooks: BoundHooks
    lookup: Lookup
    closeness: str | None = None


def draft(
    resource: Resource, candidate: Candidate, inventory: Inventory, node_name: str
) -> Draft | NotOffered:
    """Expand all templates of the resource for one candidate."""
    try:
        return _draft(resource, candidate, inventory, node_name)
    except UnusableValueError as error:
        return not_offered(resource, candidate, str(error))


def _draft(resource: Resource, candidate: Candidate, inventory: Inventory, node_name: str) -> Draft:
    if candidate.needs_node and not candidate.has_node and resource.inject.devices is None:
        raise UnusableValueError(_why_no_node(candidate, inventory.facts))
    names = Names(candidate, resource=resource, inventory=inventory, node_name=node_name)
    if resource.id is None:
        text = _default_id(candidate, inventory)
    else:
        text = expand(resource.id, names.get_text)
    if not text:
        raise UnusableValueError(f"its id '{resource.id}' is an empty text")
    names.device_id = as_id(text)
    inject = resource.inject
    return Draft(
        resource=resource,
        candidate=candidate,
        id=as_id(text),
        requests=tuple(request(entry, names.get_text, candidate) for entry in inject.devices or ()),
        mounts=tuple(
            MountPoint(
                host_path=absolute_path(mount.host_path, names.get_text),
                container_path=bind(mount.container_path, names.get_text, path=True, later=LATER),
                read_only=mount.read_only,
            )
            for mount in inject.mounts
        ),
        cdi=tuple(_cdi_name(template, names.get_text) for template in inject.cdi),
        probes=bound_probes(resource, names.get_text),
        hooks=bound_hooks(resource, names.get_text),
        lookup=names.get_text,
        closeness=closeness(resource, names.get_text),
    )


def _why_no_node(candidate: Candidate, facts: Facts) -> str:
    device = candidate.device
    if device is not None and device.number is not None:
        return f"its node {device.device_file} does not exist"
    if device is not None and (why := facts.trouble(f"{device.syspath}/uevent")):
        return f"{device.syspath}/uevent cannot be read: {why}"
    return (
        "it has no device node (write inject: {devices: []} if it needs none; net and pci selectors"
        " take what has none)"
    )


def _default_id(candidate: Candidate, inventory: Inventory) -> str:
    """Give what stays while the hardware stays where it is, else how it was found."""
    device, file = candidate.device, candidate.file
    if device is not None and (place := place_name(device, inventory.facts)) is not None:
        return place
    if file.identity.syspath and not file.is_link:
        return device.name if device is not None else file.kernel_name
    return candidate.path.removeprefix("/dev/")


def complete(
    draft: Draft, inventory: Inventory, *, excluded: Excluded = NONE_EXCLUDED
) -> Device | NotOffered:
    """Add the nodes that the globs found; what must be there and is not makes it Unhealthy."""
    resource, candidate = draft.resource, draft.candidate
    if resource.inject.devices is None:
        is_node = candidate.file.type in NODE_TYPES
        nodes: tuple[Node, ...] = (own_node(candidate.file),) if is_node else ()
        missing: tuple[str, ...] = ()
    else:
        nodes, missing = requested_nodes(draft.requests, candidate, inventory, excluded)
    if draft.requests and not nodes and not missing:
        return not_offered(
            resource, candidate, "all nodes of inject.devices are optional and absent"
        )
    try:
        device = _device(draft, nodes, missing, inventory)
        if draft.requests or draft.mounts:
            edits([device])
    except (UnusableValueError, AllocationConflictError) as error:
        return not_offered(resource, candidate, str(error))
    if not (missing or nodes or device.mounts or device.env or device.annotations or device.cdi):
        reason = "there is nothing to give to a container"
        if (known := candidate.device) is not None and known.number is not None:
            folder = known.device_file.rpartition("/")[0]
            reason = _why_no_node(candidate, inventory.facts)
            reason = f"{reason} (in a container: mount {folder} of the host)"
        return not_offered(resource, candidate, reason)
    if refusal := why_refused(device, inventory.file):
        return not_offered(resource, candidate, refusal)
    return device


def _device(
    draft: Draft, nodes: tuple[Node, ...], missing: tuple[str, ...], inventory: Inventory
) -> Device:
    inject, known = draft.resource.inject, draft.candidate.device
    spot = spot_of(() if known is None else (known,), inventory.facts, draft.closeness)
    return Device(
        id=draft.id,
        key=draft.candidate.key,
        path=draft.candidate.path,
        nodes=nodes,
        mounts=draft.mounts,
        env={
            name: Variable(
                value=bind(variable.value, draft.lookup, later=LATER),
                separator=variable.separator,
            )
            for name, variable in inject.env.items()
        },
        annotations={
            key: bind(template, draft.lookup, later=LATER)
            for key, template in inject.annotations.items()
        },
        cdi=draft.cdi,
        missing=missing,
        identity=draft.candidate.file.identity,
        replicas=draft.resource.replicas,
        numa_nodes=spot.numa_nodes if draft.resource.topology is TopologyMode.AUTO else (),
        spot=spot,
        initialized_usec=None if known is None else known.initialized_usec,
        probes=draft.probes,
        hooks=draft.hooks,
        policy=draft.resource.policy,
    )


def _cdi_name(template: Template, lookup: Lookup) -> str:
    text = expand(template, lookup)
    if not _CDI_NAME.fullmatch(text):
        raise UnusableValueError(f"'{template}' gives {text!r}, which is no CDI name")
    return text
