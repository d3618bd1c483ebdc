"""The conditions of a selector, with what was found and where; both in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.hardware import (
    BUSES,
    FILES,
    lineage,
    nearest,
    source_device,
    text_of,
)
from genericdp.model import PathSelector, UdevSelector, config_key
from genericdp.printing import printable, shortened
from genericdp.scalars import yaml_mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from genericdp.devices.inventory import FoundFile, Host, SysDevice
    from genericdp.model import Globs, Hardware, Selector, SysSelector


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One condition, and what the host says to it."""

    key: str
    """As the config has it: ``usb.vendor``, ``hardware.udev.properties.ID_BUS``."""
    wanted: Globs
    found: str | None
    """None: the device has no such thing."""
    where: str
    """The device that was asked."""
    ignore_case: bool = False
    why: str = ""
    """Of a value: why nothing was found."""
    unknown: bool = False
    """Whether that does not mean that there is nothing."""

    @property
    def holds(self) -> bool:
        """Return whether it does; without globs it asks for nothing."""
        if not self.wanted:
            return True
        return self.found is not None and glob.matches_any(
            self.wanted, self.found, ignore_case=self.ignore_case
        )


_MAX_SHOWN = 81
_MAX_FOUND = 3
NOUNS = {
    "usb": "USB device",
    "pci": "PCI function",
    "net": "network interface",
    "udev": "sysfs device",
}
"""Of what kind a device is; a condition with such a key asks for no more."""
OF_UEVENT = ("udev.devtype", "udev.properties.")
_OF_LINEAGE = {"udev.driver", "net.driver"}


def file_of(key: str, where: str) -> str:
    """Return the file that answers a condition, or an empty text."""
    key = key.removeprefix("hardware.")
    if key.startswith("udev.attributes."):
        return f"{where}/{key.removeprefix('udev.attributes.')}"
    return f"{where}/{FILES[key]}" if key in FILES else ""


def why_unknown(condition: Condition, host: Host) -> str:
    """Return why nobody can know whether a condition holds; empty if it surely does not."""
    return condition.why if condition.unknown else unread(condition.key, condition.where, host)


def unread(key: str, where: str, host: Host) -> str:
    """Return what could not be read of what a condition asks; empty if everything could."""
    for file in _files_of(key, where, host):
        if why := host.why_unreadable(file):
            return f"{file} cannot be read: {why}"
    return host.why_unreadable(where) if "udev.properties." in key else ""


def _files_of(key: str, where: str, host: Host) -> Iterator[str]:
    """Yield the files that tell of a device, or of what it sits on, what a condition asks."""
    bare = key.removeprefix("hardware.")
    if bare in NOUNS or bare.startswith(OF_UEVENT):
        upwards = key != bare and bare in NOUNS
        while where.startswith("/sys/devices/"):
            yield f"{where}/uevent"
            yield f"{where}/subsystem"
            where = where.rpartition("/")[0] if upwards else ""
    elif bare in _OF_LINEAGE:
        device = host.device(where)
        for one in () if device is None else lineage(device, host):
            yield f"{one.syspath}/driver"
            if one.driver:
                break
    elif file := file_of(key, where):
        yield file


def is_candidate_of(selector: SysSelector, device: SysDevice) -> bool:
    """Return whether the selector looks at such devices at all."""
    if isinstance(selector, UdevSelector):
        return not selector.subsystem or glob.matches_any(selector.subsystem, device.subsystem)
    return BUSES[selector.kind](device)


def subsystem_globs(selector: SysSelector) -> Globs:
    """Return the subsystems in which the selector's candidates are; empty: all."""
    return selector.subsystem if isinstance(selector, UdevSelector) else (selector.kind,)


def conditions(
    selector: SysSelector, device: SysDevice, host: Host, *, prefix: str = "", sitting: SysDevice
) -> Iterator[Condition]:
    """Yield the conditions of a selector for one device; ``sitting`` is what sits on it."""
    kind = selector.kind
    for name, globs in _wanted(selector):
        asked = source_device(kind, device, name, host, sitting)
        yield Condition(
            key=f"{prefix}{kind}.{name}",
            wanted=globs,
            found=text_of(kind, asked, name, host),
            where=asked.syspath,
            ignore_case=kind in _HEXADECIMAL and name not in _TEXTS,
        )


_HEXADECIMAL = {"usb", "pci"}
"""Kinds whose ids are hexadecimal numbers, which compare without case."""
_TEXTS = {"serial", "port", "driver"}
"""What is none of them."""


def _wanted(selector: SysSelector) -> Iterator[tuple[str, Globs]]:
    """Yield what a selector asks for, by the keys of the config."""
    for key in selector.__dataclass_fields__:
        value, name = getattr(selector, key), config_key(key)
        if isinstance(value, Mapping):
            yield from ((f"{name}.{one}", globs) for one, globs in value.items())
        elif value:
            yield name, (value,) if isinstance(value, str) else value


def unmet(
    selector: SysSelector, device: SysDevice, host: Host, *, prefix: str = "", sitting: SysDevice
) -> Iterator[Condition]:
    """Yield the conditions that do not hold; none if the selector takes the device."""
    asked = conditions(selector, device, host, prefix=prefix, sitting=sitting)
    return (one for one in asked if not one.holds)


