"""Names of the hardware that devices are, read from sysfs and the udev database for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.devices.hardware import (
    driver_of,
    function_of,
    is_pci_function,
    is_usb_device,
    lineage,
)
from genericdp.host.cache import HostCache
from genericdp.printing import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from genericdp.devices.inventory import Identity
    from genericdp.devices.sysdevice import SysDevice
    from genericdp.host.root import Root

_MODELS = ("ID_V4L_PRODUCT", "ID_MODEL_FROM_DATABASE", "ID_MODEL")
_NAMED = frozenset({"nvme", "scsi", "block"})
"""Subsystems whose devices have attributes ``model`` and ``serial``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hardware:
    """What a person calls a device by; texts that are not known are empty."""

    model: str = ""
    serial: str = ""
    driver: str = ""


UNKNOWN = Hardware()


class HardwareNames:
    """Remembers the hardware of devices; a replug gives a device another identity."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self.known: dict[Identity, Hardware] = {}

    def read(self, identities: Iterable[Identity]) -> None:
        """Read what is not known yet and forget the others; in a thread, since it takes a while."""
        host = HostCache(self._root)
        found = {}
        for identity in identities:
            if (hardware := self.known.get(identity)) is None:
                device = host.device(identity.syspath) if identity.syspath else None
                hardware = UNKNOWN if device is None else _hardware_of(device, host)
            found[identity] = hardware
        self.known = found


def _hardware_of(device: SysDevice, host: HostCache) -> Hardware:
    function = function_of(device, host)
    parts = list(lineage(device, host))
    if function is not None:
        parts = parts[: parts.index(function) + 1]
    return Hardware(
        model=_first(parts, lambda one: _models(one, host)),
        serial=_first(parts, lambda one: _serials(one, host)),
        driver=shortened(driver_of(device, host) or ""),
    )


def _first(parts: Iterable[SysDevice], texts: Callable[[SysDevice], Iterator[str | None]]) -> str:
    """Return the first text that a device or what it sits on has."""
    return next((shortened(text) for one in parts for text in texts(one) if text), "")


def _models(one: SysDevice, host: HostCache) -> Iterator[str | None]:
    if is_usb_device(one):
        yield host.attribute(one.syspath, "product")
    if one.subsystem in _NAMED:
        yield host.attribute(one.syspath, "model")
    yield from (one.properties.get(name) for name in _MODELS)
    if is_pci_function(one):
        # Without a udev database there are still the IDs.
        yield one.properties.get("PCI_ID", "").lower()


def _serials(one: SysDevice, host: HostCache) -> Iterator[str | None]:
    if is_usb_device(one) or one.subsystem in _NAMED:
        yield host.attribute(one.syspath, "serial")
    yield one.properties.get("ID_SERIAL_SHORT")
