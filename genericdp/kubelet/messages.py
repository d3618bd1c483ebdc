"""Between the model and the bytes on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from genericdp.errors import InvalidCallError
from genericdp.kubelet import wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from genericdp.devices.device import ContainerEdits

VERSION = "v1beta1"
HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"
_HEALTH = {True: wire.text(2, HEALTHY), False: wire.text(2, UNHEALTHY)}

# Field numbers are those of v1beta1/deviceplugin.proto; tests compare with what is made of that.


def listed_device(share: str, *, healthy: bool, numa_nodes: Iterable[int] = ()) -> bytes:
    """Give one device as it stands in a list; a list is nothing but these, joined."""
    body = wire.text(1, share) + _HEALTH[healthy]
    if nodes := [wire.message(1, wire.number(1, node)) for node in numa_nodes]:
        body += wire.message(3, b"".join(nodes))
    return wire.message(1, body)


def options(*, pre_start_required: bool = False, preferred_allocation: bool = False) -> bytes:
    """Give the answer to GetDevicePluginOptions."""
    return wire.number(1, pre_start_required) + wire.number(2, preferred_allocation)


def registration(*, endpoint: str, resource: str, options: bytes) -> bytes:
    """Give the request that registers a socket; the options in it are for old kubelets (REG-7)."""
    names = enumerate((VERSION, endpoint, resource), 1)
    return b"".join(wire.text(*one) for one in names) + wire.message(4, options)


def requested_ids(request: bytes) -> tuple[tuple[str, ...], ...]:
    """Take an AllocateRequest apart: the ids for each container; raises InvalidCallError."""
    try:
        containers = wire.messages_of(wire.fields(request), 1)
        return tuple(wire.texts_of(wire.fields(one), 1) for one in containers)
    except wire.WireError as error:
        raise InvalidCallError(f"the request is no AllocateRequest: {error}") from error


def started_ids(request: bytes) -> tuple[str, ...]:
    """Take a PreStartContainerRequest apart: the container's ids; raises InvalidCallError."""
    try:
        return wire.texts_of(wire.fields(request), 1)
    except wire.WireError as error:
        raise InvalidCallError(f"the request is no PreStartContainerRequest: {error}") from error


class Wish(NamedTuple):
    """What the kubelet asks of GetPreferredAllocation for one container."""

    available: Sequence[str]
    """In random order, with those that must be among the answer (PRF-2)."""
    must: Sequence[str]
    size: int


def wishes(request: bytes) -> tuple[Wish, ...]:
    """Take a PreferredAllocationRequest apart; raises InvalidCallError."""
    try:
        containers = map(wire.fields, wire.messages_of(wire.fields(request), 1))
        return tuple(
            Wish(wire.texts_of(one, 1), wire.texts_of(one, 2), wire.number_of(one, 3))
            for one in containers
        )
    except wire.WireError as error:
        raise InvalidCallError(f"the request is no PreferredAllocationRequest: {error}") from error


def allocation(containers: Iterable[ContainerEdits]) -> bytes:
    """Give the answer to Allocate: one entry for each container, in their order (ALL-2)."""
    return b"".join(wire.message(1, _container(edits)) for edits in containers)


def _container(edits: ContainerEdits) -> bytes:
    mounts = (
        wire.text(1, one.container_path)
        + wire.text(2, one.host_path)
        + wire.number(3, one.read_only)
        for one in edits.mounts
    )
    nodes = (
        wire.text(1, one.container_path)
        + wire.text(2, one.host_path)
        + wire.text(3, one.permissions)
        for one in edits.devices
    )
    return b"".join(
        (
            _mapping(1, edits.env),
            *(wire.message(2, one) for one in mounts),
            *(wire.message(3, one) for one in nodes),
            _mapping(4, edits.annotations),
            *(wire.message(5, wire.text(1, name)) for name in edits.cdi),
        )
    )


def _mapping(field: int, texts: Mapping[str, str]) -> bytes:
    """Encode a map, in an order that is always the same; each entry has both, also if empty."""
    entries = (wire.texts(1, (key,)) + wire.texts(2, (texts[key],)) for key in sorted(texts))
    return b"".join(wire.message(field, one) for one in entries)


def preferred_allocation(containers: Iterable[Iterable[str]]) -> bytes:
    """Give the answer to GetPreferredAllocation: the preferred ids for each container."""
    return b"".join(wire.message(1, wire.texts(1, ids)) for ids in containers)
