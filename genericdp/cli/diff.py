"""The changes on a node when one config replaces another (``validate --diff``)."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from genericdp.cli.apply import weak_ids_of
from genericdp.cli.output import print_result, print_warning
from genericdp.cli.patience import run_skipping_hangs
from genericdp.cli.root import node_name_of, root_of
from genericdp.devices.changes import plan
from genericdp.devices.decide import decide
from genericdp.devices.matching import for_node
from genericdp.devices.resourcenames import resulting
from genericdp.kubelet.servicer import entry_bytes
from genericdp.model import Inject, config_key

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from genericdp.config.files import Loaded
    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import DeviceList
    from genericdp.host.cache import HostCache
    from genericdp.model import Resource

_SHORT = str | int | None
"""Keys whose values are shown if they differ; for others only the key is shown."""
_OPTIONS = {"hooks.preStart", "prefer"}
_SERVED_BY = config_key("served_by")
_WHY_ANEW = "which kubelets read only when a plugin registers"
_RENAMED = (
    "With --pod-resources, a device that a pod or claim holds stays listed under the old ID until"
    " none holds it;",
    "the new ID is offered then. Without it, devices are renamed at once, and another pod can get"
    " them: drain the node first.",
)


def print_difference(arguments: argparse.Namespace, old: Loaded, new: Loaded) -> None:
    """Print how replacing one valid config by another would change this node."""
    node_name = node_name_of(arguments)
    before, after = (for_node(config.resources, node_name) for config in (old, new))
    difference, weak = run_skipping_hangs(
        root_of(arguments),
        lambda host: (
            _difference(before, after, host, node_name),
            weak_ids_of(after, node_name, host),
        ),
    )
    warnings = (*new.warnings, *weak)
    for warning in warnings:
        print_warning(str(warning))
    document = {
        **difference,
        "problems": [],
        "warnings": [warning._asdict() for warning in warnings],
    }
    print_result(document, _as_text(**difference), arguments.output)


def compare(old: Sequence[Resource], new: Sequence[Resource]) -> dict[str, Any]:
    """Compare the resources for a node as the daemon does when it reloads, from ``old`` to
    ``new``.
    """
    before, after = (
        {resource.name: resource for resource in resources} for resources in (old, new)
    )
    changed = plan(after, before).changed
    return {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "changed": [_change(before[name], after[name]) for name in after if name in changed],
        "unchanged": [name for name in after if name in before and name not in changed],
    }


def _change(before: Resource, after: Resource) -> dict[str, Any]:
    keys = [_key_change(*difference) for difference in _differences(before, after)]
    moves = before.served_by is not after.served_by
    registers = moves or bool(plan({"": after}, {"": before}).anew)
    anew_for = {_SERVED_BY} if moves else _OPTIONS
    return {
        "name": after.name,
        "keys": keys,
        "inPlace": not registers,
        "registeredAnewFor": [key["key"] for key in keys if key["key"] in anew_for and registers],
    }


def _differences(before: Any, after: Any) -> Iterator[tuple[str, object, object]]:  # noqa: ANN401
    """Yield the keys of the config language that differ, with both values."""
    for field in fields(before):
        was, now = getattr(before, field.name), getattr(after, field.name)
        key = config_key(field.name)
        if not field.compare or was == now:
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
    """Return how the resources differ, and which devices would appear, leave or change their ID.

    Resources without such a device are left out.
    """
    # The clock stands still: a device that leaves has just left.
    decided = partial(decide, host=host, node_name=node_name, now=0.0, entry_bytes=entry_bytes)
    was = decided(old, previous={}).lists
    now = decided(new, previous=was).lists
    # Some devices appear later, once the devices that have their nodes or IDs now are forgotten.
    settled = decided(new, previous={}).lists
    before, after = resulting(old, was), resulting(new, now)
    keep_seconds = {name: resource.forget_after_seconds for name, resource in after.items()}
    return {
        "resources": compare(tuple(before.values()), tuple(after.values())),
        "devices": _Renames(was, now, settled, keep_seconds).changes(),
    }


class _Renames:
    """Names of devices before and after, by hardware."""

    def __init__(
        self,
        was: Mapping[str, DeviceList],
        now: Mapping[str, DeviceList],
        settled: Mapping[str, DeviceList],
        keep_seconds: Mapping[str, int],
    ) -> None:
        self._before, self._after = _present(was), _present(now)
        taken = {place for device in self._after.values() for place in _places(device)}
        for name, device in _present(settled).items():
            if taken.isdisjoint(_places(device)):
                self._after.setdefault(name, device)
        self._gone = {
            (resource, device_id): listed
            for resource, devices in now.items()
            for device_id, listed in devices.devices.items()
            if not listed.is_present
        }
        self._keep_seconds = keep_seconds
        self._resources = tuple(dict.fromkeys((*now, *was)))
        by_place: dict[object, list[_Name]] = {}
        for name, device in self._before.items():
            for place in _places(device):
                by_place.setdefault(place, []).append(name)
        self._former = {
            name: [
                *dict.fromkeys(old for place in _places(device) for old in by_place.get(place, ()))
            ]
            for name, device in self._after.items()
        }
        """The names that the hardware of each device had before."""
        stay = {name for name, former in self._former.items() if name in former}
        # Shared hardware can have several names: a name that stays does not become a different one.
        self._renamed = {
            name: [old for old in former if old not in stay]
            for name, former in self._former.items()
            if name not in stay
        }

    def changes(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """Return the changes of each resource that changes."""
        found = {
            resource: {
                "appear": [*self._appear(resource)],
                "go": [*self._go(resource)],
                "changeId": [*self._change_id(resource)],
            }
            for resource in self._resources
        }
        return {resource: changes for resource, changes in found.items() if any(changes.values())}

    def _appear(self, resource: str) -> Iterator[dict[str, Any]]:
        for name, device in self._after.items():
            if name.resource == resource and not self._is_known(name):
                yield {"id": name.device_id, "path": device.path}

    def _is_known(self, name: _Name) -> bool:
        """Return whether the hardware of a name had this name, or one that it no longer has."""
        return name in self._former[name] or bool(self._renamed[name])

    def _change_id(self, resource: str) -> Iterator[dict[str, Any]]:
        for name, former in self._renamed.items():
            for old in former if name.resource == resource else ():
                yield {
                    "resource": old.resource,
                    "before": old.device_id,
                    "after": name.device_id,
                    "path": self._after[name].path,
                    "unhealthySeconds": self._seconds(old),
                }

    def _go(self, resource: str) -> Iterator[dict[str, Any]]:
        for name, device in self._before.items():
            if name.resource != resource or name in self._former.get(name, ()):
                continue
            become = [new for new, former in self._renamed.items() if name in former]
            if any(new.resource == resource for new in become):
                continue
            listed = self._gone.get(name)
            yield {
                "id": name.device_id,
                "path": device.path,
                "reason": "" if listed is None else listed.text,
                "unhealthySeconds": self._seconds(name),
                "becomes": [{"resource": new.resource, "id": new.device_id} for new in become],
            }

    def _seconds(self, name: _Name) -> int:
        return self._keep_seconds.get(name.resource, 0) if name in self._gone else 0


class _Name(NamedTuple):
    resource: str
    device_id: str


def _present(lists: Mapping[str, DeviceList]) -> dict[_Name, Device]:
    return {
        _Name(resource, device_id): listed.device
        for resource, devices in lists.items()
        for device_id, listed in devices.devices.items()
        if listed.is_present
    }


def _places(device: Device) -> tuple[object, ...]:
    """Return the place of a device's hardware, which is the same in both configs."""
    return (
        tuple((identity.location, identity.part) for identity in device.identities) or device.keys
    )


