"""ResourceSlices: the devices of a node as the scheduler sees them, and changes to them; pure.

The limits are those of the API group resource.k8s.io/v1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count
from typing import TYPE_CHECKING, Any, TypeAlias

from genericdp.devices.labels import cut, label

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from genericdp.devices.devicelist import DeviceList

    Json: TypeAlias = dict[str, Any]
    Layout: TypeAlias = Mapping[int, tuple[str, ...]]
    """The names of the devices in each slice of a pool, Unhealthy ones too, by its index."""

MAX_PER_SLICE = 64
"""Devices in a slice in which one has a taint; without taints 128 are possible."""
_MAX_POOL = 253
_MAX_TEXT = 64
"""Bytes of a string attribute."""
_MAX_GENERATED = 58
"""Characters of ``generateName``; the API server cuts longer ones."""
_INDEX = re.compile(r"([0-9a-f]{4})-")
_VERSION = re.compile(r"v?(\d{1,6})\.(\d{1,6})(?!\d)")
_EXTENDED_RESOURCES = (1, 36)
"""The first version of Kubernetes in which DRAExtendedResource is on by default."""


def pool_name(node_name: str, resource: str) -> str:
    """Return the name of the pool of a resource: node, domain and type, joined by ``/``."""
    domain, _, name = resource.partition("/")
    whole = f"{node_name}/{domain}/{label(name)}"
    return whole if len(whole) <= _MAX_POOL else cut(whole, _MAX_POOL, whole)


def has_extended_resources(kubelet_version: str) -> bool:
    """Return whether a kubelet prepares the claims that the scheduler makes for plain limits."""
    parsed = _VERSION.match(kubelet_version)
    return parsed is not None and (int(parsed[1]), int(parsed[2])) >= _EXTENDED_RESOURCES


@dataclass(frozen=True, kw_only=True, slots=True)
class Offered:
    """The devices of a resource as claims name them: one for each share of a device."""

    devices: Mapping[str, Json]
    """The entry in a slice of each Healthy device, by its name there."""
    shares: Mapping[str, str]
    """The ID of each listed share, Unhealthy ones too, by its name in a slice."""
    not_offered: Mapping[str, str]
    """Why other shares cannot be in a slice, by ID."""


def devices_of(resource_name: str, devices: DeviceList, *, extended_resource: bool) -> Offered:
    """Return the devices of a resource for ResourceSlices, in the order of their list.

    ``extended_resource``: whether the node's kubelet prepares claims for plain ``limits``.
    """
    found: dict[str, Json] = {}
    shares: dict[str, str] = {}
    not_offered: dict[str, str] = {}
    for listed in devices.devices.values():
        own = {key: _attribute(*one[:2]) for key, one in listed.device.attributes.items()}
        own["resource"] = _attribute("string", resource_name)
        own["extendedResource"] = _attribute("bool", extended_resource)
        for share in listed.device.shares:
            name = label(share)
            if name in shares:
                not_offered[share] = f"in ResourceSlices its name is that of {shares[name]}: {name}"
                continue
            shares[name] = share
            if not listed.unhealthy:
                attributes = {**own, "id": _attribute("string", share)}
                found[name] = {"name": name, "attributes": attributes}
    return Offered(devices=found, shares=shares, not_offered=not_offered)


@lru_cache  # most devices have equal attributes, and a thousand devices take megabytes
def _attribute(kind: str, value: str | int | bool) -> Json:  # noqa: FBT001
    if isinstance(value, str):  # the API server would refuse a slice with a surrogate in it
        value = value.encode(errors="replace")[:_MAX_TEXT].decode(errors="ignore")
    return {str(kind): value}


def next_layout(before: Layout, listed: Iterable[str]) -> Layout:
    """Return which slice has which devices, for the devices that are listed now.

    A device stays in its slice. New ones fill the room in slices, then slices of their own.
    There is at least one slice: an empty one says that the pool has no devices.
    """
    waiting = dict.fromkeys(listed)
    slices: dict[int, list[str]] = {}
    for index, names in sorted(before.items()):
        staying = [name for name in dict.fromkeys(names) if name in waiting][:MAX_PER_SLICE]
        for name in staying:
            del waiting[name]
        if staying:
            slices[index] = staying
    newcomers = list(waiting)
    for index in chain(tuple(slices), (one for one in count() if one not in slices)):
        if not newcomers:
            break
        room = MAX_PER_SLICE - len(slices.get(index, ()))
        if room:
            slices.setdefault(index, []).extend(newcomers[:room])
            newcomers = newcomers[room:]
    if not slices:
        slices[min(before, default=0)] = []
    return {index: tuple(names) for index, names in sorted(slices.items())}


def layout_of(observed: Iterable[Json]) -> Layout:
    """Return the layout of a pool's ResourceSlices in the API."""
    return {
        index: tuple(device["name"] for device in one["spec"].get("devices") or ())
        for index, one in sorted(_by_index(observed).items())
    }


