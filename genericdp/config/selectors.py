"""Rules of ``match`` and ``exclude``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from genericdp.config.finding import Finding, exactly_one, guess, shown
from genericdp.config.schema import schema
from genericdp.config.texts import each_text, glob_findings
from genericdp.config.tree import shown_path
from genericdp.glob import has_wildcard, is_glob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from genericdp.config.tree import Document, Path

_A_FILE = "a file or folder"
CANDIDATES = ("path", "udev", "net", "usb", "pci")
_HEXADECIMAL = re.compile(r"[0-9A-Fa-f]+")
_DIGITS = {
    ("usb", "vendor"): 4,
    ("usb", "product"): 4,
    ("usb", "class"): 2,
    ("usb", "interface"): 2,
    ("pci", "vendor"): 4,
    ("pci", "device"): 4,
    ("pci", "subsystemVendor"): 4,
    ("pci", "subsystemDevice"): 4,
    ("pci", "class"): 6,
}
"""How many hexadecimal digits sysfs has there."""
_SHORT_ADDRESS = re.compile(r"[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
_NAMES_ONE = {
    "udev": ("subsystem", "name"),
    "net": ("name",),
    "usb": ("port",),
    "pci": ("address",),
}
"""What there is only one of on a machine."""


def selector_findings(
    at: Path, selector: dict[str, Any], document: Document, values: frozenset[str]
) -> Iterator[Finding]:
    """Give what the rules say of one selector."""
    keys = document.keys(at)
    known = schema()["$defs"]["selector"]["properties"]
    yield from exactly_one(at, keys, CANDIDATES, known)
    yield from glob_findings((*at, "path"), selector.get("path"), paths=True)
    yield from _type_findings(at, selector, keys)
    for bus in CANDIDATES[1:]:
        yield from _bus_findings((*at, bus), bus, selector.get(bus))
    if isinstance(usb := selector.get("usb"), dict) and "interface" in usb:
        message = "'interface' can only be asked for in hardware"
        hint = "write hardware: {usb: {interface: ...}} beside what is to be found"
        yield Finding(path=(*at, "usb", "interface"), message=message, hint=hint, of_key=True)
    hardware = selector.get("hardware")
    for bus, conditions in hardware.items() if isinstance(hardware, dict) else ():
        yield from _bus_findings((*at, "hardware", bus), bus, conditions)
    yield from _value_findings((*at, "values"), selector.get("values"), values)


def _type_findings(at: Path, selector: dict[str, Any], keys: frozenset[str]) -> Iterator[Finding]:
    if "type" not in keys:
        return
    if "path" not in keys and keys & set(CANDIDATES):
        yield Finding(path=(*at, "type"), message="'type' is only taken beside 'path'", of_key=True)
    known = schema()["$defs"]["selector"]["properties"]["type"]["items"]["enum"]
    one = selector.get("type")
    if isinstance(one, str) and one not in known:
        hint = guess(one, known)
        message = f"{shown(one)} is not one of {', '.join(known)}"
        yield Finding(path=(*at, "type"), message=message, hint=hint if "mean" in hint else "")


def _bus_findings(at: Path, bus: str, conditions: object) -> Iterator[Finding]:
    if not isinstance(conditions, dict):
        return
    for key, globs in conditions.items():
        here = (*at, key)
        if isinstance(globs, dict):
            for name, patterns in globs.items():
                if key == "attributes" and (name.startswith("/") or ".." in name.split("/")):
                    message = f"{shown(name)} does not lie below the device"
                    yield Finding(path=(*here, name), message=message, of_key=True)
                yield from glob_findings((*here, name), patterns)
            continue
        yield from glob_findings(here, globs)
        for where, text in each_text(here, globs):
            if (problem := _id_problem(bus, key, text)) is not None:
                yield Finding(path=where, message=problem[0], hint=problem[1])


def _id_problem(bus: str, key: str, text: str) -> tuple[str, str] | None:
    if (bus, key) == ("pci", "address") and _SHORT_ADDRESS.fullmatch(text):
        return f"{shown(text)} lacks the domain and matches nothing", f"write '0000:{text}'"
    digits = _DIGITS.get((bus, key))
    if digits is None or "$(" in text:
        return None
    if text[:2] in {"0x", "0X"}:
        return f"{shown(text)} matches nothing: ids are written without 0x", f"write '{text[2:]}'"
    if not is_glob(text) and not (len(text) == digits and _HEXADECIMAL.fullmatch(text)):
        return f"{shown(text)} matches nothing: it is not {digits} hexadecimal digits", ""
    return None


def _value_findings(at: Path, wanted: object, declared: frozenset[str]) -> Iterator[Finding]:
    if not isinstance(wanted, dict):
        return
    for name, globs in wanted.items():
        if name not in declared:
            yield undeclared((*at, name), name, declared, of_key=True)
        yield from glob_findings((*at, name), globs)


def undeclared(at: Path, name: str, declared: frozenset[str], *, of_key: bool = False) -> Finding:
    """Say that the resource declares no value of this name."""
    hint = guess(name, declared) if declared else "declare it under values"
    return Finding(path=at, message=f"there is no value {shown(name)}", hint=hint, of_key=of_key)


def selectors_findings(at: Path, resource: dict[str, Any]) -> Iterator[Finding]:
    """Give what the rules say of a resource's selectors together."""
    seen: dict[str, Path] = {}
    for key in ("match", "exclude"):
        for i, selector in enumerate(resource.get(key) or ()):
            if not selector:
                continue
            here = (*at, key, i)
            first = seen.setdefault(json.dumps(selector, sort_keys=True), here)
            if first is not here:
                same = f"it is the same selector as {shown_path(first)}"
                nothing = ": nothing of that is ever offered" if first[-2] != key else ""
                yield Finding(path=here, message=same + nothing)
    yield from _nothing_to_inject(at, resource)


