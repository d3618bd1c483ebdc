"""Attributes of devices that DRA serves, by which claims can select them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from genericdp.devices.hardware import is_pci_function, nearest
from genericdp.devices.topology import hardware_below, spot_of
from genericdp.model import Attribute, AttributeType, ServedBy, TopologyMode
from genericdp.printing import shortened
from genericdp.template import UnusableValueError, byte_length, expand, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from genericdp.devices.inventory import Host, SysDevice
    from genericdp.model import Resource
    from genericdp.template import Lookup

MAX_BYTES = 64
"""Maximum bytes of a string or version: the API server refuses longer ones."""
STANDARD = "resource.kubernetes.io/"
"""Prefix of the attributes that the drivers of different vendors have in common."""

_BUILT_IN = {
    name: Attribute(type=AttributeType.STRING, value=parse(f"$({template}:-)"))
    for name, template in {
        "driver": "device.driver",
        "usbVendor": "usb.vendor",
        "usbProduct": "usb.product",
        "usbSerial": "usb.serial",
        "pciVendor": "pci.vendor",
        "pciDevice": "pci.device",
    }.items()
}
RESERVED = (*_BUILT_IN, "resource", "id", "extendedResource")
"""Names that a config cannot use. The last three are added in ``dra/slices.py``."""

# Instead of missing values: a selector on a missing attribute is an error, which blocks the pod.
_MISSING: dict[AttributeType, str | int | bool] = {
    AttributeType.STRING: "",
    AttributeType.INT: 0,
    AttributeType.BOOL: False,
    AttributeType.VERSION: "0.0.0",
}
_INTEGER = re.compile(r"(?ai)([+-]?)(?:0x([\da-f]{1,16})|(\d{1,19}))")
_MAX_INTEGER = 2**63 - 1
_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "y", "1"), True),
    **dict.fromkeys(("false", "no", "off", "n", "0"), False),
}
_NUMBER = r"0*(\d{1,19})"  # the scheduler reads it as a number of 64 bits
_WORD = r"(?:0|[1-9]\d{0,18}|\d*[A-Za-z-][\dA-Za-z-]*)"
_VERSION = re.compile(
    rf"(?a)[vV]?{_NUMBER}(?:\.{_NUMBER})?(?:\.{_NUMBER})?"
    rf"((?:-{_WORD}(?:\.{_WORD})*)?(?:\+[\dA-Za-z-]+(?:\.[\dA-Za-z-]+)*)?)"
)
_ROOT = re.compile(r"/sys/devices/(pci[0-9a-f]+:[0-9a-f]+)/")


class AttributeValue(NamedTuple):
    """The value of an attribute, as claims can select by it."""

    type: AttributeType
    value: str | int | bool
    note: str = ""
    """Why it is not the result of the config's template; empty if it is."""


def attributes_of(
    resource: Resource, device: SysDevice | None, lookup: Lookup, host: Host
) -> dict[str, AttributeValue]:
    """Return the attributes of a device by name; none if its resource is not served by DRA.

    ``device`` is its first member, if sysfs knows it, and ``lookup`` returns the variables of that
    member. An attribute that the device lacks has an empty value and a note that says why.
    """
    if resource.served_by is not ServedBy.DRA:
        return {}
    found = {
        name: value_of(attribute, lookup)
        for name, attribute in {**_BUILT_IN, **resource.attributes}.items()
    }
    return found if device is None else found | _standard(resource, device, host)


def _standard(resource: Resource, device: SysDevice, host: Host) -> dict[str, AttributeValue]:
    """Return the standard attributes, without those that are not known for sure.

    Claims request devices with equal ones (``matchAttribute``), so a placeholder would be wrong.
    """
    below = (nearest(hardware, host, is_pci_function) for hardware in hardware_below(device, host))
    functions = {function.syspath: function.name for function in below if function is not None}
    roots = {root[1] for syspath in functions if (root := _ROOT.match(syspath))}
    spot = spot_of((device,), host)
    nodes = {*spot.numa_nodes} if resource.topology is TopologyMode.AUTO else set()
    known: dict[str, tuple[AttributeType, Collection[str | int]]] = {
        "pcieRoot": (AttributeType.STRING, roots),
        "pciBusID": (AttributeType.STRING, {*functions.values()}),
        "numaNode": (AttributeType.INT, nodes),
    }
    return {
        f"{STANDARD}{name}": AttributeValue(kind, next(iter(values)))
        for name, (kind, values) in known.items()
        if len(values) == 1
    }


def value_of(attribute: Attribute, lookup: Lookup) -> AttributeValue:
    """Return the value of an attribute, with a note if it is not the template's result."""
    kind = attribute.type
    try:
        text = expand(attribute.value, lookup)
    except UnusableValueError as error:
        return AttributeValue(kind, _MISSING[kind], str(error))
    if kind is AttributeType.STRING:
        fitting = text.encode()[:MAX_BYTES].decode(errors="ignore")
        note = f"cut: it has {byte_length(text)} bytes, at most {MAX_BYTES} are possible"
        return AttributeValue(kind, fitting, "" if fitting == text else note)
    what, read = _PARSERS[kind]
    value = read(text.strip())
    if value is None:
        return AttributeValue(kind, _MISSING[kind], f"{shortened(text)!r} is {what}")
    return AttributeValue(kind, value)


def _integer(text: str) -> int | None:
    if (found := _INTEGER.fullmatch(text)) is None:
        return None
    sign, hexadecimal, decimal = found.groups()
    number = int(f"{sign}{hexadecimal or decimal}", 16 if hexadecimal else 10)
    return number if -_MAX_INTEGER - 1 <= number <= _MAX_INTEGER else None


def _version(text: str) -> str | None:
    """Return a semantic version: leading zeros removed, missing parts zero; or None."""
    if (found := _VERSION.fullmatch(text)) is None:
        return None
    major, minor, patch, rest = found.groups()
    version = f"{major}.{minor or 0}.{patch or 0}{rest}"
    return version if len(version) <= MAX_BYTES else None


_PARSERS: Mapping[AttributeType, tuple[str, Callable[[str], str | int | None]]] = {
    AttributeType.INT: ("not a whole number of 64 bits", _integer),
    AttributeType.BOOL: ("neither true nor false", lambda text: _BOOLEANS.get(text.lower())),
    AttributeType.VERSION: ("not a version such as 1.2.3", _version),
}
"""The message for an invalid string, and the parser, by type."""
