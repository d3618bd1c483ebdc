"""ResourceSlices: the devices of a node as the scheduler sees them, and changes to them; pure.

The limits are those of the API group resource.k8s.io/v1.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import chain, count
from typing import TYPE_CHECKING, Any, TypeAlias

from genericdp.devices.capacity import quantity
from genericdp.devices.resourcenames import cut, label
from genericdp.devices.transitions import State
from genericdp.model import TaintEffect
from genericdp.reasons import Code

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import DeviceList, Entry

    Json: TypeAlias = dict[str, Any]
    Layout: TypeAlias = Mapping[int, tuple[str, ...]]
    """The names of the devices in each slice of a pool, including Unhealthy ones, by index."""

NEWER_FIELDS = {
    "taints": "devices that are not Healthy are left out of ResourceSlices",
    "allowMultipleAllocations": "one claim at a time has a device",
}
"""The fields of devices that API servers of 1.34 and 1.35 drop by default, or wherever their
feature gate is off, and what follows.
"""
MAX_PER_SLICE = 64
"""Maximum devices in a slice if one has a taint; without taints it is 128."""
_FAILURES = (Code.PROBE_FAILED, Code.LOG_LINE)
_MAX_POOL = 253
_MAX_GENERATED = 58
"""Maximum length of ``generateName``; the API server cuts longer names."""
_INDEX = re.compile(r"([0-9a-f]{4})-")
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_MAX_GENERATION = 2**63 - 1  # the last field
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
    """The entry in a slice of each device, by its name there."""
    shares: Mapping[str, str]
    """The ID of each listed share, Unhealthy ones too, by its name in a slice."""
    not_offered: Mapping[str, str]
    """Why shares cannot be in a slice, by ID."""


def shares_of(devices: DeviceList) -> dict[str, str]:
    """Return the ID of each listed share, Unhealthy ones too, by its name in a slice.

    Of two shares with one name, only the first can be in a slice.
    """
    found: dict[str, str] = {}
    for listed in devices.devices.values():
        for share in listed.device.shares:
            found.setdefault(label(share), share)
    return found


def devices_of(
    resource_name: str,
    devices: DeviceList,
    *,
    driver: str,
    extended_resource: bool,
    lacking: Collection[str] = (),
) -> Offered:
    """Return the devices of a resource for ResourceSlices, in the order of their list.

    ``extended_resource`` shows whether the node's kubelet prepares claims for plain ``limits``.
    ``lacking`` are the fields of devices that the API server drops: without taints, devices that
    are not Healthy are left out.
    """
    found: dict[str, Json] = {}
    not_offered: dict[str, str] = {}
    shares = shares_of(devices)
    names = {share: name for name, share in shares.items()}
    for listed in devices.devices.values():
        own = attributes_of(resource_name, listed.device, extended_resource=extended_resource)
        is_shared = listed.device.shares_capacity and "allowMultipleAllocations" not in lacking
        for share in listed.device.shares:
            if share not in names:
                name = label(share)
                not_offered[share] = f"in ResourceSlices its name is that of {shares[name]}: {name}"
                continue
            is_tainted = not listed.is_healthy
            if share in listed.withheld or (is_tainted and "taints" in lacking):
                continue
            entry: Json = {"name": names[share], "attributes": own | id_of(share)}
            entry |= _capacity(listed.device, is_shared=is_shared)
            if is_tainted:
                entry["taints"] = [_taint(driver, listed, devices.unhealthy_taint)]
            found[names[share]] = entry
    return Offered(devices=found, shares=shares, not_offered=not_offered)


def _taint(driver: str, entry: Entry[Device], effect: TaintEffect) -> Json:
    """Return the taint of a device that is not Healthy.

    Only a failed probe and missing hardware evict pods: anything else may be a matter of the
    daemon or the config.
    """
    is_missing = entry.state is State.MISSING
    fails = not is_missing and any(reason.code in _FAILURES for reason in entry.reasons)
    return {
        "key": f"{driver}/{'missing' if is_missing else 'unhealthy'}",
        "value": str(entry.code),
        "effect": str(effect if fails or entry.is_long_gone else TaintEffect.NO_SCHEDULE),
    }


def attributes_of(resource_name: str, device: Device, *, extended_resource: bool) -> Json:
    """Return the attributes that all shares of a device have in a slice."""
    own = {
        key: _attribute(attribute.type, attribute.value)
        for key, attribute in device.attributes.items()
    }
    own["resource"] = _attribute("string", resource_name)
    own["extendedResource"] = _attribute("bool", extended_resource)
    return own


def id_of(share: str) -> Json:
    """Return the attribute in which the shares of a device differ."""
    return {"id": _attribute("string", share)}


@lru_cache  # most devices have equal attributes, and a thousand devices take megabytes
def _attribute(kind: str, value: str | int | bool) -> Json:  # noqa: FBT001
    return {str(kind): value}


def _capacity(device: Device, *, is_shared: bool) -> Json:
    """Return the fields of a device that say how much of it claims can request."""
    found: Json = {}
    for name, (amount, policy, _) in device.capacity.items():
        if amount is not None:
            found[name] = {"value": quantity(amount)}
            limits = {key: quantity(limit) for key, limit in asdict(policy).items() if limit}
            if limits and is_shared:
                default = {"default": limits.pop("default")}
                found[name]["requestPolicy"] = default | ({"validRange": limits} if limits else {})
    fields = {"capacity": found} if found else {}
    return {**fields, "allowMultipleAllocations": True} if is_shared else fields


def next_layout(before: Layout, listed: Iterable[str]) -> Layout:
    """Return the layout, which slice has which devices, for the devices that are listed now.

    A device stays in its slice. New devices fill existing slices, then new slices. There is at
    least one slice: an empty slice shows that the pool has no devices.
    """
    waiting = dict.fromkeys(listed)
    slices: dict[int, list[str]] = {}
    for index, names in sorted(before.items()):
        if staying := [name for name in names if name in waiting][:MAX_PER_SLICE]:
            slices[index] = staying
        for name in staying:
            waiting.pop(name, None)
    newcomers = list(waiting)
    indexes = chain(tuple(slices), (number for number in count() if number not in slices))
    while newcomers:
        members = slices.setdefault(next(indexes), [])
        room = MAX_PER_SLICE - len(members)
        members += newcomers[:room]
        del newcomers[:room]
    if not slices:
        slices[min(before, default=0)] = []
    return {index: tuple(names) for index, names in sorted(slices.items())}


def layout_of(observed: Iterable[Json]) -> Layout:
    """Return the layout of a pool's ResourceSlices in the API."""
    return {
        index: tuple(device["name"] for device in slice_["spec"].get("devices") or ())
        for index, slice_ in sorted(_by_index(observed).items())
    }