def _nothing_to_inject(at: Path, resource: dict[str, Any]) -> Iterator[Finding]:
    """Say which selectors give candidates without a device file that nothing is injected for."""
    inject = resource.get("inject")
    inject = inject if isinstance(inject, dict) else {}
    names_something = any(
        inject.get(key) for key in ("devices", "mounts", "env", "annotations", "cdi")
    )
    uses_own_nodes = any(
        isinstance(entry, dict)
        and "$(device.path" in str(entry.get("path"))
        and entry.get("optional") is not True
        for entry in inject.get("devices") or ()
    )
    match = [(i, one) for i, one in enumerate(resource.get("match") or ()) if isinstance(one, dict)]
    kinds = {i: kind for i, selector in match if (kind := _without_node(selector)) is not None}
    for i, kind in kinds.items() if "groupBy" not in resource else ():
        here = (*at, "match", i)
        if not names_something:
            message = f"{kind} has no device file: nothing would be injected"
            yield Finding(path=here, message=message, hint="say under inject what a container gets")
        # Beside others the entry can be meant for them.
        elif uses_own_nodes and len(kinds) == len(match):
            message = f"{kind} has no device file: inject.devices cannot give its $(device.path)"
            hint = "use mounts" if kind == _A_FILE else "name its nodes otherwise"
            yield Finding(path=here, message=message, hint=hint)


def _without_node(selector: dict[str, Any]) -> str | None:
    if len(selector.keys() & set(CANDIDATES)) != 1:
        return None
    if "net" in selector:
        return "a network interface"
    if "pci" in selector:
        return "a PCI function"
    udev = selector.get("udev")
    if isinstance(udev, dict) and udev.get("subsystem") in ("net", ["net"]):
        return "a network interface"
    types = selector.get("type", ["char"])
    types = {types} if isinstance(types, str) else set(types)
    if "path" in selector and types and types <= {"file", "directory"}:
        return _A_FILE
    return None


def may_find_several(match: object) -> bool:
    """Say whether a resource with this ``match`` can have more than one device."""
    if not isinstance(match, list) or len(match) != 1 or not isinstance(match[0], dict):
        return bool(match)
    selector = match[0]
    if "path" in selector:
        return not _is_one_text(selector["path"])
    named = ((selector.get(bus), keys) for bus, keys in _NAMES_ONE.items())
    return not any(
        isinstance(conditions, dict) and all(_is_one_text(conditions.get(key)) for key in keys)
        for conditions, keys in named
    )


def _is_one_text(globs: object) -> bool:
    texts = globs if isinstance(globs, list) else [globs]
    return len(texts) == 1 and isinstance(texts[0], str) and not has_wildcard(texts[0])
