"""Devices: their IDs, what a container gets for each, and what it must not get."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from genericdp.devices.topology import NOWHERE, Spot
from genericdp.model import FileType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from genericdp.devices.attributes import AttributeValue
    from genericdp.devices.capacity import CapacityValue
    from genericdp.devices.identity import HardwareIdentity
    from genericdp.devices.inventory import FoundFile, Identity
    from genericdp.devices.paths import PathTarget
    from genericdp.model import (
        Check,
        EnvVar,
        Hook,
        HookName,
        Parameter,
        Probe,
        ValueSource,
    )
    from genericdp.policy import Policy
    from genericdp.reasons import Reason
    from genericdp.template import Template

    Find = Callable[[str], FoundFile | None]
    FindTarget = Callable[[str], PathTarget]


MAX_REPLICAS = 10_000
MAX_LENGTH = 63 - len(f"::{MAX_REPLICAS - 1}")
"""Maximum length of an ID without the suffix of a share; the same for any ``replicas``, so that
changing that renames nothing (LAW-4 requires 63 at most).
"""

_FOREIGN = re.compile(r"[^A-Za-z0-9._:-]|:\Z")
"""A colon at the end would become part of the ``::`` before a share's number."""
_SHARE = re.compile("[1-9][0-9]{0,3}")


def as_id(text: str) -> str:
    """Make an ID from any text: other characters become ``_``, and a long ID is cut and ends in a
    hash.
    """
    clean = _FOREIGN.sub("_", text.replace("::", "__"))
    if len(clean) <= MAX_LENGTH:
        return clean
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]
    return f"{clean[: MAX_LENGTH - len(digest) - 1]}-{digest}"


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundProbe:
    """A probe of the config for one device."""

    probe: Probe
    check: Check


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceNode:
    """A node of a device; its container path is a template that an allocation expands."""

    host_path: str
    real_path: str
    """The same path with all links followed."""
    container_path: Template
    permissions: str
    key: str
    """Equal for all names of one node."""
    identity: Identity
    exclusive: bool
    """Whether it may be part of one device only."""
    hardware: HardwareIdentity | None = None
    """The hardware that it belongs to, with DRA; None if unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MountPoint:
    """A directory or file of the host for the container."""

    host_path: str
    container_path: Template
    read_only: bool
    share: int | None = None
    """The only share of its device that has it; None if every share has it."""
    optional: bool = False
    absent: bool = False
    """Whether it is optional and missing: containers start without it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variable:
    """An environment variable before it is joined with those of other devices."""

    values: tuple[Template, ...]
    """The value from each member that has it."""
    declared: EnvVar

    def joined(self, values: Iterable[str]) -> str:
        """Return the value that a container sees, joined from the distinct values of its
        devices.
        """
        template = self.declared
        return f"{template.prefix}{template.separator.join(values)}{template.suffix}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One of the candidates that are one device together."""

    key: str
    """What it is on the host."""
    path: str
    """Its human-readable path."""
    identity: Identity
    hardware: HardwareIdentity