def _by_index(observed: Iterable[Json]) -> dict[int, Json]:
    """Return one slice for each index; if several have the same index, the first by name."""
    found: dict[int, Json] = {}
    for slice_ in sorted(observed, key=lambda slice_: str(slice_["metadata"]["name"])):
        if index := _INDEX.match(slice_["metadata"]["name"]):
            found.setdefault(int(index[1], 16), slice_)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """The fields that all slices of a pool have in common."""

    name: str
    driver: str
    node_name: str
    node_uid: str


def plan(
    pool: Pool, layout: Layout, devices: Mapping[str, Json], observed: Sequence[Json]
) -> list[tuple[str, Json]]:
    """Return the requests, in order, that turn the slices in the API into those of a layout.

    Each is ``delete``, ``create`` or ``update``, with the slice. If only one slice changes, it is
    updated in place. Else all slices get the next generation: the scheduler ignores a pool until
    all slices of its latest generation are there. A generation that is still incomplete is
    completed.
    """
    kept = {index: slice_ for index, slice_ in _by_index(observed).items() if index in layout}
    names_kept = {slice_["metadata"]["name"] for slice_ in kept.values()}
    generations = [slice_["spec"]["pool"].get("generation", 0) for slice_ in observed]
    latest = max(generations, default=0)
    current = [
        slice_ for slice_, number in zip(observed, generations, strict=True) if number == latest
    ]
    fits = all(
        slice_["metadata"]["name"] in names_kept
        and slice_["spec"]["pool"].get("resourceSliceCount") == len(layout)
        for slice_ in current
    )

    def changes(generation: int) -> list[tuple[str, Json]]:
        found = []
        for index, names in layout.items():
            listed = [devices[name] for name in names if name in devices]
            slice_ = _slice(pool, index, listed, generation, len(layout))
            if index not in kept:
                found.append(("create", slice_))
                continue
            slice_ = with_times(slice_, kept[index])
            if content_of(slice_) != content_of(kept[index]):
                found.append(
                    ("update", slice_ | {"metadata": kept[index]["metadata"] | slice_["metadata"]})
                )
        return found

    todo = changes(max(latest, 1))
    if not fits or (len(current) == len(layout) and len(todo) > 1):
        todo = changes(latest + 1)
    obsolete = (slice_ for slice_ in observed if slice_["metadata"]["name"] not in names_kept)
    gone = [("delete", slice_) for slice_ in obsolete if not is_ending(slice_)]
    return gone + todo


