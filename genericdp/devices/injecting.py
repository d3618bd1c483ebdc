"""From a candidate to a device: its id and everything that a container gets for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.allocation import AllocationConflictError, edits
from genericdp.devices.device import (
    Device,
    MountPoint,
    Node,
    NotOffered,
    Variable,
)
from genericdp.devices.hardware import function_of, numa_node_of, place_name
from genericdp.devices.ids import as_id
from genericdp.devices.inventory import NODE_TYPES, printable
from genericdp.devices.lookup import Names
from genericdp.devices.matching import NONE_EXCLUDED, not_offered
from genericdp.natural import natural_key
from genericdp.template import Template, UnusableValueError, bind, expand

if TYPE_CHECKING:
    from genericdp.devices.candidates import Candidate
    from genericdp.devices.inventory import FoundFile, Inventory
    from genericdp.devices.matching import Excluded
    from genericdp.devices.sysdevice import Facts
    from genericdp.model import DeviceNodes, Resource
    from genericdp.template import Lookup

_CDI_NAME = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
    r"=[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?"
)
_LATER = ("allocation",)


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """Nodes that a device wants, as a glob that has yet to be looked at."""

    glob: str
    entry: DeviceNodes
    container_path: Template | None
    own: bool
    """Whether it is the candidate itself, which has been looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A device that only lacks what its globs find."""

    resource: Resource
    candidate: Candidate
    id: str
    requests: tuple[Request, ...]
    mounts: tuple[MountPoint, ...]
    cdi: tuple[str, ...]
    lookup: Lookup


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
        requests=tuple(
            _request(entry, names.get_text, candidate) for entry in inject.devices or ()
        ),
        mounts=tuple(
            MountPoint(
                host_path=_absolute(mount.host_path, names.get_text),
                container_path=bind(mount.container_path, names.get_text, path=True, later=_LATER),
                read_only=mount.read_only,
            )
            for mount in inject.mounts
        ),
        cdi=tuple(_cdi_name(template, names.get_text) for template in inject.cdi),
        lookup=names.get_text,
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
    nodes, missing = _nodes(draft, inventory, excluded)
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
    return device


def _nodes(
    draft: Draft, inventory: Inventory, excluded: Excluded
) -> tuple[tuple[Node, ...], tuple[str, ...]]:
    """Give the nodes, and what is missing of them."""
    file = draft.candidate.file
    if draft.resource.inject.devices is None:
        is_node = file.type in NODE_TYPES
        return (_own_node(file),) if is_node else (), ()
    nodes: list[Node] = []
    missing: list[str] = []
    for request in draft.requests:
        found = _found(request, draft.candidate, inventory)
        usable = [one for one in found if not _trouble(one, excluded)]
        nodes += (_requested_node(request, one) for one in usable)
        if not usable and not request.entry.optional:
            missing.append(_why_missing(request, found, inventory, excluded))
    return tuple(nodes), tuple(missing)


def _device(
    draft: Draft, nodes: tuple[Node, ...], missing: tuple[str, ...], inventory: Inventory
) -> Device:
    inject, known = draft.resource.inject, draft.candidate.device
    return Device(
        id=draft.id,
        key=draft.candidate.key,
        path=draft.candidate.path,
        nodes=nodes,
        mounts=draft.mounts,
        env={
            name: Variable(
                value=bind(variable.value, draft.lookup, later=_LATER),
                separator=variable.separator,
            )
            for name, variable in inject.env.items()
        },
        annotations={
            key: bind(template, draft.lookup, later=_LATER)
            for key, template in inject.annotations.items()
        },
        cdi=draft.cdi,
        missing=missing,
        identity=draft.candidate.file.identity,
        replicas=draft.resource.replicas,
        numa_node=None if known is None else numa_node_of(known, inventory.facts),
    )


def _request(entry: DeviceNodes, lookup: Lookup, candidate: Candidate) -> Request:
    pattern = "" if entry.path is None else _absolute(entry.path, lookup, pattern=True)
    container_path = entry.container_path
    if container_path is not None:
        container_path = bind(container_path, lookup, path=True, later=_LATER)
    own = not glob.has_wildcard(pattern) and glob.unescape(pattern) == candidate.path
    return Request(glob=pattern, entry=entry, container_path=container_path, own=own)


def _absolute(template: Template, lookup: Lookup, *, pattern: bool = False) -> str:
    text = expand(template, lookup, path=True, quote=glob.escape if pattern else str)
    if not text.startswith("/"):
        raise UnusableValueError(f"'{template}' gives {text!r}, which is not an absolute path")
    return text


def _cdi_name(template: Template, lookup: Lookup) -> str:
    text = expand(template, lookup)
    if not _CDI_NAME.fullmatch(text):
        raise UnusableValueError(f"'{template}' gives {text!r}, which is no CDI name")
    return text


def _found(request: Request, candidate: Candidate, inventory: Inventory) -> tuple[FoundFile, ...]:
    if request.own:
        return (candidate.file,)
    if request.entry.subsystem is not None:
        return _nearby(request.entry, candidate, inventory)
    found = inventory.found(request.glob)
    if glob.has_wildcard(request.glob):
        return tuple(file for file in found if file.type in NODE_TYPES)
    return found


def _nearby(
    entry: DeviceNodes, candidate: Candidate, inventory: Inventory
) -> tuple[FoundFile, ...]:
    """Give the nodes of a subsystem on the same USB device, PCI function or platform device."""
    facts, device = inventory.facts, candidate.device
    function = None if device is None else function_of(device, facts)
    if function is None or entry.subsystem is None:
        return ()
    files = []
    for one in facts.below(function.syspath, entry.subsystem):
        if one.number is None:
            continue
        if entry.name and not glob.matches_any(entry.name, one.name):
            continue
        its = function_of(one, facts)
        if its is not None and its.syspath == function.syspath:
            file = inventory.file(one.device_file)
            files += [] if file is None else [file]
    return tuple(sorted(files, key=lambda file: natural_key(file.path)))


def _requested_node(request: Request, file: FoundFile) -> Node:
    entry = request.entry
    container_path = request.container_path or Template((file.path,))
    if container_path.parts and str(container_path.parts[-1]).endswith("/"):
        container_path = Template((*container_path.parts, file.path.rpartition("/")[2]))
    # A path without a template is a control node: every device of the node may bring it along.
    control = entry.path is not None and not entry.path.references
    exclusive = not (entry.shared or control)
    return _node(file, container_path, entry.permissions, exclusive=exclusive)


def _own_node(file: FoundFile) -> Node:
    return _node(file, Template((file.path,)), "rw", exclusive=True)


def _node(file: FoundFile, container_path: Template, permissions: str, *, exclusive: bool) -> Node:
    return Node(
        host_path=file.path,
        container_path=container_path,
        permissions=permissions,
        key=file.key,
        identity=file.identity,
        exclusive=exclusive,
    )


def _why_missing(
    request: Request, found: tuple[FoundFile, ...], inventory: Inventory, excluded: Excluded
) -> str:
    if request.entry.subsystem is not None:
        names = f" called {' or '.join(request.entry.name)}" if request.entry.name else ""
        return f"there is no {request.entry.subsystem} node{names} on the same hardware"
    path = printable(glob.unescape(request.glob))
    if request.glob in inventory.hanging:
        return f"looking at {path} does not end"
    troubles = (f"{file.shown}: {_trouble(file, excluded)}" for file in found)
    return next(troubles, f"{path} does not exist")


def _trouble(file: FoundFile, excluded: Excluded) -> str:
    if file.type not in NODE_TYPES:
        return f"no device node (its type is {file.type})"
    return file.trouble or excluded.reason(file)
