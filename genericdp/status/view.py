"""The one rendering of resources and devices: JSON, cells of a table, and lines.

``/status`` and the commands with ``-o json`` share these fields, which
``schemas/genericdp-output.v1alpha1.json`` defines.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from genericdp.devices.capacity import quantity
from genericdp.devices.devicelist import explanation, offered_shares
from genericdp.devices.hardware import (
    driver_of,
    function_of,
    is_pci_function,
    is_usb_device,
    lineage,
)
from genericdp.devices.resourcenames import label
from genericdp.printing import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import DeviceList, Entry
    from genericdp.devices.inventory import Host, Identity, SysDevice
    from genericdp.errors import Outcome

Document = dict[str, Any]
"""A JSON object of the schema."""

HARDWARE_COLUMNS = ("PATH", "MODEL", "SERIAL", "DRIVER")
"""Additional columns in tables of devices with ``-o wide``."""
_MODELS = ("ID_V4L_PRODUCT", "ID_MODEL_FROM_DATABASE", "ID_MODEL")
_NAMED = frozenset({"nvme", "scsi", "block"})
"""Subsystems whose devices have attributes ``model`` and ``serial``."""


class DeviceState(StrEnum):
    """The state of a device on offer."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNPROBED = "Unprobed"
    """Nothing is wrong with it, but not all of its probes have been run; a daemon never shows
    this.
    """


NOT_PROBED = "its probes have not been run"
"""The reason why a device is unprobed, if there is no other."""


class HardwareLabels(NamedTuple):
    """Human-readable names of hardware; an unknown one is an empty string."""

    model: str = ""
    serial: str = ""
    driver: str = ""


UNKNOWN = HardwareLabels()


def hardware_of(identity: Identity, host: Host) -> HardwareLabels:
    """Return the names of the hardware that a device is, or is attached to."""
    device = host.device(identity.syspath or "")
    if device is None:
        return UNKNOWN
    function = function_of(device, host)
    parts = list(lineage(device, host))
    if function is not None:
        parts = parts[: parts.index(function) + 1]
    return HardwareLabels(
        model=_first(parts, lambda part: _models(part, host)),
        serial=_first(parts, lambda part: _serials(part, host)),
        driver=shortened(driver_of(device, host) or ""),
    )


def hardware_of_all(
    lists: Iterable[DeviceList], host: Host, known: Mapping[Identity, HardwareLabels]
) -> dict[Identity, HardwareLabels]:
    """Return the names of the hardware of all devices; what is ``known`` is not read again."""
    identities = (e.device.identity for listed in lists for e in listed.devices.values())
    return {identity: known.get(identity) or hardware_of(identity, host) for identity in identities}


def _first(parts: Iterable[SysDevice], texts: Callable[[SysDevice], Iterator[str | None]]) -> str:
    """Return the first text that a device or one of its parents has."""
    return next((shortened(text) for part in parts for text in texts(part) if text), "")


def _models(part: SysDevice, host: Host) -> Iterator[str | None]:
    if is_usb_device(part):
        yield host.attribute(part.syspath, "product")
    if part.subsystem in _NAMED:
        yield host.attribute(part.syspath, "model")
    yield from (part.properties.get(name) for name in _MODELS)
    if is_pci_function(part):
        # Without a udev database, the IDs are still available.
        yield part.properties.get("PCI_ID", "").lower()


def _serials(part: SysDevice, host: Host) -> Iterator[str | None]:
    if is_usb_device(part) or part.subsystem in _NAMED:
        yield host.attribute(part.syspath, "serial")
    yield part.properties.get("ID_SERIAL_SHORT")


def resource(
    name: str,
    devices: DeviceList,
    document_of: Callable[[Entry[Device]], Document],
    **facts: object,
) -> Document:
    """Return a resource, with more ``facts`` from the caller.

    ``document_of`` renders each of its devices, with ``device``.
    """
    entries = tuple(devices.devices.values())
    documents = [document_of(entry) for entry in entries]
    empty, cause = devices.why_empty
    return {
        "name": name,
        **facts,
        "capacity": sum(document["shares"] for document in documents),
        "allocatable": sum(
            offered_shares(entry)
            for entry, document in zip(entries, documents, strict=True)
            if document["state"] == DeviceState.HEALTHY
        ),
        "empty": empty,
        "emptyCause": cause,
        "expected": _expected_document(devices),
        "devices": documents,
        "notOffered": [
            {"path": entry.device.path, "code": entry.code, "reason": entry.text}
            for entry in devices.not_offered
        ],
    }


