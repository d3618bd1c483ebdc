"""Selectors of sysfs devices, written as the config has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genericdp.devices.hardware import KINDS
from genericdp.model import Globs, SysSelector


def udev_selector(
    properties: Mapping[str, Globs] | None = None,
    attributes: Mapping[str, Globs] | None = None,
    **keys: Globs,
) -> SysSelector:
    """Select any devices of sysfs."""
    return SysSelector(
        kind="udev", keys=_set(keys), properties=properties or {}, attributes=attributes or {}
    )


def usb_selector(**keys: Globs) -> SysSelector:
    """Select USB devices; the key ``class`` is ``class_`` here."""
    return SysSelector(kind="usb", keys=_set(keys))


def pci_selector(**keys: Globs) -> SysSelector:
    """Select PCI functions."""
    return SysSelector(kind="pci", keys=_set(keys))


def hardware(**selectors: SysSelector) -> tuple[SysSelector, ...]:
    """Return the selectors of a candidate or its parents, by kinds."""
    return tuple(selectors[kind] for kind in KINDS if kind in selectors)


def _set(keys: Mapping[str, Any]) -> dict[str, Globs]:
    return {name.rstrip("_"): globs for name, globs in keys.items() if globs}