class NamingRule(NamedTuple):
    """The rules of the config for the IDs of a resource."""

    id: Template | None
    group_by: Template | None
    values: tuple[tuple[str, ValueSource], ...] = ()
    """The variables for the templates."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One allocatable unit of a resource (or several shares of it)."""

    id: str
    key: str
    """What it is on the host now: a device number, a path, or the text of a group."""
    identities: tuple[HardwareIdentity, ...] = ()
    """The identity of each member, or of the one device, wherever the kernel puts it."""
    named_by: NamingRule | None = None
    """The rule that gave it its ID; None if unknown, because that was before the daemon started."""
    renamed_to: str = ""
    """The ID that the current config gives it, which it gets once its present ID is free."""
    weak_id: str = ""
    """Why its ID is only as stable as a kernel name; empty if it is stable."""
    path: str
    """Its human-readable path: the one that a selector matched."""
    members: tuple[Member, ...] = ()
    """The members of a group, in natural order of their paths; empty without ``groupBy``."""
    nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[MountPoint, ...] = ()
    env: Mapping[str, Variable] = field(default_factory=dict)
    annotations: Mapping[str, tuple[Template, ...]] = field(default_factory=dict)
    cdi: tuple[str, ...] = ()
    """CDI devices from other programs that are injected with it."""
    cdi_name: str = ""
    """The CDI device that has its nodes; empty if the kubelet gets the nodes."""
    missing: tuple[Reason, ...] = ()
    """Things that it needs and the host lacks, so that it is Unhealthy."""
    identity: Identity
    replicas: int = 1
    exclusive: bool = True
    """Whether no device of another resource may be the same hardware, or have a node of it."""
    numa_nodes: tuple[int, ...] = ()
    """The online NUMA nodes of its hardware, in order; none with ``topology: none``."""
    spot: Spot = NOWHERE
    """The location of its hardware."""
    known_since: float | None = None
    """When udev first recorded it, in seconds of the monotonic clock: older lines of the kernel log
    are about something else.
    """
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    """Attributes by name; empty unless DRA serves the resource."""
    metadata: bool = False
    """Whether containers can read them in a file."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    """The parameters of its resource, which claims may set."""
    capacity: Mapping[str, CapacityValue] = field(default_factory=dict)
    """Capacity by name."""
    shares_capacity: bool = False
    """Whether claims can have parts of its capacity at the same time."""
    probes: tuple[BoundProbe, ...] = ()
    hooks: Mapping[HookName, Hook[Template]] = field(default_factory=dict)
    """Templates in which only references to a claim's parameters may be left."""
    policy: Policy | None = None
    """The policy that restricts what may be injected and run for it."""

    @property
    def is_served_by_dra(self) -> bool:
        """Return whether claims select it and no device plugin lists it."""
        return bool(self.attributes)

    @property
    def given_mounts(self) -> tuple[MountPoint, ...]:
        """The mounts that a container gets, without optional ones that are missing."""
        return tuple(mount for mount in self.mounts if not mount.absent)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the candidates that it is made of."""
        return tuple(member.key for member in self.members) or (self.key,)

    @property
    def appearances(self) -> tuple[Identity, ...]:
        """Return the current appearance of each member: a replug changes it."""
        return tuple(member.identity for member in self.members) or (self.identity,)

    @property
    def shares(self) -> tuple[str, ...]:
        """The ids that the kubelet sees: ID, ID::1, ID::2, …"""
        return (self.id, *(f"{self.id}::{share}" for share in range(1, self.replicas)))

    def has_share(self, share: str) -> bool:
        """Return whether an ID is one of them, without making them all."""
        device_id, separator, number = share.partition("::")
        is_number = _SHARE.fullmatch(number) is not None and int(number) < self.replicas
        return device_id == self.id and (is_number or not separator)


def device_id_of(share: str) -> str:
    """Return the ID of a share's device: an ID itself contains no ``::``."""
    return share.partition("::")[0]


def share_number(share: str) -> int | None:
    """Return the number of a share among those of its device, from 0: ``$(device.share)``.

    None if the text does not name a share.
    """
    _, separator, number = share.partition("::")
    if not separator:
        return 0
    return int(number) if _SHARE.fullmatch(number) else None


def shares_by_device(shares: Iterable[str]) -> dict[str, list[int]]:
    """Return the numbers of shares by the ID of their device."""
    found: dict[str, list[int]] = {}
    for share in shares:
        if (number := share_number(share)) is not None:
            found.setdefault(device_id_of(share), []).append(number)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Unmade:
    """A candidate, or a group of them, that no device could be made of."""

    path: str
    key: str
    keys: tuple[str, ...] = ()
    """The keys of its candidates."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceSpec:
    """A device node as the container gets it: the kubelet's message of this name."""

    host_path: str
    container_path: str
    permissions: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BindMount:
    """A mount as the container gets it: the kubelet's message ``Mount``."""

    host_path: str
    container_path: str
    read_only: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerEdits:
    """Everything that one container gets from one resource."""

    devices: tuple[DeviceSpec, ...] = ()
    mounts: tuple[BindMount, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi: tuple[str, ...] = ()


def device_refusal(
    device: Device, mounts: Iterable[MountPoint], find: Find, mount_target: FindTarget
) -> str:
    """Return why containers must not get a device, or one of these mounts of it.

    Empty if nothing is refused. ``find`` returns the file at a path of the host, or None;
    ``mount_target`` the target of a path, even if it does not exist. Without a policy, only links
    are checked.
    """
    policy = device.policy
    refusals = []
    for mount in mounts:
        path = mount.host_path
        found = mount_target(path.rstrip("/") or "/")  # a directory may end in a slash
        if policy is not None:
            refusals.append(policy.mount_refusal(path, found.target, read_only=mount.read_only))
        refusals.append(found.refusal and f"{path} must not be mounted: {found.refusal}")
    if policy is not None:
        for path in (node.host_path for node in device.nodes):
            if (file := find(path)) is None:
                refusals.append(f"{path} does not exist")
            else:
                is_block = file.type is FileType.BLOCK
                refusals.append(policy.node_refusal(path, file.target, block=is_block))
        refusals += map(policy.cdi_refusal, device.cdi)
    return next(filter(None, refusals), "")
