"""From groups to devices: everything that a container gets for each."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from genericdp import glob
from genericdp.devices.allocation import edits
from genericdp.devices.attributes import attributes_of
from genericdp.devices.capacity import capacity_of
from genericdp.devices.device import (
    BoundProbe,
    Device,
    DeviceNode,
    Member,
    MountPoint,
    Variable,
    device_refusal,
)
from genericdp.devices.devicelist import Entry
from genericdp.devices.groups import Namer, grouped, resource_name
from genericdp.devices.hardware import nodes_nearby
from genericdp.devices.in_use import why_not_bound
from genericdp.devices.inventory import NODE_TYPES, natural_key
from genericdp.devices.lookup import Names
from genericdp.devices.topology import closeness, spot_of
from genericdp.model import (
    DeviceNodeSelector,
    InjectBy,
    ServedBy,
    TopologyMode,
    is_cdi_name,
)
from genericdp.printing import printable
from genericdp.reasons import Code, Reason
from genericdp.template import (
    MAX_TEXTS,
    LackingValueError,
    Template,
    UnusableValueError,
    bind,
    byte_length,
    expand,
    is_share,
    templates_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from genericdp.devices.devicelist import Subject
    from genericdp.devices.groups import CandidateGroup, FormerDevices
    from genericdp.devices.held import Held
    from genericdp.devices.identity import HardwareIdentity
    from genericdp.devices.inventory import Candidate, FoundFile, Host, Inventory
    from genericdp.devices.matching import Excluded, Match
    from genericdp.model import Hook, HookName, Inject, Mount, Resource
    from genericdp.template import Lookup

_LATER = ("allocation", "claim", "device.share")
"""Scopes and names whose values are only known at an allocation."""


def make_devices(
    resource: Resource,
    match: Match,
    inventory: Inventory,
    why_no_name: Callable[[str], str],
    former: Callable[[str], FormerDevices],
    held: Held,
) -> dict[str, list[Entry[Subject]]]:
    """Return an entry for each candidate or group of them, by the name of its resource.

    The resource itself comes first. If its name is a template, the devices belong to the names that
    result, and ``why_no_name`` returns why a name is not allowed, or an empty string. ``former``
    returns the devices that were listed under such a name.
    """
    groups, incomplete = grouped(resource, match.members, inventory)
    namer = Namer(resource, groups, inventory, former, held)
    maker = _Maker(resource, match.excluded, inventory, namer)
    made: dict[str, list[Entry[Subject]]] = {resource.name: []}
    for group in groups:
        name = resource.name
        try:
            name = resource_name(group, resource, inventory, why_no_name)
            made.setdefault(name, [])
            made[name].append(Entry(device=maker.make(group, name)))
        except UnusableValueError as error:
            made[name].append(group.refused(error.reason))
    made[resource.name].extend(incomplete)
    return made


@dataclass(slots=True)
class _TextBudget:
    """The bytes of text that a device may still use.

    They are counted before strings are built: 10,000 variables of 60 KiB, in a config of 200 KB,
    need 600 MB.
    """

    left: int

    def spend(self, size: int) -> None:
        """Subtract some bytes; raise UnusableValueError if fewer are left."""
        self.left -= size
        if self.left < 0:
            raise UnusableValueError(f"its strings take more than {MAX_TEXTS >> 20} MiB together")

    def counted(self, lookup: Lookup) -> Lookup:
        """Return a lookup that subtracts the size of its results."""

        def look(scope: str, name: str, /) -> str | None:
            text = lookup(scope, name)
            if text is not None:
                self.spend(byte_length(text))
            return text

        return look


class _Injection(NamedTuple):
    """One ``inject``, of the resource or of an entry of ``match``, for one member."""

    member: Candidate
    lookup: Lookup
    """The variables of the member."""
    inject: Inject


class _Maker:
    """Makes the devices of one resource."""

    def __init__(
        self,
        resource: Resource,
        excluded: Excluded,
        inventory: Inventory,
        namer: Namer,
    ) -> None:
        self._resource = resource
        self._namer = namer
        self._excluded = excluded
        self._inventory = inventory
        self._host = inventory.host
        # Without ``devices`` an entry of ``match`` adds no nodes.
        added = [
            replace(selector.inject, devices=selector.inject.devices or ())
            for selector in resource.match
        ]
        # By the entry that matches a member: everything to inject, and the part that differs
        # between members, each with the bytes of its literal text.
        common, *of_entries = (
            [(part, _literal_size(part)) for part in (inject, _differing(inject))]
            for inject in (resource.inject, *added)
        )
        self._injects = [
            # The usual case: the entry of ``match`` has no ``inject`` of its own.
            (common, of_entry) if any(templates_of(inject)) or inject.devices else (common,)
            for inject, of_entry in zip(added, of_entries, strict=True)
        ]
        self._checks_size = _literal_size((resource.health, resource.hooks))

    def make(self, group: CandidateGroup, name: str) -> Device:
        """Expand all templates of the resource; a required thing that is missing makes the device
        Unhealthy.

        ``name`` is that of the resource, even if it results from a template. Raises
        UnusableValueError if there can be no device.
        """
        resource, inventory, host = self._resource, self._inventory, self._host
        first, entries = group.members[0], [min(member.entries) for member in group.members]
        budget = _TextBudget(MAX_TEXTS)
        budget.spend(self._checks_size)
        if resource.inject.devices is None:
            _check_nodes(resource, group, host)
        names = [Names(member, resource=resource, inventory=inventory) for member in group.members]
        identities = tuple(self._namer.identity_of_member(member, name) for member in group.members)
        naming = self._namer.naming(group, name, names, identities)
        device_id = naming.id
        for member_names in names:
            member_names.device_id = device_id
        lookups = [budget.counted(member_names.get_text) for member_names in names]
        given = list(self._given(zip(group.members, lookups, entries, strict=True), budget))
        nodes, missing, paths = self._nodes(given)
        mounts = [
            mount
            for injection in given
            for given_mount in injection.inject.mounts
            for mount in _mount_points(
                given_mount, injection.lookup, host, replicas=resource.replicas
            )
        ]
        variables = [
            (name, variable, injection)
            for injection in given
            for name, variable in injection.inject.env.items()
        ]
        values = _bound(
            (name, variable.value, injection.lookup) for name, variable, injection in variables
        )
        # The first one counts.
        declared = {name: variable for name, variable, _ in reversed(variables)}
        if paths and not nodes and not missing:
            why = "all nodes of inject.devices are optional and absent"
            raise UnusableValueError(why, Code.NOTHING_TO_INJECT)
        if why := why_not_bound(nodes, host, paths):
            raise UnusableValueError(why, Code.NOT_BOUND)
        hardware = [member.device for member in group.members if member.device is not None]
        spot = spot_of(hardware, host, closeness(resource, lookups))
        capacity = capacity_of(resource, names[0].get_text)
        device = Device(
            id=device_id,
            key=group.key,
            identities=identities,
            named_by=naming.named_by,
            renamed_to=naming.renamed_to,
            weak_id=naming.weak,
            path=first.path,
            members=() if group.text is None else tuple(map(_member, group.members, identities)),
            # A control node is injected with every member.
            nodes=tuple(dict.fromkeys(nodes)),
            missing=tuple(dict.fromkeys(missing)),
            mounts=tuple(dict.fromkeys(mounts)),
            env={name: Variable(values=values[name], declared=declared[name]) for name in values},
            annotations=_bound(
                (key, text, injection.lookup)
                for injection in given
                for key, text in injection.inject.annotations.items()
            ),
            cdi=tuple(
                dict.fromkeys(
                    _cdi_name(cdi_name, injection.lookup)
                    for injection in given
                    for cdi_name in injection.inject.cdi
                )
            ),
            cdi_name=_own_cdi_name(resource, name, device_id) if nodes else "",
            identity=first.file.identity,
            replicas=resource.replicas,
            exclusive=resource.exclusive,
            numa_nodes=spot.numa_nodes if resource.topology is TopologyMode.AUTO else (),
            spot=spot,
            known_since=None if first.device is None else first.device.known_since,
            parameters=resource.parameters,
            attributes=attributes_of(resource, first.device, names[0].get_text, host),
            metadata=resource.metadata,
            capacity=capacity,
            # Of what is not known, claims could take any amount.
            shares_capacity=resource.sharing == "capacity"
            and all(value.amount is not None for value in capacity.values()),
            probes=bound_probes(resource, lookups[0]),
            hooks=bound_hooks(resource, lookups[0]),
            policy=resource.policy,
        )
        self._check(device, first, given)
        return device

    def _given(
        self, members: Iterable[tuple[Candidate, Lookup, int]], budget: _TextBudget
    ) -> Iterator[_Injection]:
        """Yield what to inject for each member; parts that are the same for all only for the first.

        A group of 2,000 members with 4,000 mounts has 4,000 mounts, not 8 million.
        """
        complete: set[int] = set()
        for member, lookup, entry in members:
            for parts in self._injects[entry]:
                inject, size = parts[id(parts) in complete]
                complete.add(id(parts))
                budget.spend(size)
                yield _Injection(member, lookup, inject)

    def _check(self, device: Device, first: Candidate, injected: Iterable[_Injection]) -> None:
        """Raise UnusableValueError if no container can get the device."""
        # Otherwise there is nothing to check: a node at its own path.
        if (
            device.members
            or device.capacity
            or any(
                injection.inject.devices or injection.inject.mounts or injection.inject.annotations
                for injection in injected
            )
        ):
            try:
                edits([device])
            except LackingValueError as error:
                amounts = device.capacity.items()
                causes = (f"{name}: {value.note}" for name, value in amounts if value.note)
                raise LackingValueError("; ".join([str(error), *causes])) from error
        given = (device.nodes, device.given_mounts, device.env, device.annotations, device.cdi)
        if not device.missing and not any(given):
            raise UnusableValueError(_nothing_to_give(first, self._host), Code.NOTHING_TO_INJECT)
        find, mount_target = self._inventory.file, self._host.mount_target
        if why := device_refusal(device, device.mounts, find, mount_target):
            raise UnusableValueError(why, Code.FORBIDDEN)

    def _nodes(
        self, given: Iterable[_Injection]
    ) -> tuple[list[DeviceNode], list[Reason], list[str]]:
        """Return the device nodes of all members, required nodes that are missing, and the
        requested paths, with or without wildcards, which need not exist.
        """
        nodes, missing, paths = [], [], []
        for member, lookup, inject in given:
            if inject.devices is None and member.has_node:
                nodes.append(self._node(DeviceNodeSelector(), None, member.file))
            for entry in inject.devices or ():
                pattern = ""
                if entry.path is not None:
                    pattern = expand(entry.path, lookup, path=True, quote=glob.escape)
                inside = entry.container_path
                if inside is not None:
                    inside = bind(inside, lookup, path=True, later=_LATER)
                found = self._found(entry, pattern, member)
                usable = [file for file in found if not self._why_not_given(file)]
                nodes += [self._node(entry, inside, file) for file in usable]
                if not usable and not entry.optional:
                    missing.append(self._why_missing(entry, pattern, found))
                paths.append(glob.unescape(pattern))
        return nodes, missing, paths

    def _node(
        self, entry: DeviceNodeSelector, inside: Template | None, file: FoundFile
    ) -> DeviceNode:
        container_path = inside or Template((file.path,))
        if container_path.parts and str(container_path.parts[-1]).endswith("/"):
            container_path = Template((*container_path.parts, file.path.rpartition("/")[2]))
        # A path without a template is a control node: it may be injected with every device.
        control = entry.path is not None and not entry.path.references
        return DeviceNode(
            host_path=file.path,
            real_path=file.target,
            container_path=container_path,
            permissions=entry.permissions,
            key=file.key,
            identity=file.identity,
            exclusive=not (entry.shared or control),
            hardware=self._hardware_of(file),
        )

    def _hardware_of(self, file: FoundFile) -> HardwareIdentity | None:
        """Return the hardware that a node belongs to, for records of claims; None if it is not
        needed.
        """
        syspath, host = file.identity.syspath, self._host
        if self._resource.served_by is not ServedBy.DRA:
            return None
        with suppress(UnusableValueError):
            device = None if syspath is None else host.device(syspath)
            return self._namer.identity_of(file, device)
        return None

    def _found(
        self, entry: DeviceNodeSelector, pattern: str, candidate: Candidate
    ) -> tuple[FoundFile, ...]:
        """Return the existing nodes that an entry of ``inject.devices`` names."""
        if entry.subsystem is not None:
            return self._nearby(entry.subsystem, entry, candidate)
        if glob.has_wildcard(pattern):
            found = self._inventory.found(pattern)
            return tuple(file for file in found if file.type in NODE_TYPES)
        if glob.unescape(pattern) == candidate.path:
            return (candidate.file,)
        return self._inventory.found(pattern)

    def _nearby(
        self, subsystem: str, entry: DeviceNodeSelector, candidate: Candidate
    ) -> tuple[FoundFile, ...]:
        """Return the nodes of a subsystem that belong to the candidate's hardware."""
        if candidate.device is None:
            return ()
        nodes = nodes_nearby(candidate.device, self._host, subsystem, entry.name)
        files = [self._inventory.file(node.device_file) for node in nodes]
        present = (file for file in files if file is not None)
        return tuple(sorted(present, key=lambda file: natural_key(file.path)))

    def _why_missing(
        self, entry: DeviceNodeSelector, pattern: str, found: Iterable[FoundFile]
    ) -> Reason:
        if entry.subsystem is not None:
            names = f" called {' or '.join(entry.name)}" if entry.name else ""
            why = f"there is no {entry.subsystem} node{names} on the same hardware"
            return Reason(Code.NODE_MISSING, why, entry.subsystem)
        path = printable(glob.unescape(pattern))
        if pattern in self._inventory.hanging:
            return Reason(Code.HANGING, f"reading {path} timed out", path)
        for file in found:
            if (why_not := self._why_not_given(file)) is not None:
                return replace(why_not, text=f"{file.printable_path}: {why_not}", subject=path)
        return Reason(Code.NODE_MISSING, f"{path} does not exist", path)

    def _why_not_given(self, file: FoundFile) -> Reason | None:
        if file.type not in NODE_TYPES:
            return Reason(Code.WRONG_TYPE, f"no device node (its type is {file.type})")
        if file.refusal:
            return Reason(Code.FORBIDDEN, file.refusal)
        return self._excluded.reason(file)


