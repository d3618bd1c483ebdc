"""What a reload from one config to another would change on a node (``validate --diff``)."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from genericdp.cli.apply import patiently, weak_ids_of
from genericdp.cli.options import node_name_of, root_of
from genericdp.cli.output import print_result, print_warning
from genericdp.devices.changes import plan
from genericdp.devices.decide import decide
from genericdp.devices.devicelist import NOTHING
from genericdp.devices.matching import for_node
from genericdp.devices.resourcenames import resulting
from genericdp.model import Inject, config_key

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from genericdp.config.files import Loaded
    from genericdp.devices.devicelist import DeviceList, ListedDevice
    from genericdp.host.cache import HostCache
    from genericdp.model import Resource

_SHORT = str | int | None
"""Values that are shown where they differ; of others only the key is."""
_OPTIONS = {"hooks.preStart", "prefer"}
_SERVED_BY = config_key("served_by")
_WHY_ANEW = "which kubelets ask for only when a plugin registers"


def print_difference(arguments: argparse.Namespace, old: Loaded, new: Loaded) -> None:
    """Print what going from one usable config to another would do on this node."""
    for warning in new.warnings:
        print_warning(str(warning))
    node_name = node_name_of(arguments)
    before, after = (for_node(one.resources, node_name) for one in (old, new))
    difference, weak = patiently(
        root_of(arguments),
        lambda host: (
            _difference(before, after, host, node_name),
            weak_ids_of(after, node_name, host),
        ),
    )
    for warning in weak:
        print_warning(str(warning))
    print_result(difference, _as_text(**difference), arguments.output)


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
    keys = [_key_change(*one) for one in _differences(before, after)]
    moves = before.served_by is not after.served_by
    registers = moves or bool(plan({"": after}, {"": before}).anew)
    anew_for = {_SERVED_BY} if moves else _OPTIONS
    return {
        "name": after.name,
        "keys": keys,
        "inPlace": not registers,
        "registeredAnewFor": [one["key"] for one in keys if one["key"] in anew_for and registers],
    }


def _differences(before: Any, after: Any) -> Iterator[tuple[str, object, object]]:  # noqa: ANN401
    """Yield the keys of the config language that differ, with both values."""
    for one in fields(before):
        was, now = getattr(before, one.name), getattr(after, one.name)
        key = config_key(one.name)
        if not one.compare or was == now:
            continue
        if isinstance(was, Inject):
            for inner, old, new in _differences(was, now):
                yield f"{key}.{inner}", old, new
        elif key == "hooks":
            for hook in sorted(was.keys() | now.keys()):
                if was.get(hook) != now.get(hook):
                    yield f"{key}.{hook}", was.get(hook), now.get(hook)
        else:
            yield key, was, now


def _key_change(key: str, was: object, now: object) -> dict[str, _SHORT]:
    if not (isinstance(was, _SHORT) and isinstance(now, _SHORT)):
        was = now = None
    return {"key": key, "before": was, "after": now}


def _difference(
    old: Sequence[Resource], new: Sequence[Resource], host: HostCache, node_name: str
) -> dict[str, Any]:
    """Return how the resources differ, and which devices would appear, go or change their ID.

    Resources without such a device are left out of these.
    """
    # The clock stands still: what goes has just gone.
    was = decide(old, host, node_name=node_name, previous={}, now=0.0).lists
    now = decide(new, host, node_name=node_name, previous=was, now=0.0).lists
    before, after = resulting(old, was), resulting(new, now)
    keep_seconds = {name: one.forget_after_seconds for name, one in after.items()}
    changes = {
        name: _device_changes(
            was.get(name, NOTHING), now.get(name, NOTHING), keep_seconds.get(name, 0)
        )
        for name in dict.fromkeys((*now, *was))
    }
    return {
        "resources": compare(tuple(before.values()), tuple(after.values())),
        "devices": {name: one for name, one in changes.items() if any(one.values())},
    }


def _device_changes(
    was: DeviceList, now: DeviceList, keep_seconds: int
) -> dict[str, list[dict[str, Any]]]:
    gone = {name: one for name, one in now.devices.items() if one.gone_since is not None}
    before, after = _present(was), _present(now)
    former = {one.device.key: name for name, one in before.items()}
    stay = {one.device.key for one in after.values()}
    found: dict[str, list[dict[str, Any]]] = {"appear": [], "go": [], "changeId": []}
    for name, one in after.items():
        path, old = one.device.path, former.get(one.device.key)
        if old is None:
            found["appear"].append({"id": name, "path": path})
        elif old != name:
            seconds = keep_seconds if old in gone else 0
            change = {"before": old, "after": name, "path": path, "unhealthySeconds": seconds}
            found["changeId"].append(change)
    for name, one in before.items():
        if one.device.key not in stay:
            reason, seconds = (gone[name].unhealthy, keep_seconds) if name in gone else ("", 0)
            going = {"id": name, "path": one.device.path, "reason": reason}
            found["go"].append({**going, "unhealthySeconds": seconds})
    return found


def _present(listed: DeviceList) -> dict[str, ListedDevice]:
    return {name: one for name, one in listed.devices.items() if one.gone_since is None}


def _as_text(resources: dict[str, Any], devices: dict[str, Any]) -> Iterator[str]:
    for name in resources["added"]:
        yield f"+ {name}: begins"
        yield from _device_lines(devices.get(name))
    for changed in resources["changed"]:
        keys = ", ".join(map(_key_text, changed["keys"]))
        how = "changed in place"
        if _SERVED_BY in changed["registeredAnewFor"]:
            how = "served anew once nobody has its devices"
        elif not changed["inPlace"]:
            how = f"registered anew, for {' and '.join(changed['registeredAnewFor'])}, {_WHY_ANEW}"
        yield f"~ {changed['name']}: {how}: {keys}"
        yield from _device_lines(devices.get(changed["name"]))
    for name in resources["unchanged"]:
        if name in devices:
            yield f"  {name}: unchanged, but not so its devices"
            yield from _device_lines(devices[name])
    for name in resources["removed"]:
        yield f"- {name}: ends"
        yield from _device_lines(devices.get(name))
    yield ", ".join(f"{len(listed)} {what}" for what, listed in resources.items())


def _key_text(change: dict[str, _SHORT]) -> str:
    before, after = (
        "default" if one is None else str(one) for one in (change["before"], change["after"])
    )
    return f"{change['key']} ({before} → {after})" if before != after else str(change["key"])


def _device_lines(changes: dict[str, list[dict[str, Any]]] | None) -> Iterator[str]:
    if changes is None:
        return
    for one in changes["changeId"]:
        seconds = one["unhealthySeconds"]
        stays = f": {one['before']} stays listed as Unhealthy for {seconds} s" if seconds else ""
        yield f"    ~ {one['before']} → {one['after']}  {one['path']}{stays}"
    for one in changes["appear"]:
        yield f"    + {one['id']}  {one['path']}"
    for one in changes["go"]:
        seconds, reason = one["unhealthySeconds"], one["reason"]
        why = f": Unhealthy for {seconds} s ({reason})" if seconds else ""
        yield f"    - {one['id']}  {one['path']}{why}"
