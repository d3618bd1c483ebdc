"""What a reload from one config to another would change on a node (``validate --diff``)."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from genericdp.cli.apply import patiently
from genericdp.cli.options import node_name_of, root_of
from genericdp.devices.changes import plan
from genericdp.devices.decide import decide
from genericdp.devices.matching import for_node
from genericdp.printing import print_json, print_lines, print_warning, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from genericdp.config.files import Loaded
    from genericdp.devices.devicelist import DeviceList, ListedDevice
    from genericdp.host.cache import HostCache
    from genericdp.model import Resource

_SHORT = str | int | None
"""Values that are shown where they differ; of others only the key is."""
_WHY_ANEW = "which kubelets ask for only when a plugin registers"


def print_difference(arguments: argparse.Namespace, old: Loaded, new: Loaded) -> None:
    """Print what going from one usable config to another would do on this node."""
    for warning in new.warnings:
        print_warning(str(warning))
    node_name = node_name_of(arguments)
    before, after = (for_node(one.resources, node_name) for one in (old, new))
    difference = {
        "resources": compare(before, after),
        "devices": patiently(
            root_of(arguments),
            lambda host: _compare_devices(before, after, host, node_name),
        ),
    }
    if arguments.output == "json":
        print_json(difference)
    else:
        print_lines(_as_text(**difference))


def compare(old: Sequence[Resource], new: Sequence[Resource]) -> dict[str, Any]:
    """Compare the resources for a node as the daemon does when it goes from ``old`` to ``new``."""
    before, after = ({one.name: one for one in resources} for resources in (old, new))
    changed = plan(after, before).changed
    return {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "changed": [_change(before[name], after[name]) for name in after if name in changed],
        "unchanged": [name for name in after if name in before and name not in changed],
    }


def _change(before: Resource, after: Resource) -> dict[str, Any]:
    different = [
        one.name
        for one in fields(before)
        if one.compare and getattr(before, one.name) != getattr(after, one.name)
    ]
    anew: list[str] = []
    if _registers_anew(before, after):
        # Those that would each be enough; else it takes them all.
        causes = [name for name in different if _registers_anew(before, _with(before, after, name))]
        anew = [key for name in causes or different for key in _keys(before, after, name)]
    return {
        "name": after.name,
        "keys": [
            _key_change(before, after, name, key)
            for name in different
            for key in _keys(before, after, name)
        ],
        "inPlace": not anew,
        "registeredAnewFor": anew,
    }


def _registers_anew(before: Resource, after: Resource) -> bool:
    return bool(plan({"": after}, {"": before}).anew)


def _with(before: Resource, after: Resource, field: str) -> Resource:
    """Return the old resource with one field of the new one."""
    change: dict[str, Any] = {field: getattr(after, field)}
    return replace(before, **change)


def _keys(before: Resource, after: Resource, field: str) -> Iterator[str]:
    """Yield the key of a field, or those below it where it is a mapping of the language."""
    was, now = getattr(before, field), getattr(after, field)
    if field not in {"inject", "hooks"} or not is_dataclass(was):
        yield _camel(field)
        return
    for one in fields(was):
        if getattr(was, one.name) != getattr(now, one.name):
            yield f"{_camel(field)}.{_camel(one.name)}"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _key_change(before: Resource, after: Resource, field: str, key: str) -> dict[str, _SHORT]:
    was, now = getattr(before, field), getattr(after, field)
    if not (isinstance(was, _SHORT) and isinstance(now, _SHORT)):
        was = now = None
    return {"key": key, "before": was, "after": now}


def _compare_devices(
    old: Sequence[Resource], new: Sequence[Resource], host: HostCache, node_name: str
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the devices that would appear, go or change their ID, by resource.

    Resources without such a device are left out.
    """
    # The clock stands still: what goes has just gone.
    was = decide(old, host, node_name=node_name, previous={}, now=0.0).lists
    now = decide(new, host, node_name=node_name, previous=was, now=0.0).lists
    keep_seconds = {one.name: one.forget_after_seconds for one in new}
    changes = {
        name: _device_changes(was.get(name), now.get(name), keep_seconds.get(name, 0))
        for name in dict.fromkeys((*now, *was))
    }
    return {name: one for name, one in changes.items() if any(one.values())}


def _device_changes(
    was: DeviceList | None, now: DeviceList | None, keep_seconds: int
) -> dict[str, list[dict[str, Any]]]:
    gone = {} if now is None else {n: one for n, one in now.devices.items() if _has_gone(one)}
    before = {one.device.key: name for name, one in _present(was).items()}
    after = {one.device.key for one in _present(now).values()}
    found = [(before.get(one.device.key), name, one) for name, one in _present(now).items()]
    return {
        "appear": [
            {"id": name, "path": one.device.path} for former, name, one in found if former is None
        ],
        "go": [
            {
                "id": name,
                "path": one.device.path,
                "reason": gone[name].unhealthy if name in gone else "",
                "unhealthySeconds": keep_seconds if name in gone else 0,
            }
            for name, one in _present(was).items()
            if one.device.key not in after
        ],
        "changeId": [
            {
                "before": former,
                "after": name,
                "path": one.device.path,
                "unhealthySeconds": keep_seconds if former in gone else 0,
            }
            for former, name, one in found
            if former not in {None, name}
        ],
    }


def _present(devices: DeviceList | None) -> Mapping[str, ListedDevice]:
    listed = {} if devices is None else devices.devices
    return {name: one for name, one in listed.items() if not _has_gone(one)}


def _has_gone(one: ListedDevice) -> bool:
    return one.gone_since is not None


def _as_text(resources: dict[str, Any], devices: dict[str, Any]) -> Iterator[str]:
    for name in resources["added"]:
        yield f"+ {name}: begins"
        yield from _device_lines(devices.get(name))
    for changed in resources["changed"]:
        keys = ", ".join(map(_key_text, changed["keys"]))
        how = "changed in place"
        if not changed["inPlace"]:
            how = f"registered anew, for {' and '.join(changed['registeredAnewFor'])}, {_WHY_ANEW}"
        yield f"~ {changed['name']}: {how}: {keys}"
        yield from _device_lines(devices.get(changed["name"]))
    for name in resources["unchanged"]:
        if name in devices:
            yield f"  {name}: unchanged, but not so its devices"
            yield from _device_lines(devices[name])
    for name in resources["removed"]:
        yield f"- {name}: sends an empty list and ends"
        yield from _device_lines(devices.get(name))
    yield ", ".join(f"{len(listed)} {what}" for what, listed in resources.items())


def _key_text(change: dict[str, _SHORT]) -> str:
    before, after = (
        "default" if one is None else printable(str(one))
        for one in (change["before"], change["after"])
    )
    return f"{change['key']} ({before} → {after})" if before != after else str(change["key"])


def _device_lines(changes: dict[str, list[dict[str, Any]]] | None) -> Iterator[str]:
    if changes is None:
        return
    for one in changes["changeId"]:
        seconds = one["unhealthySeconds"]
        stays = f": {one['before']} stays listed as Unhealthy for {seconds} s" if seconds else ""
        yield f"    ~ {one['before']} → {one['after']}  {printable(one['path'])}{stays}"
    for one in changes["appear"]:
        yield f"    + {one['id']}  {printable(one['path'])}"
    for one in changes["go"]:
        seconds, reason = one["unhealthySeconds"], printable(one["reason"])
        why = f": Unhealthy for {seconds} s ({reason})" if seconds else ""
        yield f"    - {one['id']}  {printable(one['path'])}{why}"
