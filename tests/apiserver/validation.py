"""The rules of a real API server for ResourceSlices, as far as a driver can break them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    Json = dict[str, Any]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DRIVER = re.compile(r"(?i)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = r"(0|[1-9]\d*)"
_SEMANTIC = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_VALUES = {"string": str, "int": int, "bool": bool, "version": str}
_MAX_INT = 1 << 63


def problems(new: Json, old: Json | None) -> Iterator[str]:
    """Yield what is wrong with a slice, the path of a field first."""
    spec = new.get("spec") or {}
    pool = spec.get("pool") or {}
    if not _is(_DRIVER, spec.get("driver"), 63):
        yield "spec.driver: must be a domain name of at most 63 characters"
    yield from _pool_problems(pool)
    yield from _changes(spec, old["spec"] if old else spec)
    if [key in spec for key in ("nodeName", "nodeSelector", "allNodes")].count(True) != 1:
        yield "spec: exactly one of `nodeName`, `nodeSelector`, `allNodes` is required"
    elif "nodeName" in spec and not _is(_SUBDOMAIN, spec["nodeName"], 253):
        yield "spec.nodeName: must be a DNS subdomain"
    yield from _devices_problems(spec.get("devices") or [])


def _changes(spec: Json, before: Json) -> Iterator[str]:
    if spec.get("nodeName") != before.get("nodeName"):
        yield "spec.nodeName: field is immutable"
    if spec.get("driver") != before.get("driver"):
        yield "spec.driver: field is immutable"
    if (spec.get("pool") or {}).get("name") != (before.get("pool") or {}).get("name"):
        yield "spec.pool.name: field is immutable"


def _devices_problems(devices: list[Json]) -> Iterator[str]:
    most = 64 if any(device.get("taints") for device in devices) else 128
    if len(devices) > most:
        yield f"spec.devices: Too many: {len(devices)}: must have at most {most} items"
        return
    names = [device.get("name") for device in devices]
    for index, device in enumerate(devices):
        if device.get("name") in names[:index]:
            yield f"spec.devices[{index}]: Duplicate value: {device.get('name')!r}"
        for problem in _device_problems(device):
            yield f"spec.devices[{index}]{problem}"


def _pool_problems(pool: Json) -> Iterator[str]:
    name = str(pool.get("name", ""))
    if len(name) > 253 or not all(_is(_SUBDOMAIN, part, 253) for part in name.split("/")):
        yield "spec.pool.name: must be DNS subdomains, joined by '/', of at most 253 characters"
    if pool.get("resourceSliceCount", 0) <= 0:
        yield "spec.pool.resourceSliceCount: must be greater than zero"
    if pool.get("generation", 0) < 0:
        yield "spec.pool.generation: must be greater than or equal to zero"


def _device_problems(device: Json) -> Iterator[str]:
    if not _is(_LABEL, device.get("name"), 63):
        yield ".name: must be a DNS label"
    attributes = device.get("attributes") or {}
    if len(attributes) + len(device.get("capacity") or {}) > 32:
        yield ": the total number of attributes and capacities must not exceed 32"
    for key, value in attributes.items():
        domain, slash, name = key.rpartition("/")
        if slash and not _is(_DRIVER, domain, 63):
            yield f".attributes: {key!r}: the domain must be a domain name"
        if not _is(_IDENTIFIER, name, 32):
            yield f".attributes: {key!r}: a valid C identifier has at most 32 characters"
        for problem in _value_problems(value):
            yield f".attributes[{key}]{problem}"
    yield from _capacity_problems(device)
    if len(device.get("taints") or ()) > 16:
        yield ".taints: Too many: must have at most 16 items"


def _capacity_problems(device: Json) -> Iterator[str]:
    for key, capacity in (device.get("capacity") or {}).items():
        if not _is(_IDENTIFIER, key, 32):
            yield f".capacity: {key!r}: a valid C identifier has at most 32 characters"
        policy = capacity.get("requestPolicy") or {}
        if policy and not device.get("allowMultipleAllocations"):
            yield f".capacity[{key}].requestPolicy: allowMultipleAllocations must be true"
        if "validRange" in policy and not ("default" in policy and "min" in policy["validRange"]):
            yield f".capacity[{key}].requestPolicy: default and min are required"


def _value_problems(value: Json) -> Iterator[str]:
    if len(value) != 1:
        yield ": exactly one value must be specified"
    for kind in ("string", "version"):
        if len(str(value.get(kind, "")).encode()) > 64:
            yield f".{kind}: Too long: may not be more than 64 bytes"
    if "version" in value and not _SEMANTIC.fullmatch(value["version"]):
        yield ".version: must be a string compatible with semver.org spec 2.0.0"


def unreadable_values(item: Json) -> Iterator[str]:
    """Yield which attributes of a slice have a value of another type than they say."""
    for device in (item.get("spec") or {}).get("devices") or ():
        for attribute in (device.get("attributes") or {}).values():
            for kind, value in attribute.items():
                is_large = kind == "int" and isinstance(value, int) and abs(value) >= _MAX_INT
                if type(value) is not _VALUES.get(kind) or is_large:
                    yield f"cannot unmarshal {value!r} into field DeviceAttribute.{kind}"


def _is(pattern: re.Pattern[str], text: object, most: int) -> bool:
    return isinstance(text, str) and len(text) <= most and bool(pattern.fullmatch(text))