def _expected_document(devices: DeviceList) -> Document | None:
    if (expected := devices.expect) is None:
        return None
    reason = devices.why_unexpected
    return {
        "min": expected.min,
        "max": expected.max,
        "code": "" if reason is None else reason.code,
        "reason": "" if reason is None else reason.text,
    }


def device(
    entry: Entry[Device],
    labels: HardwareLabels = UNKNOWN,
    *,
    state: DeviceState | None = None,
    reason: str | None = None,
    probes: Sequence[Document] = (),
) -> Document:
    """Return a device; state and reason are those of the device list unless given."""
    device = entry.device
    listed_state = DeviceState.HEALTHY if entry.is_healthy else DeviceState.UNHEALTHY
    return {
        "id": device.id,
        "state": listed_state if state is None else state,
        "reason": explanation(entry) if reason is None else reason,
        "path": device.path,
        "shares": device.replicas,
        "numaNodes": list(device.numa_nodes),
        "nodes": list(dict.fromkeys(node.host_path for node in device.nodes)),
        "dra": _claims_document(device),
        **labels._asdict(),
        "probes": list(probes),
    }


def state(device: Document) -> str:
    """Return the human-readable state of a device, with the reason."""
    state = "not probed" if device["state"] is DeviceState.UNPROBED else device["state"]
    return f"{state}: {device['reason']}" if device["reason"] not in {"", NOT_PROBED} else state


def probe(name: str, outcome: Outcome | None) -> Document:
    """Return the latest result of a probe, named by kind and index in ``health``."""
    result = "" if outcome is None else "success" if outcome.ok else "failure"
    return {"probe": name, "result": result, "reason": "" if outcome is None else outcome.reason}


def row(resource: str, device: Document, columns: Iterable[str], **cells: str) -> tuple[str, ...]:
    """Return the cells of a device in a table; ``cells`` are from the caller."""
    shares = device["shares"]
    known: dict[str, str] = {
        "RESOURCE": resource,
        "ID": f"{device['id']} ({shares} shares)" if shares > 1 else device["id"],
        "NODES": " ".join(device["nodes"]),
        "NUMA": ",".join(map(str, device["numaNodes"])),
        "WHY": device["reason"],
        **cells,
    }
    return tuple(
        # An older daemon may not have all of them.
        known[column] if column in known else device.get(column.lower(), "")
        for column in columns
    )


def not_offered(resources: Iterable[Document]) -> list[str]:
    """Return a line for each candidate that is matched but not offered, with the reason."""
    return [
        f"{resource['name']}: {refused['path']}: {refused['reason']}"
        for resource in resources
        for refused in resource["notOffered"]
    ]


def not_as_expected(resources: Iterable[Document]) -> list[str]:
    """Return a line for each resource with fewer or more Healthy devices than expected."""
    return [
        f"{each['name']}: {expected['reason']}"
        for each in resources
        if (expected := each.get("expected")) and expected["code"]
    ]


def without_devices(resources: Iterable[Document]) -> list[str]:
    """Return a line for each resource without devices, with the reason."""
    return [f"{each['name']}: {each['empty']}" for each in resources if each.get("empty")]


def _claims_document(device: Device) -> Document | None:
    """Return the device as claims see it; None unless DRA serves it."""
    if not device.is_served_by_dra:
        return None
    attributes, amounts = device.attributes.items(), device.capacity.items()
    notes = {name: value.note for name, value in attributes}
    notes |= {name: value.note for name, value in amounts if value.note}
    return {
        "devices": list(map(label, device.shares)),
        "attributes": {name: {value.type: value.value} for name, value in attributes},
        "capacity": {name: quantity(value.amount) for name, value in amounts if value.amount},
        "sharesCapacity": device.shares_capacity,
        "notes": {name: note for name, note in notes.items() if note},
        "metadata": device.metadata,
    }