def _by_index(observed: Iterable[Json]) -> dict[int, Json]:
    """Return one slice for each index: of several with the same, the first by name."""
    found: dict[int, Json] = {}
    for one in sorted(observed, key=lambda one: str(one["metadata"]["name"])):
        if index := _INDEX.match(one["metadata"]["name"]):
            found.setdefault(int(index[1], 16), one)
    return found


def _generation(one: Json) -> int:
    generation = one["spec"]["pool"].get("generation")
    return generation if isinstance(generation, int) else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """The fields that all slices of a pool have in common."""

    name: str
    driver: str
    node_name: str
    node_uid: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The requests, in this order, that make the slices of a pool the wanted ones."""

    delete: tuple[Json, ...] = ()
    create: tuple[Json, ...] = ()
    update: tuple[Json, ...] = ()


def plan(pool: Pool, layout: Layout, devices: Mapping[str, Json], observed: Sequence[Json]) -> Plan:
    """Return the requests that make the slices in the API those of a layout; an empty one: none.

    If only one slice changes, it is updated in place. Else all slices get the next generation: the
    scheduler ignores a pool until all slices of its latest generation are there. A generation that
    is still incomplete is completed.
    """
    by_index = _by_index(observed)
    kept = {index: by_index[index] for index in layout if index in by_index}
    kept_names = {one["metadata"]["name"] for one in kept.values()}
    obsolete = [one for one in observed if one["metadata"]["name"] not in kept_names]
    latest = max(map(_generation, observed), default=0)
    current = [one for one in observed if _generation(one) == latest]
    fits = all(
        one["metadata"]["name"] in kept_names
        and one["spec"]["pool"].get("resourceSliceCount") == len(layout)
        for one in current
    )

    def wanted(generation: int) -> dict[int, Json]:
        return {
            index: _content(pool, names, devices, generation, len(layout))
            for index, names in layout.items()
        }

    contents = wanted(max(latest, 1))
    changed = [
        index
        for index, content in contents.items()
        if index not in kept or content_of(kept[index]) != content
    ]
    if not fits or (len(current) == len(layout) and len(changed) > 1):
        contents, changed = wanted(latest + 1), list(layout)
    return Plan(
        delete=tuple(one for one in obsolete if "deletionTimestamp" not in one["metadata"]),
        create=tuple(
            _slice({"generateName": _generate_name(pool, index)}, contents[index])
            for index in changed
            if index not in kept
        ),
        update=tuple(
            _slice(kept[index]["metadata"], contents[index]) for index in changed if index in kept
        ),
    )


def content_of(one: Json) -> Json:
    """Return the fields of a slice in the API that the driver decides.

    Kubernetes 1.34 has null where later versions omit empty fields.
    """
    return {
        "ownerReferences": one["metadata"].get("ownerReferences", []),
        "spec": {key: value for key, value in (one.get("spec") or {}).items() if value is not None},
    }


def _content(
    pool: Pool, names: Iterable[str], devices: Mapping[str, Json], generation: int, slices: int
) -> Json:
    listed = [devices[name] for name in names if name in devices]
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": pool.node_name,
        "uid": pool.node_uid,
        "controller": True,
    }
    spec: Json = {
        "driver": pool.driver,
        "nodeName": pool.node_name,
        "pool": {"name": pool.name, "generation": generation, "resourceSliceCount": slices},
    }
    if listed:  # the API server omits an empty list
        spec["devices"] = listed
    return {"ownerReferences": [owner], "spec": spec}


def _slice(metadata: Json, content: Json) -> Json:
    """Return a ResourceSlice to write."""
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {**kept, "ownerReferences": content["ownerReferences"]},
        "spec": content["spec"],
    }


def _generate_name(pool: Pool, index: int) -> str:
    """Return the start of a slice's name: first its index, for the order of allocation."""
    start = f"{index:04x}-{pool.driver}-{pool.node_name}"
    return f"{start[: _MAX_GENERATED - 1].rstrip('-.')}-"
