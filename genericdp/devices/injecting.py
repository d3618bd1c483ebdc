"""From a candidate to a device: its id and everything that a container gets for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Never

from genericdp.devices.allocation import AllocationConflictError, edits
from genericdp.devices.binding import bound_hooks, bound_probes
from genericdp.devices.bounding import why_refused
from genericdp.devices.device import (
    Device,
    Member,
    MountPoint,
    Node,
    NotOffered,
    Variable,
)
from genericdp.devices.grouping import refusal
from genericdp.devices.hardware import place_name
from genericdp.devices.ids import as_id
from genericdp.devices.inventory import NODE_TYPES
from genericdp.devices.lookup import Names
from genericdp.devices.matching import templates_of
from genericdp.devices.requesting import (
    LATER,
    absolute_path,
    own_node,
    request,
    requested_nodes,
)
from genericdp.devices.topology import agreed, closeness, spot_of
from genericdp.devices.vfio import why_not_bound
from genericdp.glob import unescape
from genericdp.model import TopologyMode
from genericdp.template import MOST_TEXTS, Template, UnusableValueError, bind, byte_length, expand

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from genericdp.devices.candidates import Candidate
    from genericdp.devices.checks import BoundHooks, BoundProbe
    from genericdp.devices.grouping import Group
    from genericdp.devices.inventory import Inventory
    from genericdp.devices.matching import Excluded
    from genericdp.devices.requesting import NodeRequest
    from genericdp.devices.sysdevice import Host
    from genericdp.model import Resource
    from genericdp.template import Lookup

_NONE: Mapping[str, Never] = MappingProxyType({})
"""One for all devices: empty dicts of their own took 128 bytes of each."""
_CDI_NAME = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
    r"=[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?"
)


@dataclass(slots=True)
class _Room:
    """How much text a device may still take, in bytes."""

    left: int

    def take(self, size: int) -> None:
        """Take so much; raises UnusableValueError where there is not so much left."""
        self.left -= size
        if self.left < 0:
            raise UnusableValueError(f"its texts take more than {MOST_TEXTS >> 20} MiB together")

    def counted(self, lookup: Lookup) -> Lookup:
        """Return a lookup whose every text takes its room."""

        def look(scope: str, name: str, /) -> str | None:
            text = lookup(scope, name)
            if text is not None:
                self.take(byte_length(text))
            return text

        return look


def _literals(resource: Resource) -> tuple[int, int]:
    """Return how much text a resource's templates bring themselves, in bytes.

    First what every member of a group expands, then what counts once.
    """
    sizes = [0, 0]
    for template in templates_of((resource.inject, resource.health, resource.hooks)):
        size = sum(byte_length(part) for part in template.parts if isinstance(part, str))
        sizes[not template.references] += size
    return sizes[0], sizes[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """What one member brings, but for what its globs find."""

    candidate: Candidate
    requests: tuple[NodeRequest, ...]
    mounts: tuple[MountPoint, ...]
    cdi: tuple[str, ...]
    lookup: Lookup


@dataclass(frozen=True, kw_only=True, slots=True)
class _Draft:
    """A device that only lacks what its globs find."""

    resource: Resource
    group: Group
    id: str
    parts: tuple[_Part, ...]
    """Of each member, in natural order of their paths."""
    probes: tuple[BoundProbe, ...]
    hooks: BoundHooks


def make(
    resource: Resource,
    groups: Iterable[Group],
    excluded: Excluded,
    inventory: Inventory,
    node_name: str,
) -> list[Device | NotOffered]:
    """Make a device of each candidate or group of them, or say why it is not offered."""
    sizes, made = _literals(resource), list[Device | NotOffered]()
    for group in groups:
        try:
            draft = _draft(resource, group, inventory, node_name, sizes)
        except UnusableValueError as error:
            made.append(refusal(resource, group, str(error)))
        else:
            made.append(_complete(draft, inventory, excluded))
    return made


def _draft(
    resource: Resource,
    group: Group,
    inventory: Inventory,
    node_name: str,
    literals: tuple[int, int],
) -> _Draft:
    """Expand all templates of the resource, those of ``inject`` for each member."""
    if resource.inject.devices is None:
        _check_nodes(group, inventory.host)
    names = [
        Names(one, resource=resource, inventory=inventory, node_name=node_name)
        for one in group.members
    ]
    device_id = as_id(_id_text(resource, group, names, inventory))
    for one in names:
        one.device_id = device_id
    room = _Room(MOST_TEXTS)
    room.take(literals[0] * len(group.members) + literals[1])
    first = room.counted(names[0].get_text)
    return _Draft(
        resource=resource,
        group=group,
        id=device_id,
        parts=tuple(
            _part(resource, member, room.counted(its.get_text))
            for member, its in zip(group.members, names, strict=True)
        ),
        probes=bound_probes(resource, first),
        hooks=bound_hooks(resource, first),
    )


def _part(resource: Resource, candidate: Candidate, lookup: Lookup) -> _Part:
    inject = resource.inject
    return _Part(
        candidate=candidate,
        requests=tuple(request(entry, lookup, candidate) for entry in inject.devices or ()),
        mounts=tuple(
            MountPoint(
                host_path=absolute_path(mount.host_path, lookup),
                container_path=bind(mount.container_path, lookup, path=True, later=LATER),
                read_only=mount.read_only,
            )
            for mount in inject.mounts
        ),
        cdi=tuple(_cdi_name(template, lookup) for template in inject.cdi),
        lookup=lookup,
    )


def _id_text(resource: Resource, group: Group, names: Sequence[Names], inventory: Inventory) -> str:
    """Give what the id is made of, which is the same for every member."""
    if resource.id is None:
        return group.text or _default_id(group.members[0], inventory)
    texts: dict[str, Candidate] = {}
    for member, its in zip(group.members, names, strict=True):
        texts.setdefault(expand(resource.id, its.get_text), member)
    if len(texts) > 1:
        both = [f"{text!r} ({member.file.shown})" for text, member in texts.items()]
        raise UnusableValueError(f"its members have different ids: {both[0]} and {both[1]}")
    if not (text := next(iter(texts))):
        raise UnusableValueError(f"its id '{resource.id}' is an empty text")
    return text


def _check_nodes(group: Group, host: Host) -> None:
    """See that what was selected for its device file has one; in a group another may have it."""
    alone = not any(one.has_node for one in group.members)
    for one in group.members:
        expects_file = one.device is not None and one.device.number is not None
        if one.needs_node and not one.has_node and (alone or expects_file):
            raise UnusableValueError(_why_no_node(one, host))


def _why_no_node(candidate: Candidate, host: Host) -> str:
    device = candidate.device
    if device is not None and device.number is not None:
        return f"its node {device.device_file} does not exist"
    if device is not None and (why := host.trouble(f"{device.syspath}/uevent")):
        return f"{device.syspath}/uevent cannot be read: {why}"
    return (
        "it has no device node (write inject: {devices: []} if it needs none; net and pci selectors"
        " take what has none)"
    )


def _default_id(candidate: Candidate, inventory: Inventory) -> str:
    """Give what stays while the hardware stays where it is, else how it was found."""
    device, file = candidate.device, candidate.file
    if device is not None and (place := place_name(device, inventory.host)) is not None:
        return place
    if file.identity.syspath and not file.is_link:
        return device.name if device is not None else file.kernel_name
    return candidate.path.removeprefix("/dev/")


def _complete(draft: _Draft, inventory: Inventory, excluded: Excluded) -> Device | NotOffered:
    """Add the nodes that the globs found; what must be there and is not makes it Unhealthy."""
    resource, group = draft.resource, draft.group
    nodes, missing = _nodes(draft, inventory, excluded)
    requested = any(part.requests for part in draft.parts)
    if requested and not nodes and not missing:
        return refusal(resource, group, "all nodes of inject.devices are optional and absent")
    wanted = (unescape(one.glob) for part in draft.parts for one in part.requests)
    if reason := why_not_bound(nodes, inventory.host, wanted):
        return refusal(resource, group, reason)
    try:
        device = _device(draft, nodes, missing, inventory)
        if requested or device.mounts or device.members:
            edits([device])
    except (UnusableValueError, AllocationConflictError) as error:
        return refusal(resource, group, str(error))
    if not (missing or nodes or device.mounts or device.env or device.annotations or device.cdi):
        return refusal(resource, group, _nothing_to_give(group.members[0], inventory.host))
    if reason := why_refused(device, inventory.file, inventory.way):
        return refusal(resource, group, reason)
    return device


def _nothing_to_give(candidate: Candidate, host: Host) -> str:
    if (known := candidate.device) is None or known.number is None:
        return "there is nothing to give to a container"
    folder = known.device_file.rpartition("/")[0]
    return f"{_why_no_node(candidate, host)} (in a container: mount {folder} of the host)"


def _nodes(
    draft: _Draft, inventory: Inventory, excluded: Excluded
) -> tuple[tuple[Node, ...], tuple[str, ...]]:
    """Give the nodes of all members, and what is missing of them."""
    if draft.resource.inject.devices is None:
        files = (one.file for one in draft.group.members)
        return tuple(own_node(one) for one in files if one.type in NODE_TYPES), ()
    nodes: list[Node] = []
    missing: list[str] = []
    for part in draft.parts:
        its, lacking = requested_nodes(part.requests, part.candidate, inventory, excluded)
        nodes += its
        missing += lacking
    # A control node comes with every member.
    return tuple(dict.fromkeys(nodes)), tuple(dict.fromkeys(missing))


def _device(
    draft: _Draft, nodes: tuple[Node, ...], missing: tuple[str, ...], inventory: Inventory
) -> Device:
    inject, first = draft.resource.inject, draft.group.members[0]
    known, lookups = first.device, [part.lookup for part in draft.parts]
    spot = spot_of(
        [one.device for one in draft.group.members if one.device is not None],
        inventory.host,
        agreed(closeness(draft.resource, lookup) for lookup in lookups),
    )
    return Device(
        id=draft.id,
        key=draft.group.key,
        path=first.path,
        members=() if draft.group.text is None else _members(draft.group, inventory),
        nodes=nodes,
        mounts=tuple(dict.fromkeys(mount for part in draft.parts for mount in part.mounts)),
        env={
            name: Variable(
                values=_bound(it.value, lookups),
                separator=it.separator,
                prefix=it.prefix,
                suffix=it.suffix,
            )
            for name, it in inject.env.items()
        }
        or _NONE,
        annotations={key: _bound(text, lookups) for key, text in inject.annotations.items()}
        or _NONE,
        cdi=tuple(dict.fromkeys(name for part in draft.parts for name in part.cdi)),
        missing=missing,
        identity=first.file.identity,
        replicas=draft.resource.replicas,
        numa_nodes=spot.numa_nodes if draft.resource.topology is TopologyMode.AUTO else (),
        spot=spot,
        initialized_usec=None if known is None else known.initialized_usec,
        probes=draft.probes,
        hooks=draft.hooks,
        policy=draft.resource.policy,
    )


def _members(group: Group, inventory: Inventory) -> tuple[Member, ...]:
    return tuple(
        Member(
            key=one.key,
            path=one.file.shown,
            identity=one.file.identity,
            place=_default_id(one, inventory),
        )
        for one in group.members
    )


def _bound(template: Template, lookups: Iterable[Lookup]) -> tuple[Template, ...]:
    """Expand a text for each member; equal ones count once."""
    return tuple(dict.fromkeys(bind(template, lookup, later=LATER) for lookup in lookups))


def _cdi_name(template: Template, lookup: Lookup) -> str:
    text = expand(template, lookup)
    if not _CDI_NAME.fullmatch(text):
        raise UnusableValueError(f"'{template}' gives {text!r}, which is no CDI name")
    return text
