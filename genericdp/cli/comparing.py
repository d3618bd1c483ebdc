"""What a reload from one config to another would do on a node: pure."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from genericdp.devices.changes import plan
from genericdp.devices.decide import decide
from genericdp.devices.matching import for_node

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.devicelist import DeviceList, ListedDevice
    from genericdp.devices.sysdevice import Host
    from genericdp.model import Resource

_SHORT = str | int | None
"""What is said of a value that is another one now; of the others only which they are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyChange:
    """One key of a resource that says something else."""

    key: str
    """As ``replicas`` or ``inject.env``."""
    before: _SHORT = None
    after: _SHORT = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """A resource that is in both configs and different."""

    name: str
    keys: tuple[KeyChange, ...]
    anew: tuple[str, ...] = ()
    """The keys for which it has to be registered anew; empty: it is changed in place."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What becomes of the resources of a node, each in the order of its config."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[Changed, ...]
    unchanged: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceChange:
    """A device that appears (only ``after``), goes (only ``before``), or has another id."""

    path: str
    before: str = ""
    after: str = ""
    reason: str = ""
    """Why it goes; empty where its resource does."""
    unhealthy_seconds: int = 0
    """How long the former id stays in the list, Unhealthy."""


def compare(old: Sequence[Resource], new: Sequence[Resource], node_name: str) -> Comparison:
    """Compare two configs as the daemon does when it goes from one to the other."""
    before = {one.name: one for one in for_node(old, node_name)}
    after = {one.name: one for one in for_node(new, node_name)}
    changed = plan(after, before).changed
    return Comparison(
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        changed=tuple(_changed(before[name], after[name]) for name in after if name in changed),
        unchanged=tuple(name for name in after if name in before and name not in changed),
    )


def _changed(before: Resource, after: Resource) -> Changed:
    different = [
        one.name
        for one in fields(before)
        if one.compare and getattr(before, one.name) != getattr(after, one.name)
    ]
    anew: tuple[str, ...] = ()
    if _is_begun_anew(before, after):
        # Those that would each be enough; else it takes them all.
        causes = [key for key in different if _is_begun_anew(before, _with(before, after, key))]
        anew = tuple(key for one in causes or different for key in _keys(before, after, one))
    keys = tuple(
        _key_change(before, after, one, key)
        for one in different
        for key in _keys(before, after, one)
    )
    return Changed(name=after.name, keys=keys, anew=anew)


def _is_begun_anew(before: Resource, after: Resource) -> bool:
    return bool(plan({"": after}, {"": before}).anew)


def _with(before: Resource, after: Resource, field: str) -> Resource:
    """Give the old resource with one field of the new one."""
    change: dict[str, Any] = {field: getattr(after, field)}
    return replace(before, **change)


def _keys(before: Resource, after: Resource, field: str) -> Iterator[str]:
    """Give the key of a field, or those below it where it is a mapping of the language."""
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


def _key_change(before: Resource, after: Resource, field: str, key: str) -> KeyChange:
    was, now = getattr(before, field), getattr(after, field)
    if isinstance(was, _SHORT) and isinstance(now, _SHORT):
        return KeyChange(key=key, before=was, after=now)
    return KeyChange(key=key)


def compare_devices(
    old: Sequence[Resource],
    new: Sequence[Resource],
    host: Host,
    node_name: str,
) -> dict[str, tuple[DeviceChange, ...]]:
    """Say which devices of a host would appear, go or change their id, by resource.

    Those whose resource goes, go with it. Resources without such a device are left out.
    """
    before, after = for_node(old, node_name), for_node(new, node_name)
    # The clock stands still: what goes has just gone.
    was = decide(before, host, node_name=node_name, previous={}, now=0.0).lists
    now = decide(after, host, node_name=node_name, previous=was, now=0.0).lists
    kept = {one.name: one.forget_after_seconds for one in after}
    changes = {
        name: tuple(_device_changes(was.get(name), now.get(name), kept.get(name, 0)))
        for name in _in_order(was, now)
    }
    return {name: listed for name, listed in changes.items() if listed}


def _in_order(was: DeviceLists, now: DeviceLists) -> Iterator[str]:
    yield from now
    yield from (name for name in was if name not in now)


def _device_changes(
    was: DeviceList | None, now: DeviceList | None, forget_after_seconds: int
) -> Iterator[DeviceChange]:
    gone = {} if now is None else {n: one for n, one in now.devices.items() if _has_gone(one)}
    before = {one.device.key: name for name, one in _here(was).items()}
    after = {one.device.key for one in _here(now).values()}
    for name, one in _here(now).items():
        former = before.get(one.device.key, "")
        if former != name:
            stays = forget_after_seconds if former in gone else 0
            yield DeviceChange(
                path=one.device.path, before=former, after=name, unhealthy_seconds=stays
            )
    for name, one in _here(was).items():
        if one.device.key not in after:
            yield DeviceChange(
                path=one.device.path,
                before=name,
                reason=gone[name].unhealthy if name in gone else "",
                unhealthy_seconds=forget_after_seconds if name in gone else 0,
            )


def _here(offer: DeviceList | None) -> dict[str, ListedDevice]:
    offered = {} if offer is None else offer.devices
    return {name: one for name, one in offered.items() if not _has_gone(one)}


def _has_gone(one: ListedDevice) -> bool:
    return one.gone_since is not None