def fields_of(slice_: Json) -> frozenset[str]:
    """Return which of the newer fields the devices of a slice have."""
    devices = slice_["spec"].get("devices") or ()
    return frozenset(field for device in devices for field in NEWER_FIELDS if device.get(field))


def with_times(slice_: Json, stored: Json) -> Json:
    """Return a slice with the times of those of its taints that are in the API already.

    The API server sets times that are missing, so each write would restart tolerations.
    """
    before = {
        device["name"]: device.get("taints") for device in stored["spec"].get("devices") or ()
    }
    devices = [
        {**device, "taints": [_with_time(taint, before.get(device["name"])) for taint in taints]}
        if (taints := device.get("taints"))
        else device
        for device in slice_["spec"].get("devices", ())
    ]
    return slice_ | {"spec": slice_["spec"] | ({"devices": devices} if devices else {})}


def _with_time(taint: Json, stored: object) -> Json:
    for known in stored if isinstance(stored, list) else ():
        if isinstance(known, dict) and known == {**taint, "timeAdded": known.get("timeAdded")}:
            return known
    return taint


def is_ending(item: Json) -> bool:
    """Return whether a slice is being deleted."""
    return "deletionTimestamp" in item["metadata"]


def is_well_formed(item: Json) -> bool:
    """Return whether a slice in the API has all fields that we read, with the right types."""
    metadata, spec = item["metadata"], item["spec"]
    name, pool, devices = metadata.get("name"), spec.get("pool"), spec.get("devices") or []
    return (
        isinstance(name, str)
        and _NAME.fullmatch(name) is not None
        and isinstance(metadata.get("uid"), str)
        and isinstance(pool, dict)
        and isinstance(pool.get("name"), str)
        and type(generation := pool.get("generation", 0)) is int
        and 0 <= generation < _MAX_GENERATION
        and isinstance(devices, list)
        and all(
            isinstance(device, dict) and isinstance(device.get("name"), str) for device in devices
        )
    )


def content_of(slice_: Json) -> Json:
    """Return the fields of a slice in the API that the driver decides.

    Kubernetes 1.34 has null where later versions omit empty fields.
    """
    return {
        "ownerReferences": slice_["metadata"].get("ownerReferences", []),
        "spec": {
            key: value for key, value in (slice_.get("spec") or {}).items() if value is not None
        },
    }


def _slice(pool: Pool, index: int, devices: Sequence[Json], generation: int, slices: int) -> Json:
    """Return a slice as it should be in the API; its name is generated when it is created."""
    # The index comes first, for the order of allocation; ``_INDEX`` reads it back.
    start = f"{index:04x}-{pool.driver}-{pool.node_name}"
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
    if devices:  # the API server omits an empty list
        spec["devices"] = devices
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "generateName": f"{start[: _MAX_GENERATED - 1].rstrip('-.')}-",
            "ownerReferences": [owner],
        },
        "spec": spec,
    }
