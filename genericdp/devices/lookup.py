"""The texts that templates name, for one candidate."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from genericdp.devices.bounding import readable_way
from genericdp.devices.conditions import unread
from genericdp.devices.hardware import (
    driver_of,
    is_net_interface,
    is_pci_function,
    is_usb_device,
    nearest,
    net_text,
    pci_text,
    usb_part,
    usb_text,
)
from genericdp.devices.topology import spot_of
from genericdp.devices.values import value_of
from genericdp.template import MOST_VALUES, AmbiguousValueError, UnusableValueError

if TYPE_CHECKING:
    from genericdp.devices.candidates import Candidate
    from genericdp.devices.inventory import Inventory
    from genericdp.devices.sysdevice import SysDevice
    from genericdp.model import Resource


_KINDS = {"usb": is_usb_device, "pci": is_pci_function, "net": is_net_interface}


class Names:
    """Answers for one candidate; each text is found out when it is first asked for."""

    def __init__(
        self,
        candidate: Candidate,
        *,
        resource: Resource,
        inventory: Inventory,
        node_name: str,
        wary: bool = False,
    ) -> None:
        self.device_id: str | None = None
        """Known only once the id has been made."""
        self._candidate = candidate
        self._resource = resource
        self._facts = inventory.host
        self._lead = partial(readable_way, resource.policy, lead=inventory.host.way)
        self._node_name = node_name
        self._wary = wary
        """Whether what nobody can know is an error, also where a default would take its place."""
        self._values: dict[str, str | UnusableValueError | None] = {}
        """What was found out already, also that a value cannot be had."""
        self._computing: set[str] = set()

    def get_text(self, scope: str, name: str) -> str | None:
        """Give the text, or None if this candidate lacks it; as ``template.Lookup``."""
        if self._wary and (why := self._unread(scope, name)):
            raise UnusableValueError(why)
        match scope:
            case "device":
                return self._of_device(name)
            case "node":
                return self._node_name
            case "value":
                return self._value(name)
            case "property" | "attribute" | "usb" | "pci" | "net":
                device = self._candidate.device
                return None if device is None else self._of_sysfs(device, scope, name)
            case _:
                return None

    def _unread(self, scope: str, name: str) -> str:
        """Return what could not be read of what a template names; empty if everything could."""
        host, device = self._facts, self._candidate.device
        if device is None:
            return ""
        match scope:
            case "device":
                return unread(f"udev.{name}", device.syspath, host)
            case "property":
                return unread(f"udev.properties.{name}", device.syspath, host)
            case "attribute":
                host.attribute(device.syspath, name)
                return unread(f"udev.attributes.{name}", device.syspath, host)
            case "usb" | "pci" | "net":
                one = nearest(device, host, _KINDS[scope])
                if one is None:
                    return unread(f"hardware.{scope}", device.syspath, host)
                self._of_sysfs(device, scope, name)
                if scope == "usb":
                    one = usb_part(one, name, host, sitting=device)
                return unread(f"{scope}.{name}", one.syspath, host)
            case _:
                return ""

    def _of_device(self, name: str) -> str | None:
        candidate, device = self._candidate, self._candidate.device
        number = candidate.file.identity.device_number
        match name:
            case "id":
                return self.device_id
            case "path":
                hidden = candidate.file.identity.syspath == candidate.path
                return None if hidden else candidate.path
            case "name":
                return device.name if device else candidate.file.kernel_name
            case "major" | "minor":
                return None if number is None else str(number[name == "minor"])
            case "syspath":
                return candidate.file.identity.syspath
            case _:
                return None if device is None else self._of_known(device, name)

    def _of_known(self, device: SysDevice, name: str) -> str | None:
        match name:
            case "subsystem":
                return device.subsystem or None
            case "devtype":
                return device.devtype or None
            case "driver":
                return driver_of(device, self._facts)
            case "numa":
                nodes = spot_of((device,), self._facts).numa_nodes
                return ",".join(map(str, nodes)) or None
            case _:
                return None

    def _of_sysfs(self, device: SysDevice, scope: str, name: str) -> str | None:
        host = self._facts
        match scope:
            case "property":
                return device.properties.get(name)
            case "attribute":
                return host.attribute(device.syspath, name)
            case "usb":
                usb = nearest(device, host, is_usb_device)
                return None if usb is None else usb_text(usb, name, host, sitting=device)
            case "pci":
                pci = nearest(device, host, is_pci_function)
                return None if pci is None else pci_text(pci, name, host)
            case _:
                net = nearest(device, host, is_net_interface)
                return None if net is None else net_text(net, name, host)

    def _value(self, name: str) -> str | None:
        if name not in self._resource.values:
            return None
        if name not in self._values:
            self._values[name] = self._computed(name)
        found = self._values[name]
        if isinstance(found, UnusableValueError):
            raise found.with_traceback(None)
        return found

    def _computed(self, name: str) -> str | UnusableValueError | None:
        if name in self._computing:
            raise UnusableValueError(f"the value {name!r} needs itself")
        if len(self._computing) == MOST_VALUES:
            raise UnusableValueError(f"the value {name!r} lies more than {MOST_VALUES} deep")
        self._computing.add(name)
        try:
            source = self._resource.values[name]
            return value_of(name, source, self.get_text, self._facts, lead=self._lead)
        except AmbiguousValueError as error:
            return UnusableValueError(str(error)) if self._wary else error
        except UnusableValueError as error:
            return error
        finally:
            self._computing.discard(name)
