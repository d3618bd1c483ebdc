"""Selectors that match nothing: the device is missing, or the selector has a typo."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from genericdp.devices.conditions import (
    is_candidate_of,
    subsystem_globs,
    unmet,
    unmet_hardware,
)
from genericdp.devices.matching import taken
from genericdp.explain.describe import selector_text, source
from genericdp.glob import matches_any
from genericdp.model import PathSelector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from genericdp.devices.inventory import Inventory
    from genericdp.devices.sysdevice import Host, SysDevice
    from genericdp.model import Resource, Selector


def unmatched(resources: Iterable[Resource], inventory: Inventory) -> Iterator[tuple[str, str]]:
    """Give resource and text of what takes nothing; not the globs that find nothing at all."""
    for resource in resources:
        for selector in resource.match:
            alone = (selector,)
            if _finds_no_file(selector, inventory) or taken(alone, resource, inventory):
                continue
            text = selector_text(selector)
            trouble = next(_troubles(selector, inventory.host), "")
            yield resource.name, f"{text} ({trouble})" if trouble else text
        for entry in resource.inject.devices or ():
            if entry.subsystem and entry.subsystem not in inventory.host.subsystems():
                yield resource.name, f"inject.devices: {{subsystem: {entry.subsystem}}}"


def _finds_no_file(selector: Selector, inventory: Inventory) -> bool:
    paths = selector.candidates
    return isinstance(paths, PathSelector) and not any(map(inventory.found, paths.globs))


def _troubles(selector: Selector, host: Host) -> Iterator[str]:
    """Say which files could not be read that decide about a device."""
    wanted = selector.candidates
    if isinstance(wanted, PathSelector):
        return
    for subsystem in host.subsystems():
        globs = subsystem_globs(wanted)
        if globs and not matches_any(globs, subsystem):
            continue
        for device in host.members(subsystem):
            file = _decisive(selector, device, host)
            if file and (why := host.trouble(file)):
                yield f"{file} cannot be read: {why}"


def _decisive(selector: Selector, device: SysDevice, host: Host) -> str:
    """Give the file that tells that the selector does not take the device."""
    wanted = selector.candidates
    uevent = f"{device.syspath}/uevent"
    if isinstance(wanted, PathSelector) or host.trouble(uevent):
        return uevent
    if not is_candidate_of(wanted, device):
        return ""
    unmet_of_it = unmet(wanted, device, host, sitting=device)
    failed = next(chain(unmet_of_it, unmet_hardware(selector.hardware, device, host)), None)
    return source(failed) if failed is not None and failed.found is None else ""
