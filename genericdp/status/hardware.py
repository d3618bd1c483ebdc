"""Model, serial number and driver of hardware, from sysfs and the udev database, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from genericdp.devices.hardware import (
    driver_of,
    function_of,
    is_pci_function,
    is_usb_device,
    lineage,
)
from genericdp.printing import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from genericdp.devices.inventory import Host, Identity, SysDevice

_MODELS = ("ID_V4L_PRODUCT", "ID_MODEL_FROM_DATABASE", "ID_MODEL")
_NAMED = frozenset({"nvme", "scsi", "block"})
"""Subsystems whose devices have attributes ``model`` and ``serial``."""


class HardwareLabels(NamedTuple):
    """What a person calls a device by; texts that are not known are empty."""

    model: str = ""
    serial: str = ""
    driver: str = ""


UNKNOWN = HardwareLabels()


def hardware_of(identity: Identity, host: Host) -> HardwareLabels:
    """Return the hardware that a device is, or sits on."""
    device = host.device(identity.syspath or "")
    if device is None:
        return UNKNOWN
    function = function_of(device, host)
    parts = list(lineage(device, host))
    if function is not None:
        parts = parts[: parts.index(function) + 1]
    return HardwareLabels(
        model=_first(parts, lambda one: _models(one, host)),
        serial=_first(parts, lambda one: _serials(one, host)),
        driver=shortened(driver_of(device, host) or ""),
    )


def _first(parts: Iterable[SysDevice], texts: Callable[[SysDevice], Iterator[str | None]]) -> str:
    """Return the first text that a device or what it sits on has."""
    return next((shortened(text) for one in parts for text in texts(one) if text), "")


def _models(one: SysDevice, host: Host) -> Iterator[str | None]:
    if is_usb_device(one):
        yield host.attribute(one.syspath, "product")
    if one.subsystem in _NAMED:
        yield host.attribute(one.syspath, "model")
    yield from (one.properties.get(name) for name in _MODELS)
    if is_pci_function(one):
        # Without a udev database there are still the IDs.
        yield one.properties.get("PCI_ID", "").lower()


def _serials(one: SysDevice, host: Host) -> Iterator[str | None]:
    if is_usb_device(one) or one.subsystem in _NAMED:
        yield host.attribute(one.syspath, "serial")
    yield one.properties.get("ID_SERIAL_SHORT")