def _member(candidate: Candidate, hardware: HardwareIdentity) -> Member:
    file = candidate.file
    return Member(key=candidate.key, path=file.path, identity=file.identity, hardware=hardware)


def _check_nodes(resource: Resource, group: CandidateGroup, host: Host) -> None:
    """Check that a device that ``udev`` selected has a device file; in a group, another member
    may.
    """
    alone = not any(member.has_node for member in group.members)
    for member in group.members:
        expects_file = member.device is not None and member.device.number is not None
        is_udev = resource.match[min(member.entries)].candidates.kind == "udev"
        if is_udev and not member.has_node and (alone or expects_file):
            raise UnusableValueError(_why_no_node(member, host), Code.NO_NODE)


def _why_no_node(candidate: Candidate, host: Host) -> str:
    device = candidate.device
    if device is not None and device.number is not None:
        return f"its node {device.device_file} does not exist"
    if device is not None and (why := host.why_unreadable(f"{device.syspath}/uevent")):
        return f"{device.syspath}/uevent cannot be read: {why}"
    return (
        "it has no device node (write inject: {devices: []} if it needs none; net and pci selectors"
        " take what has none)"
    )


def _nothing_to_give(candidate: Candidate, host: Host) -> str:
    if candidate.has_node or (known := candidate.device) is None or known.number is None:
        return "there is nothing to give to a container"
    directory = known.device_file.rpartition("/")[0]
    return f"{_why_no_node(candidate, host)} (in a container: mount {directory} of the host)"


