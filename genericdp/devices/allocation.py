"""Allocation: the container edits for devices."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from genericdp.devices.device import BindMount, ContainerEdits, DeviceSpec
from genericdp.devices.inventory import natural_key
from genericdp.devices.parameters import PREFIX, defaults
from genericdp.reasons import Code
from genericdp.template import Template, UnusableValueError, expand, is_share

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from genericdp.devices.device import Device, DeviceNode, Variable
    from genericdp.template import Lookup


class AllocationConflictError(UnusableValueError):
    """Two devices that cannot be in one container, with the reason."""

    code = Code.CONFLICT


def edits(
    devices: Iterable[Device], shares: Mapping[str, Collection[int]] | None = None
) -> ContainerEdits:
    """Return what one container gets for these devices; a device that is listed twice counts once.

    ``shares`` has the numbers of the shares by the ID of the device; the default is share 0.
    Devices come in natural order of their ids, because the kubelet's order is random (ALL-1).
    Raises AllocationConflictError where the kubelet would silently drop something (ALL-6).
    """
    distinct = {device.id: device for device in devices}
    return edits_at(
        (
            texts_of(distinct[device_id], index),
            distinct[device_id],
            (shares or {}).get(device_id, (0,)),
        )
        for index, device_id in enumerate(sorted(distinct, key=natural_key))
    )


def texts_of(
    device: Device,
    index: int,
    *,
    claim: str = "claim",
    request: str = "request",
    parameters: Mapping[str, str] | None = None,
    consumed: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """Return what references that are only known now insert for a device, by reference.

    Without a claim, as in ``genericdp allocate``, they are examples: parameters have their
    defaults, or ``<NAME>``, and of a shared capacity there is what plain limits get. A claim has
    all capacity, unless it has ``consumed`` a part.
    """
    known = {name: value.amount for name, value in device.capacity.items() if value.amount}
    if parameters is None:
        parameters = {name: f"<{name}>" for name in device.parameters} | defaults(device.parameters)
        if device.shares_capacity:
            known |= {
                name: amount for name in known if (amount := device.capacity[name].policy.default)
            }
    return {
        "allocation.index": str(index),
        "claim.name": claim,
        "claim.request": request,
        **{f"claim.{PREFIX}{name}": text for name, text in parameters.items()},
        **{f"claim.capacity.{name}": str(amount) for name, amount in (consumed or known).items()},
    }


def edits_at(
    devices: Iterable[tuple[Mapping[str, str], Device, Collection[int]]],
) -> ContainerEdits:
    """Return the same for different devices, each with its ``texts_of`` and its shares."""
    answer = _AnswerBuilder()
    for texts, device, shares in devices:
        answer.add(device, texts, sorted(shares))
    return answer.edits()


def edits_for_kubelet(
    devices: Iterable[Device], shares: Mapping[str, Collection[int]] | None = None
) -> ContainerEdits:
    """Return the edits for the kubelet, with CDI names in place of nodes that CDI injects."""
    devices = list(devices)
    given = edits(devices, shares)
    names = sorted({device.cdi_name for device in devices if device.cdi_name}, key=natural_key)
    # All belong to one resource. Those without a name have no nodes.
    return replace(given, devices=(), cdi=(*names, *given.cdi)) if names else given


class _AnswerBuilder:
    """Collects the edits of one answer."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[str, str, DeviceSpec | BindMount]] = {}
        """By path in the container: the ID of the first device, what it is on the host, the edit. A
        node and a mount at one path conflict, too, because the mount would hide the node.
        """
        self._env: dict[str, tuple[Variable, dict[str, None]]] = {}
        """By name: the variable of the first device that has it, and the values of all devices."""
        self._annotations: dict[str, dict[str, None]] = {}
        self._cdi: dict[str, None] = {}

    def add(self, device: Device, texts: Mapping[str, str], shares: Sequence[int]) -> None:
        """Add everything that belongs to some shares of a device, once for each share if it
        differs.
        """
        for share in shares if len(shares) > 1 and _differs_by_share(device) else shares[:1]:
            self._add_share(device, {**texts, "device.share": str(share)})
        self._cdi.update(dict.fromkeys(device.cdi))

    def _add_share(self, device: Device, texts: Mapping[str, str]) -> None:
        def lookup(scope: str, name: str) -> str | None:
            return texts.get(f"{scope}.{name}")

        for node in device.nodes:
            self._add_node(device, node, _container_path(node.container_path, lookup))
        for mount in device.given_mounts:
            if mount.share not in (None, int(texts["device.share"])):
                continue
            path = _container_path(mount.container_path, lookup)
            edit = BindMount(
                host_path=mount.host_path, container_path=path, read_only=mount.read_only
            )
            self._add(device, f"{mount.host_path} {mount.read_only}", edit)
        self._add_texts(device, lookup)

    def _add_texts(self, device: Device, lookup: Lookup) -> None:
        for name, variable in device.env.items():
            values = self._env.setdefault(name, (variable, {}))[1]
            values |= {text: None for value in variable.values if (text := expand(value, lookup))}
        for key, templates in device.annotations.items():
            given = [expand(template, lookup) for template in templates]
            if device.policy is not None:
                refusals = (device.policy.annotation_refusal(key, text) for text in given)
                if refusal := next(filter(None, refusals), ""):
                    raise UnusableValueError(refusal, Code.FORBIDDEN)
            self._annotations.setdefault(key, {}).update({text: None for text in given if text})

    def _add_node(self, device: Device, node: DeviceNode, path: str) -> None:
        edit = DeviceSpec(
            host_path=node.host_path, container_path=path, permissions=node.permissions
        )
        present = self._add(device, node.key, edit)
        if isinstance(present, DeviceSpec) and present is not edit:
            both = present.permissions + node.permissions
            permissions = "".join(letter for letter in "rwm" if letter in both)
            owner, key, _ = self._places[path]
            self._places[path] = (owner, key, replace(present, permissions=permissions))

    def _add(
        self, device: Device, key: str, edit: DeviceSpec | BindMount
    ) -> DeviceSpec | BindMount:
        """Return the entry at the path of an edit, which is new or the same thing on the host."""
        first, owner_key, present = self._places.setdefault(
            edit.container_path, (device.id, key, edit)
        )
        if owner_key == key and type(present) is type(edit):
            return present
        both = {present.host_path, edit.host_path}
        if first == device.id:
            devices, hint = f"device {first}", "give them different containerPaths"
            if both <= {mount.host_path for mount in device.mounts if mount.share is not None}:
                devices, hint = (
                    f"two shares of device {first}",
                    "put $(device.share) into containerPath",
                )
            elif both <= {node.host_path for node in device.nodes}:
                hint = 'let containerPath end in "/": then base names are kept'
        else:
            devices = f"devices {first} and {device.id}"
            hint = "put $(allocation.index) or $(device.name) into containerPath"
        raise AllocationConflictError(
            f"{devices}: {present.host_path} and {edit.host_path} would both be"
            f" {edit.container_path!r} in the container ({hint})"
        )

    def edits(self) -> ContainerEdits:
        added = [edit for _, _, edit in self._places.values()]
        return ContainerEdits(
            devices=tuple(edit for edit in added if isinstance(edit, DeviceSpec)),
            mounts=tuple(edit for edit in added if isinstance(edit, BindMount)),
            env={name: variable.joined(values) for name, (variable, values) in self._env.items()},
            annotations={key: ",".join(values) for key, values in self._annotations.items()},
            cdi=tuple(self._cdi),
        )


def _differs_by_share(device: Device) -> bool:
    """Return whether some shares of a device have something that others lack."""
    templates = chain(
        (node.container_path for node in device.nodes),
        (mount.container_path for mount in device.mounts),
        chain.from_iterable(variable.values for variable in device.env.values()),
        chain.from_iterable(device.annotations.values()),
    )
    return any(mount.share is not None for mount in device.mounts) or any(
        is_share(reference) for template in templates for reference in template.references
    )


def _container_path(template: Template, lookup: Lookup) -> str:
    path = expand(template, lookup, path=True)
    # A second slash at the start would survive: POSIX lets it mean something else.
    tidy = posixpath.normpath(f"/{path.lstrip('/')}")
    if tidy == "/":
        raise UnusableValueError(f"a container path is {path!r}, the root of the container")
    return tidy
