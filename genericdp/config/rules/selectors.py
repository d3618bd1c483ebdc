"""Rules of ``match`` and ``exclude`` that a schema cannot express."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from genericdp.config.document import shown_path
from genericdp.config.rules.parts import injects, replicas
from genericdp.config.texts import check_declared, declared_values
from genericdp.devices.hardware import KINDS
from genericdp.glob import has_wildcard, matches, unescape
from genericdp.scalars import single_quoted

if TYPE_CHECKING:
    from genericdp.config.document import Field

_A_FILE = "a file or directory"
_INJECTED = ("devices", "mounts", "env", "annotations", "cdi")
_MEMORY = ("/dev/mem", "/dev/kmem", "/dev/port")
_SYSTEM_DISKS = ("/dev/sda", "/dev/nvme0n1", "/dev/vda", "/dev/mmcblk0")
_OF_USB = {"idVendor": "vendor", "idProduct": "product"}
_DISKS = re.compile(r"/dev/(disk/|(xv|[sv])d([a-z]?[*?[]|[a-z]\d*$)|nvme[^/]*n|mmcblk)")
"""Paths and globs that surely name disks."""


def check_selectors(resource: Field) -> None:
    """Find mistakes in the selectors of a resource."""
    values = declared_values(resource)
    seen: dict[str, Field] = {}
    for selector in (*resource["match"], *resource["exclude"]):
        for value in selector["values"]:
            check_declared(value, value.key, values, of_key=True)
        _warn_of_parents(selector["udev"])
        # If one has a mistake, the rest of it is meaningless.
        if _is_whole(selector.value):
            conditions = {
                key: condition for key, condition in selector.value.items() if key != "inject"
            }
            first = seen.setdefault(json.dumps(conditions, sort_keys=True), selector)
            if first is not selector:
                is_other = selector.path[-2] != first.path[-2]
                loss = ", so nothing that it matches is ever offered" if is_other else ""
                selector.refuse(f"duplicate of the selector {shown_path(first.path)}{loss}")
    nodes = (entry for inject in injects(resource) for entry in inject["devices"])
    for entry in (*resource["match"], *nodes):
        for path in (string for string in entry["path"].strings() if "$(" not in str(string.value)):
            _warn_of_nodes(path, entry, has_exclude=bool(resource["exclude"].value))
    _warn_of_alternatives(resource["match"])
    _check_injected(resource)
    _warn_of_shares(resource)
    _warn_of_control_nodes(resource)


def _warn_of_shares(resource: Field) -> None:
    match = list(resource["match"])
    given = [] if "devices" in resource["inject"].written() else match[:]
    takers = [match, *([selector] for selector in match)]
    for inject, selectors in zip(injects(resource), takers, strict=True):
        nodes = [entry for entry in inject["devices"] if "w" in (entry["permissions"].text or "rw")]
        given += nodes
        if any("$(device.path" in str(node["path"].value) for node in nodes):
            given += selectors
    if replicas(resource) > 1 and any(map(_names_disks, given)):
        message = "containers that write to one disk at the same time destroy its filesystem"
        resource["replicas"].warn(message, "omit replicas, or inject it with permissions: r")


def _warn_of_control_nodes(resource: Field) -> None:
    """Warn of globs that match a control node, which is injected with every device: it would be a
    device, too.
    """
    if "groupBy" in resource.written():
        return
    excludes = list(resource["exclude"])
    # What other excludes match depends on the host.
    if any("path" not in entry.written() for entry in excludes):
        return
    excluded = [text for entry in excludes for text in _texts(entry["path"])]
    texts = (entry["path"].text for entry in resource["inject"]["devices"])
    control = [text for text in texts if text and "$(" not in text and not has_wildcard(text)]
    for selector in resource["match"]:
        types = _texts(selector["type"]) or ["char", "block"]
        if {"hardware", "values"} & selector.written() or not {"char", "block"} & {*types}:
            continue
        for field in selector["path"].strings():
            pattern = str(field.value)
            for node in (unescape(text) for text in control if has_wildcard(pattern)):
                if _finds(pattern, node) and not any(_finds(exclude, node) for exclude in excluded):
                    message = f"this matches {node}, too, which comes with every device"
                    field.warn(
                        message, f"write {_without(pattern, node)}exclude: [{{path: {node}}}]"
                    )


def _without(pattern: str, node: str) -> str:
    """Return a glob of numbers that does not match a node, as a part of a hint; empty if there is
    none.
    """
    numbered = f"{pattern[:-1]}[0-9]*"
    return f"{numbered}, or " if pattern.endswith("*") and not _finds(numbered, node) else ""


def _finds(pattern: str, path: str) -> bool:
    """Return whether a glob finds a path: no wildcard matches a slash."""
    names = zip(pattern.split("/"), path.split("/"), strict=False)
    return pattern.count("/") == path.count("/") and all(
        matches(segment, name) for segment, name in names
    )


def _warn_of_nodes(path: Field, entry: Field, *, has_exclude: bool) -> None:
    text, types = str(path.value), _texts(entry["type"]) or ["char", "block"]
    # Children of certain hardware are not every device.
    is_narrow = not {"hardware", "values"}.isdisjoint(entry.written())
    memory = next((glob for glob in _MEMORY if "char" in types and matches(text, glob)), "")
    if text == "/dev/*" and not is_narrow:
        path.warn("this is every device of the machine", "name those that pods may have")
    elif has_wildcard(text) and (is_narrow or has_exclude):
        return
    elif memory:
        path.warn(f"{memory} gives access to all of the machine", "name those that pods may have")
    elif has_wildcard(text) and "block" in types and any(matches(text, a) for a in _SYSTEM_DISKS):
        path.warn("the system's disk may be among these", "exclude it")


def _names_disks(entry: Field) -> bool:
    """Return whether an entry of ``match`` or ``inject.devices`` surely names disks."""
    types, subsystems = _texts(entry["type"]), _texts(entry["udev"]["subsystem"])
    found = types != ["char"] and any(map(_DISKS.match, _texts(entry["path"])))
    return found or ["block"] in (types, subsystems, _texts(entry["subsystem"]))


def _is_whole(value: object) -> bool:
    """Return whether a value is complete: nothing was left out as wrong."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is not None and all(map(_is_whole, inner))


