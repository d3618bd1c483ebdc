"""Prints what a reload from one config to another would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.cli.comparing import compare, compare_devices
from genericdp.cli.options import node_name_of, root_of
from genericdp.cli.patience import patiently
from genericdp.printing import print_json, print_lines, print_warning, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from genericdp.cli.comparing import Changed, Comparison, DeviceChange, KeyChange
    from genericdp.config.loaded import Loaded

_WHY_ANEW = "which kubelets ask for only when a plugin registers"
_Devices = dict[str, tuple["DeviceChange", ...]]


def print_difference(arguments: argparse.Namespace, old: Loaded, new: Loaded) -> None:
    """Print what going from one usable config to another would do on this node."""
    for warning in new.warnings:
        print_warning(str(warning))
    node_name = node_name_of(arguments)
    comparison = compare(old.resources, new.resources, node_name)
    devices = patiently(
        root_of(arguments),
        lambda host: compare_devices(old.resources, new.resources, host, node_name),
    )
    if arguments.output == "json":
        print_json(_as_json(comparison, devices))
    else:
        print_lines(_as_text(comparison, devices))


def _as_text(comparison: Comparison, devices: _Devices) -> Iterator[str]:
    for name in comparison.added:
        yield f"+ {name}: begins"
        yield from _lines(devices.get(name, ()))
    for changed in comparison.changed:
        yield f"~ {changed.name}: {_how(changed)}"
        yield from _lines(devices.get(changed.name, ()))
    for name in comparison.unchanged:
        if name in devices:
            yield f"  {name}: unchanged, but not so its devices"
            yield from _lines(devices[name])
    for name in comparison.removed:
        yield f"- {name}: sends an empty list and ends"
        yield from _lines(devices.get(name, ()))
    yield (
        f"{len(comparison.added)} added, {len(comparison.removed)} removed,"
        f" {len(comparison.changed)} changed, {len(comparison.unchanged)} unchanged"
    )


def _how(changed: Changed) -> str:
    keys = ", ".join(map(_key, changed.keys))
    if not changed.anew:
        return f"changed in place: {keys}"
    return f"registered anew, for {' and '.join(changed.anew)}, {_WHY_ANEW}: {keys}"


def _key(change: KeyChange) -> str:
    if change.before is None and change.after is None:
        return change.key
    return f"{change.key} ({_value(change.before)} → {_value(change.after)})"


def _value(value: str | int | None) -> str:
    return "default" if value is None else printable(str(value))


def _lines(devices: Sequence[DeviceChange]) -> Iterator[str]:
    for one in devices:
        path, seconds = printable(one.path), one.unhealthy_seconds
        if not one.before:
            yield f"    + {one.after}  {path}"
        elif one.after:
            stays = f": {one.before} stays listed as Unhealthy for {seconds} s" if seconds else ""
            yield f"    ~ {one.before} → {one.after}  {path}{stays}"
        else:
            why = f": Unhealthy for {seconds} s ({printable(one.reason)})" if seconds else ""
            yield f"    - {one.before}  {path}{why}"


def _as_json(comparison: Comparison, devices: _Devices) -> Mapping[str, object]:
    return {
        "resources": {
            "added": comparison.added,
            "removed": comparison.removed,
            "changed": [
                {
                    "name": one.name,
                    "keys": [
                        {"key": key.key, "before": key.before, "after": key.after}
                        for key in one.keys
                    ],
                    "inPlace": not one.anew,
                    "registeredAnewFor": one.anew,
                }
                for one in comparison.changed
            ],
            "unchanged": comparison.unchanged,
        },
        "devices": {
            name: {
                "appear": [
                    {"id": one.after, "path": one.path} for one in changes if not one.before
                ],
                "go": [
                    {
                        "id": one.before,
                        "path": one.path,
                        "reason": one.reason,
                        "unhealthySeconds": one.unhealthy_seconds,
                    }
                    for one in changes
                    if not one.after
                ],
                "changeId": [
                    {
                        "before": one.before,
                        "after": one.after,
                        "path": one.path,
                        "unhealthySeconds": one.unhealthy_seconds,
                    }
                    for one in changes
                    if one.before and one.after
                ],
            }
            for name, changes in devices.items()
        },
    }