def unmet_hardware(
    hardware: Hardware, device: SysDevice | None, host: Host, where: str = ""
) -> Iterator[Condition]:
    """Yield the conditions on what the device is or sits on that do not hold.

    ``where``: what was asked if sysfs knows nothing of it.
    """
    if device is None:
        if hardware.usb or hardware.pci or hardware.udev:
            yield Condition(key="hardware", wanted=("*",), found=None, where=where)
        return
    for selector, bus in ((hardware.usb, "usb"), (hardware.pci, "pci")):
        if selector is None:
            continue
        below = nearest(device, host, BUSES[bus])
        if below is None:
            yield Condition(key=f"hardware.{bus}", wanted=("*",), found=None, where=device.syspath)
        else:
            yield from unmet(selector, below, host, prefix="hardware.", sitting=device)
    if hardware.udev and (failure := _any_ancestor(hardware.udev, device, host)):
        yield failure


def _any_ancestor(selector: UdevSelector, device: SysDevice, host: Host) -> Condition | None:
    """All conditions must hold for one and the same ancestor; else give the best one's failure.

    Best is one that may take it after all, then the one of which most conditions hold.
    """
    failures: list[tuple[int, Condition]] = []
    for one in lineage(device, host):
        asked = list(conditions(selector, one, host, prefix="hardware.", sitting=device))
        failed = [i for i, condition in enumerate(asked) if not condition.holds]
        if not failed:
            return None
        may_hold = all(why_unknown(asked[i], host) for i in failed)
        failures.append((len(asked) if may_hold else failed[0], asked[failed[0]]))
    return max(failures, key=lambda one: one[0])[1] if failures else None


def shown(text: str) -> str:
    """Return a text of the host on one line, shortened if it is long."""
    return shortened(printable(text), _MAX_SHOWN)


def selector_text(selector: Selector) -> str:
    """Return a selector as it can be written in a config, on one line."""
    wanted = selector.candidates
    keys = {wanted.kind: _as_config(wanted)}
    if isinstance(wanted, PathSelector):
        keys = {"path": _as_config(wanted.globs)}
        if wanted.types != PathSelector(globs=()).types:
            keys["type"] = _as_config(tuple(map(str, wanted.types)))
    beside = {"hardware": _as_config(selector.hardware), "values": _as_config(selector.values)}
    return yaml_mapping(keys | {key: part for key, part in beside.items() if part})


def _as_config(part: object) -> object:
    """Return a part of a selector without what is not set; a list of one is that one."""
    if is_dataclass(part):
        values = {config_key(one.name): getattr(part, one.name) for one in fields(part)}
        return {key: _as_config(value) for key, value in values.items() if value}
    if isinstance(part, Mapping):
        return {key: _as_config(globs) for key, globs in part.items()}
    if isinstance(part, tuple):
        return part[0] if len(part) == 1 else list(part)
    return part


@dataclass(slots=True)
class Misses:
    """What a selector looked at and did not take, by the first condition that does not hold."""

    counts: Counter[str] = field(default_factory=Counter)
    samples: dict[str, dict[str | None, tuple[FoundFile | SysDevice, Condition]]] = field(
        default_factory=dict
    )
    """By key, for each text that was found, of many texts some: the first that has it."""

    def add(self, thing: FoundFile | SysDevice, failed: Condition) -> None:
        """Count a file or device that a condition keeps from being taken."""
        self.counts[failed.key] += 1
        samples = self.samples.setdefault(failed.key, {})
        if len(samples) <= _MAX_FOUND + 1:
            samples.setdefault(failed.found, (thing, failed))

    def nearest(self, selector: Selector) -> str:
        """Return the key of the condition at which those failed that come closest; empty: none."""
        keys = [key for key in self.counts if key != selector.candidates.kind]
        return max(keys, key=lambda key: conditions_before(selector, key), default="")


def conditions_before(selector: Selector, key: str) -> int:
    """Return how many conditions of a selector are asked before one that fails."""
    if key == "type":
        return 0
    wanted, hardware = selector.candidates, selector.hardware
    # A path stands for subsystem and name.
    keys = ["path"] * 2 if isinstance(wanted, PathSelector) else [wanted.kind]
    for part, prefix in (
        (wanted, ""),
        *((one, "hardware.") for one in (hardware.usb, hardware.pci, hardware.udev)),
    ):
        if part is not None and not isinstance(part, PathSelector):
            keys += (f"{prefix}{part.kind}.{name}" for name, _ in _wanted(part))
    return next((i for i, one in enumerate(keys) if one.startswith(key)), len(keys))


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
    if unknown and (bus in NOUNS or bus.startswith(OF_UEVENT)):
        return f"wants {key}, but {unknown}"
    if key == "hardware":
        return "wants hardware, but sysfs knows nothing of it"
    if key == "path" and condition.found is None:
        return "looks for device files, and this device has none"
    if key == "path":
        return f"looks at {any_of(condition.wanted)}, which does not name it"
    if bus in NOUNS:
        return _about_kind(condition, NOUNS[bus])
    wants = f"wants {key} {any_of(condition.wanted)}"
    if unknown or condition.why:
        return f"{wants}, but {printable(unknown or condition.why)}"
    if condition.found is not None:
        cased = glob.matches_any(condition.wanted, condition.found, ignore_case=True)
        but = " (upper and lower case count here)" if cased else ""
        return f"{wants}, found {shown(condition.found) or 'an empty text'}{but}"
    return f"{wants}, but it has none"


def _about_kind(condition: Condition, noun: str) -> str:
    if condition.key not in NOUNS:
        return f"wants {condition.key}, but it is no {noun} and does not sit on one"
    is_what = "sysfs knows nothing of it" if condition.found is None else f"it is {condition.found}"
    return f"takes {noun}s, but {is_what}"
