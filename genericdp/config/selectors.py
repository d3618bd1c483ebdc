"""What a schema cannot say of ``match`` and ``exclude``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from genericdp.config.finding import guess, shown
from genericdp.config.texts import check_globs
from genericdp.config.tree import shown_path
from genericdp.glob import has_wildcard, matches

if TYPE_CHECKING:
    from genericdp.config.finding import Field

_BUSES = ("udev", "net", "usb", "pci")
_A_FILE = "a file or folder"
_INJECTED = ("devices", "mounts", "env", "annotations", "cdi")
_NAMES_ONE = {
    "udev": ("subsystem", "name"),
    "net": ("name",),
    "usb": ("port",),
    "pci": ("address",),
}
"""What there is only one of on a machine."""
_SYSTEM_DISKS = ("/dev/sda", "/dev/nvme0n1", "/dev/vda", "/dev/mmcblk0")


def check_selectors(resource: Field, values: frozenset[str] | None) -> None:
    """Find what is wrong with each selector of a resource, and with all of them together."""
    seen: dict[str, Field] = {}
    for key in ("match", "exclude"):
        for selector in resource[key]:
            _check_selector(selector, values)

            # Of one with a mistake, the rest says nothing.
            if selector.value and _is_whole(selector.value):
                written = json.dumps(selector.value, sort_keys=True)
                first = seen.setdefault(written, selector)
                if first is not selector:
                    _refuse_repeated(selector, first)
    for selector in resource["match"]:
        _warn_of_risks(selector, has_exclude=bool(resource["exclude"].value))
    _check_injected(resource)


def _is_whole(value: object) -> bool:
    """Return whether nothing of a value was left out as wrong."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is not None and all(map(_is_whole, inner))


def _refuse_repeated(selector: Field, first: Field) -> None:
    message = f"duplicate of the selector {shown_path(first.path)}"
    if selector.path[-2] != first.path[-2]:
        message += ", so nothing that it matches is ever offered"
    selector.refuse(message)


def _check_selector(selector: Field, values: frozenset[str] | None) -> None:
    check_globs(selector["path"], paths=True)
    for bus in _BUSES:
        _check_bus(selector[bus])
    for bus_field in selector["hardware"]:
        _check_bus(bus_field)
    for value in selector["values"]:
        if values is not None and value.key not in values:
            undeclared(value, value.key, values, of_key=True)
        check_globs(value)


def _check_bus(bus: Field) -> None:
    for condition in bus:
        for globs in condition if isinstance(condition.value, dict) else [condition]:
            check_globs(globs)


def undeclared(field: Field, name: str, values: frozenset[str], *, of_key: bool = False) -> None:
    """Refuse the name of a value that the resource does not declare."""
    hint = guess(name, values) if values else "declare it under values"
    field.refuse(f"undeclared value {shown(name)}", hint, of_key=of_key)


def _warn_of_risks(selector: Field, *, has_exclude: bool) -> None:
    types = [text for _, text in selector["type"].texts()]
    for field, text in selector["path"].texts():
        if text == "/dev/*":
            field.warn("this is every device of the machine", "name those that pods may have")
        elif matches(text, "/dev/mem"):
            field.warn("/dev/mem gives access to all of the machine's memory")
        elif has_exclude or types == ["char"] or not has_wildcard(text):
            continue
        elif any(matches(text, disk) for disk in _SYSTEM_DISKS):
            field.warn("the system's disk may be among these", "exclude it")


def _check_injected(resource: Field) -> None:
    """Find the selectors of what has no device file and gets nothing injected."""
    inject = resource["inject"]
    names_something = any(inject[key].value for key in _INJECTED)
    uses_own_nodes = any(
        "$(device.path" in str(entry["path"].value) and entry["optional"].value is not True
        for entry in inject["devices"]
    )
    match = list(resource["match"])
    lacking = [(selector, kind) for selector in match if (kind := _without_node(selector))]
    for selector, kind in lacking if "groupBy" not in resource.written() else ():
        if not names_something:
            message = f"{kind} has no device file: nothing would be injected"
            selector.refuse(message, "say under inject what a container gets")
        # Beside others the entry can be meant for them.
        elif uses_own_nodes and len(lacking) == len(match):
            message = f"{kind} has no device file: inject.devices cannot give its $(device.path)"
            selector.refuse(
                message, "use mounts" if kind == _A_FILE else "name its nodes otherwise"
            )


def _without_node(selector: Field) -> str:
    """Return what a selector finds if that has no device file, else nothing."""
    if len({"path", *_BUSES} & selector.written()) != 1:
        return ""
    if selector["net"].value is not None:
        return "a network interface"
    if selector["pci"].value is not None:
        return "a PCI function"
    if [text for _, text in selector["udev"]["subsystem"].texts()] == ["net"]:
        return "a network interface"
    types = {text for _, text in selector["type"].texts()}
    return _A_FILE if types and types <= {"file", "directory"} else ""


def may_find_several(match: Field) -> bool:
    """Return whether a resource with this ``match`` can have more than one device."""
    selectors = list(match)
    if len(selectors) != 1:
        return bool(selectors)
    (selector,) = selectors
    if selector["path"].value is not None:
        return not _is_one_text(selector["path"])
    return not any(
        all(_is_one_text(selector[bus][key]) for key in keys) for bus, keys in _NAMES_ONE.items()
    )


def _is_one_text(globs: Field) -> bool:
    texts = [text for _, text in globs.texts()]
    return len(texts) == 1 and not has_wildcard(texts[0])
