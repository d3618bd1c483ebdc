"""Selectors and conditions as text, for messages about why something is not offered."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.conditions import KINDS, OF_UEVENT, file_of, kind_of, why_unknown
from genericdp.model import PathSelector
from genericdp.printing import printable, shortened, yaml_mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from genericdp.devices.conditions import Condition
    from genericdp.devices.sysdevice import Host
    from genericdp.model import Candidates, Globs, Selector

NOUNS = {
    "usb": "USB device",
    "pci": "PCI function",
    "net": "network interface",
    "udev": "sysfs device",
}

_MOST_SHOWN = 81
_HUMP = re.compile(r"_([a-z])")


def shown(text: str) -> str:
    """Return a text of the host on one line, shortened if it is long."""
    return shortened(printable(text), _MOST_SHOWN)


def selector_text(selector: Selector) -> str:
    """Return a selector as it can be written in a config, on one line."""
    keys: dict[str, object] = {kind_of(selector.candidates): _keys_of(selector.candidates)}
    if isinstance(selector.candidates, PathSelector):
        keys = {"path": _one_or_list(selector.candidates.globs)}
        if selector.candidates.types != PathSelector(globs=()).types:
            keys["type"] = _one_or_list(tuple(map(str, selector.candidates.types)))
    hardware = {
        bus: _keys_of(wanted)
        for bus in ("usb", "pci", "udev")
        if (wanted := getattr(selector.hardware, bus)) is not None
    }
    if hardware:
        keys["hardware"] = hardware
    if selector.values:
        keys["values"] = {name: _one_or_list(globs) for name, globs in selector.values.items()}
    return yaml_mapping(keys)


def _keys_of(candidates: Candidates) -> dict[str, object]:
    keys: dict[str, object] = {}
    for field in candidates.__dataclass_fields__:
        value = getattr(candidates, field)
        if not value:
            continue
        name = "class" if field == "device_class" else _HUMP.sub(lambda x: x[1].upper(), field)
        if isinstance(value, (str, tuple)):
            keys[name] = value if isinstance(value, str) else _one_or_list(value)
        else:
            keys[name] = {key: _one_or_list(globs) for key, globs in value.items()}
    return keys


def _one_or_list(globs: Globs) -> object:
    return globs[0] if len(globs) == 1 else list(globs)


def any_of(texts: Iterable[str]) -> str:
    """Join alternatives."""
    return " or ".join(map(shown, texts))


def source(condition: Condition) -> str:
    """Return where the value was read."""
    if condition.key.removeprefix("hardware.").startswith("udev.properties."):
        return f"the properties that udev and the kernel tell of {condition.where}"
    return file_of(condition.key, condition.where) or condition.where


def complaint(condition: Condition, host: Host) -> str:
    """Return a failed condition in words: ``wants usb.vendor 0403, found 1a86``."""
    key = condition.key
    bus = key.removeprefix("hardware.")
    unknown = why_unknown(condition, host)
    if unknown and (bus in KINDS or bus.startswith(OF_UEVENT)):
        return f"wants {key}, but {unknown}"
    if key == "hardware":
        return "wants hardware, but sysfs knows nothing of it"
    if key == "path":
        return f"looks at {any_of(condition.wanted)}, which does not name it"
    if bus in NOUNS:
        return "".join(_about_kind(condition, bus))
    wants = f"wants {key} {any_of(condition.wanted)}"
    if unknown or condition.why:
        return f"{wants}, but {printable(unknown or condition.why)}"
    if condition.found is not None:
        cased = glob.matches_any(condition.wanted, condition.found, ignore_case=True)
        but = " (upper and lower case count here)" if cased else ""
        return f"{wants}, found {shown(condition.found) or 'an empty text'}{but}"
    return f"{wants}, but it has none"


def _about_kind(condition: Condition, bus: str) -> Iterator[str]:
    noun = NOUNS[bus]
    if condition.key != bus:
        yield f"wants {condition.key}, but it is no {noun} and does not sit on one"
    elif condition.found is None:
        yield f"takes {noun}s, but sysfs knows nothing of it"
    else:
        yield f"takes {noun}s, but it is {condition.found}"