def _differing(inject: Inject) -> Inject:
    """Return the part of an ``inject`` that can differ between the members of a group."""

    def differs(value: object) -> bool:
        names = (ref for template in templates_of(value) for ref in template.references)
        return not all(reference.scope in _LATER or is_share(reference) for reference in names)

    nodes = inject.devices
    return replace(
        inject,
        devices=nodes
        and tuple(node for node in nodes if node.subsystem is not None or differs(node)),
        mounts=tuple(filter(differs, inject.mounts)),
        env={name: variable for name, variable in inject.env.items() if differs(variable)},
        annotations={key: text for key, text in inject.annotations.items() if differs(text)},
        cdi=tuple(filter(differs, inject.cdi)),
    )


def _literal_size(value: object) -> int:
    """Return the literal text of all templates, in bytes."""
    parts = (part for template in templates_of(value) for part in template.parts)
    return sum(byte_length(part) for part in parts if isinstance(part, str))


def _bound(texts: Iterable[tuple[str, Template, Lookup]]) -> dict[str, tuple[Template, ...]]:
    """Expand the templates of each key for all members; equal results count once."""
    found: dict[str, dict[Template, None]] = {}
    for key, text, lookup in texts:
        found.setdefault(key, {})[bind(text, lookup, later=_LATER)] = None
    return {key: tuple(values) for key, values in found.items()}