def _check_injected(resource: Field) -> None:
    """Find selectors of devices that have no device file and nothing to inject."""
    own = resource["inject"]
    match = list(resource["match"])
    lacking = [(selector, kind) for selector in match if (kind := _without_node(selector))]
    for selector, kind in lacking if "groupBy" not in resource.written() else ():
        given = (own, selector["inject"])
        if not any(inject[key].value for inject in given for key in _INJECTED):
            message = f"{kind} has no device file: nothing would be injected"
            selector.refuse(message, "say under inject what a container gets")
        # With other selectors, an entry of the resource may be meant for those.
        elif any(map(_uses_own_node, given if len(lacking) == len(match) else given[1:])):
            message = f"{kind} has no device file: inject.devices cannot give its $(device.path)"
            hint = "use mounts" if kind == _A_FILE else "name its nodes otherwise"
            selector.refuse(message, hint)


def _uses_own_node(inject: Field) -> bool:
    return any(
        "$(device.path" in str(entry["path"].value) and entry["optional"].value is not True
        for entry in inject["devices"]
    )


def _without_node(selector: Field) -> str:
    """Return what kind of thing a selector finds if it has no device file, else nothing."""
    if len({"path", *KINDS} & selector.written()) != 1:
        return ""
    names = [name for name in KINDS if selector[name].value is not None]
    if _texts(selector["udev"]["subsystem"]) == ["net"]:
        names = ["net"]
    if names and not KINDS[names[0]].has_node:
        return f"a {KINDS[names[0]].noun}"
    types = _texts(selector["type"])
    return _A_FILE if types and {*types} <= {"file", "directory"} else ""


def _warn_of_alternatives(match: Field) -> None:
    """Warn of all devices of a subsystem next to a selector that was meant to choose of them."""
    entries = [entry for entry in match if isinstance(entry.value, dict)]
    hardware = [key for entry in entries for key in ("usb", "pci") if entry.written() == {key}]
    for entry in entries if hardware else ():
        if entry.written() == {"udev"} and entry["udev"].written() == {"subsystem"}:
            entry.warn(
                "this matches every device of the subsystem, also those that no other entry does",
                f"to require both, write hardware: {{{hardware[0]}: ...}} next to 'udev'",
            )


def _warn_of_parents(udev: Field) -> None:
    """Warn of attributes that only the USB device has to which a device is attached."""
    if udev["subsystem"].text in {None, "usb"}:
        return
    for attribute in udev["attributes"]:
        if key := _OF_USB.get(attribute.key):
            text = f"{{usb: {{{key}: {single_quoted(str(attribute.value))}}}}}"
            message = f"{attribute.key} belongs to the USB device that it is attached to"
            attribute.warn(message, f"write hardware: {text}, next to 'udev'", of_key=True)


def may_find_several(match: Field) -> bool:
    """Return whether a resource with this ``match`` can have more than one device."""
    selectors = list(match)
    if len(selectors) != 1:
        return bool(selectors)
    (selector,) = selectors
    if selector["path"].value is not None:
        return not _is_one_text(selector["path"])
    return not any(
        all(_is_one_text(selector[name][key]) for key in kind.single)
        for name, kind in KINDS.items()
    )


def _is_one_text(globs: Field) -> bool:
    texts = _texts(globs)
    return len(texts) == 1 and not has_wildcard(texts[0])


def _texts(globs: Field) -> list[str]:
    return [str(field.value) for field in globs.strings()]
