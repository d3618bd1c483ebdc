"""The nodes that ``inject.devices`` asks for: which there are, and what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.device import Node
from genericdp.devices.hardware import carrier_of, function_of
from genericdp.devices.inventory import NODE_TYPES
from genericdp.devices.natural import natural_key
from genericdp.printing import printable
from genericdp.template import Template, UnusableValueError, bind, expand

if TYPE_CHECKING:
    from genericdp.devices.candidates import Candidate
    from genericdp.devices.inventory import FoundFile, Inventory
    from genericdp.devices.matching import Excluded
    from genericdp.model import DeviceNodes
    from genericdp.template import Lookup

LATER = ("allocation",)
"""Scopes whose texts are only known when a container asks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeRequest:
    """Nodes that a device wants, as a glob that has yet to be looked at."""

    glob: str
    entry: DeviceNodes
    container_path: Template | None
    own: bool
    """Whether it is the candidate itself, which has been looked at."""


def request(entry: DeviceNodes, lookup: Lookup, candidate: Candidate) -> NodeRequest:
    """Expand an entry for one candidate; raises UnusableValueError."""
    pattern = "" if entry.path is None else absolute_path(entry.path, lookup, pattern=True)
    container_path = entry.container_path
    if container_path is not None:
        container_path = bind(container_path, lookup, path=True, later=LATER)
    own = not glob.has_wildcard(pattern) and glob.unescape(pattern) == candidate.path
    return NodeRequest(glob=pattern, entry=entry, container_path=container_path, own=own)


def absolute_path(template: Template, lookup: Lookup, *, pattern: bool = False) -> str:
    """Expand a template that must give an absolute path; raises UnusableValueError."""
    text = expand(template, lookup, path=True, quote=glob.escape if pattern else str)
    if not text.startswith("/"):
        raise UnusableValueError(f"'{template}' gives {text!r}, which is not an absolute path")
    return text


def own_node(file: FoundFile) -> Node:
    """Give the candidate's own node, as it is given where nothing else is asked for."""
    return _node(file, Template((file.path,)), "rw", exclusive=True)


def requested_nodes(
    requests: tuple[NodeRequest, ...],
    candidate: Candidate,
    inventory: Inventory,
    excluded: Excluded,
) -> tuple[tuple[Node, ...], tuple[str, ...]]:
    """Give the nodes, and what is missing of them."""
    nodes: list[Node] = []
    missing: list[str] = []
    for one in requests:
        found = _found(one, candidate, inventory)
        usable = [file for file in found if not _trouble(file, excluded)]
        nodes += (_requested_node(one, file) for file in usable)
        if not usable and not one.entry.optional:
            missing.append(_why_missing(one, found, inventory, excluded))
    return tuple(nodes), tuple(missing)


def _found(
    request: NodeRequest, candidate: Candidate, inventory: Inventory
) -> tuple[FoundFile, ...]:
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
    """Return the nodes of a subsystem that belong to the same hardware."""
    host, device = inventory.host, candidate.device
    if device is None or entry.subsystem is None:
        return ()
    carrier = carrier_of(device, host, entry.subsystem)
    if carrier is None:
        return ()
    function = function_of(carrier, host)
    files = []
    for one in host.below(carrier.syspath, entry.subsystem):
        if one.number is None:
            continue
        if entry.name and not glob.matches_any(entry.name, one.name):
            continue
        if function_of(one, host) == function:
            file = inventory.file(one.device_file)
            files += [] if file is None else [file]
    return tuple(sorted(files, key=lambda file: natural_key(file.path)))


def _requested_node(request: NodeRequest, file: FoundFile) -> Node:
    entry = request.entry
    container_path = request.container_path or Template((file.path,))
    if container_path.parts and str(container_path.parts[-1]).endswith("/"):
        container_path = Template((*container_path.parts, file.path.rpartition("/")[2]))
    # A path without a template is a control node: every device of the node may bring it along.
    control = entry.path is not None and not entry.path.references
    exclusive = not (entry.shared or control)
    return _node(file, container_path, entry.permissions, exclusive=exclusive)


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
    request: NodeRequest, found: tuple[FoundFile, ...], inventory: Inventory, excluded: Excluded
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