def _mount_points(
    mount: Mount, lookup: Lookup, host: Host, *, replicas: int
) -> Iterator[MountPoint]:
    """Yield a mount, or one for each share where the path on the host depends on it."""
    if not any(is_share(reference) for reference in mount.host_path.references):
        yield _mount_point(mount, lookup, host, share=None)
        return
    for share in range(replicas):
        yield _mount_point(mount, _with_share(lookup, share), host, share=share)


def _with_share(lookup: Lookup, share: int) -> Lookup:
    def look(scope: str, name: str, /) -> str | None:
        return str(share) if (scope, name) == ("device", "share") else lookup(scope, name)

    return look


def _mount_point(mount: Mount, lookup: Lookup, host: Host, *, share: int | None) -> MountPoint:
    host_path = expand(mount.host_path, lookup, path=True)
    return MountPoint(
        share=share,
        host_path=host_path,
        container_path=bind(mount.container_path, lookup, path=True, later=_LATER),
        read_only=mount.read_only,
        optional=mount.optional,
        absent=mount.optional and host.exists_on_host(host_path) is False,
    )


def _cdi_name(template: Template, lookup: Lookup) -> str:
    text = expand(template, lookup)
    if not is_cdi_name(text):
        raise UnusableValueError(f"'{template}' gives {text!r}, which is not a CDI name")
    return text


def _own_cdi_name(resource: Resource, name: str, device_id: str) -> str:
    """Return the CDI name of a device whose nodes come by CDI, else an empty string."""
    if resource.inject.by is not InjectBy.CDI:
        return ""
    if not is_cdi_name(text := f"{name}={device_id}"):
        raise UnusableValueError(
            f"{text!r} is not a CDI name: domain and type begin with a letter, and all three"
            " parts end with a letter or digit"
        )
    return text


def bound_probes(resource: Resource, lookup: Lookup) -> tuple[BoundProbe, ...]:
    """Return the probes for one device; raise UnusableValueError for a value that it lacks."""
    return tuple(
        BoundProbe(probe=probe, check=probe.check.bind(lookup)) for probe in resource.health
    )


def bound_hooks(resource: Resource, lookup: Lookup) -> dict[HookName, Hook[Template]]:
    """Return the hooks for one device, in which only a claim's parameters may be left.

    Raise UnusableValueError for a value that it lacks.
    """
    return {name: hook.bind(lookup, ("claim",)) for name, hook in resource.hooks.items()}