def _as_text(resources: dict[str, Any], devices: dict[str, Any]) -> Iterator[str]:
    for name in resources["added"]:
        yield f"+ {name}: added"
        yield from _device_lines(name, devices.get(name))
    for changed in resources["changed"]:
        yield _change_text(changed)
        yield from _device_lines(changed["name"], devices.get(changed["name"]))
    for name in resources["unchanged"]:
        if name in devices:
            yield f"  {name}: unchanged, but not so its devices"
            yield from _device_lines(name, devices[name])
    for name in resources["removed"]:
        yield f"- {name}: removed"
        yield from _device_lines(name, devices.get(name))
    if any(changes["changeId"] for changes in devices.values()):
        yield from _RENAMED
    yield ", ".join(f"{len(listed)} {what}" for what, listed in resources.items())


def _change_text(changed: dict[str, Any]) -> str:
    keys = ", ".join(map(_key_text, changed["keys"]))
    how = "changed in place"
    if _SERVED_BY in changed["registeredAnewFor"]:
        how = "served again once no pod has its devices"
    elif not changed["inPlace"]:
        how = f"registered again, for {' and '.join(changed['registeredAnewFor'])}, {_WHY_ANEW}"
    return f"~ {changed['name']}: {how}: {keys}"


def _key_text(change: dict[str, _SHORT]) -> str:
    before, after = (
        "default" if value is None else str(value) for value in (change["before"], change["after"])
    )
    return f"{change['key']} ({before} → {after})" if before != after else str(change["key"])


def _device_lines(name: str, changes: dict[str, list[dict[str, Any]]] | None) -> Iterator[str]:
    if changes is None:
        return
    for renamed in changes["changeId"]:
        seconds, before, is_here = (
            renamed["unhealthySeconds"],
            renamed["before"],
            renamed["resource"] == name,
        )
        former = before if is_here else f"{before} of {renamed['resource']}"
        # If it belongs to a different resource, that resource's line says so.
        stays = (
            f": {before} stays listed as Unhealthy for {seconds} s" if seconds and is_here else ""
        )
        yield f"    ~ {former} → {renamed['after']}  {renamed['path']}{stays}"
    for added in changes["appear"]:
        yield f"    + {added['id']}  {added['path']}"
    for removed in changes["go"]:
        seconds, reason = removed["unhealthySeconds"], removed["reason"]
        becomes = " and ".join(f"{new['id']} of {new['resource']}" for new in removed["becomes"])
        unhealthy = f"Unhealthy for {seconds} s ({reason})" if seconds else ""
        why = "; ".join(filter(None, (becomes and f"becomes {becomes}", unhealthy)))
        yield f"    - {removed['id']}  {removed['path']}{why and f': {why}'}"
