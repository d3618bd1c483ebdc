"""Changes: what plugins have to do for a new config, and what to log about a decision."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from genericdp.devices.devicelist import NOTHING
from genericdp.devices.inventory import natural_key
from genericdp.devices.transitions import State
from genericdp.model import Preference
from genericdp.printing import first_few
from genericdp.reasons import Code, kinds_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from genericdp.devices.decide import Decision, DeviceLists
    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import DeviceList, Entry
    from genericdp.model import Resource
    from genericdp.reasons import Reason

MAX_LINES = 5
"""Maximum lines of one kind for one resource: if more devices change at once, one line names the
first ones.
"""

_DOUBTFUL = "should not be on offer"
"""The text before a warning about a device."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Plugins to stop and to start, by resource name; a name in both is restarted."""

    stop: frozenset[str] = frozenset()
    update: frozenset[str] = frozenset()
    start: frozenset[str] = frozenset()

    @property
    def anew(self) -> frozenset[str]:
        """Plugins that keep running and have to register again."""
        return self.stop & self.start

    @property
    def changed(self) -> frozenset[str]:
        """Plugins that keep running with a changed resource."""
        return self.update | self.anew

    def __str__(self) -> str:
        if self == Plan():
            return "nothing to change"
        added, removed = self.start - self.anew, self.stop - self.anew
        return f"{len(added)} added, {len(removed)} removed, {len(self.changed)} changed"


def plan(wanted: Mapping[str, Resource], running: Mapping[str, Resource]) -> Plan:
    """Compare the wanted plugins with the running ones."""
    both = wanted.keys() & running.keys()
    changed = {name for name in both if wanted[name] != running[name]}
    # A kubelet requests the options once for each registration (REG-7).
    anew = {name for name in changed if _options(wanted[name]) != _options(running[name])}
    return Plan(
        stop=frozenset(running.keys() - wanted.keys() | anew),
        update=frozenset(changed - anew),
        start=frozenset(wanted.keys() - running.keys() | anew),
    )


def without_policy(resources: Mapping[str, Resource]) -> dict[str, Resource]:
    """Return the resource without its policy, as in the config."""
    return {name: replace(resource, policy=None) for name, resource in resources.items()}


def _options(resource: Resource) -> tuple[bool, bool]:
    return "preStart" in resource.hooks, resource.prefer is not Preference.NONE


class Change(NamedTuple):
    """A change that a decision made, as one line of the log."""

    text: str
    resource: str = ""
    device: str = ""
    level: int = logging.INFO
    error: Exception | None = None
    """The error that kept the resource from being decided."""


def changes(before: DeviceLists, decision: Decision) -> Iterator[Change]:
    """Yield how a decision differs from the last lists."""
    for name, now in decision.lists.items():
        was = before.get(name, NOTHING)
        yield from _device_changes(name, was, now, is_first=name not in before)
        yield from _refusals(name, was, now)
        alerts = dict(sorted(now.warnings.items() - was.warnings.items()))
        yield from _each(alerts, name, _DOUBTFUL, _DOUBTFUL, logging.WARNING)
        over = {warning: "" for warning in was.warnings if warning not in now.warnings}
        yield from _each(over, name, "is no longer warned about", "are no longer warned about")
        if now.undecided and not _is_known(now.undecided, was.undecided):
            text = (
                f"{now.undecided}; what was offered stays as it was, and this is a mistake of"
                " genericdp or of its config: please report it"
            )
            error = decision.failures.get(now.template or name)
            yield Change(text, name, level=logging.ERROR, error=error)
        elif was.undecided and not now.undecided:
            yield Change("it can be decided again what is offered", name)
        yield from _losses(name, was, now)
    shared, shared_before = shared_ids(decision.lists), shared_ids(before)
    if fresh := shared - shared_before:
        text = f"ids used by several resources, which kubelets mix up: {_few(fresh)}"
        yield Change(text, level=logging.WARNING)
    if former := shared_before - shared:
        yield Change(f"ids no longer used by several resources: {_few(former)}")


def _device_changes(
    name: str, before: DeviceList, after: DeviceList, *, is_first: bool
) -> Iterator[Change]:
    was, now = before.devices, after.devices
    for device_id, entry in now.items():
        new_id, former = entry.device.renamed_to, was.get(device_id)
        if new_id and (former is None or former.device.renamed_to != new_id):
            yield Change(f"device {device_id} becomes {new_id} once it is free", name, device_id)
    if after.empty and not _is_known(after.empty, before.empty):
        what = "" if after.empty.code is Code.RENAMED else "no devices: "
        yield Change(f"{what}{after.empty}", name)
    came = {name: "" for name in now if name not in was}
    gone = was.keys() - now.keys()
    left = {name: "" for name in was if name in gone and name not in after.forgotten}
    first, recovered, fallen, other = _changed(was, now)
    probed = [name for name in first if name in was]
    changed = len({*came, *gone, *probed, *recovered, *fallen})
    if is_first and first:
        yield Change(f"devices that are probed for the first time: {len(now)}", name)
    elif now and (is_first or changed > 1 or (probed and not now[probed[0]].is_healthy)):
        healthy = sum(entry.is_healthy for entry in now.values())
        yield Change(f"{healthy} of {len(now)} devices healthy", name)
    elif probed:
        yield Change(f"device {probed[0]} is Healthy", name, probed[0])
    if not is_first and (changed == 1 or (came and gone)):
        # For devices that replace others, numbers are meaningless.
        yield from _each(came, name, "is new", "are new")
        yield from _each(left, name, "has left the list", "have left the list")
    yield from _each(recovered, name, "is Healthy again", "are Healthy again")
    yield from _each(other, name, "is now Unhealthy because", "are Unhealthy for another reason")
    routine = {
        device: text
        for device, text in fallen.items()
        if all(reason.code.is_routine for reason in now[device].reasons)
    }
    yield from _each(routine, name, "is Unhealthy", "are Unhealthy")
    others = {device: text for device, text in fallen.items() if device not in routine}
    yield from _each(others, name, "is Unhealthy", "are Unhealthy", logging.WARNING)


def _losses(name: str, before: DeviceList, after: DeviceList) -> Iterator[Change]:
    """Yield which devices are forgotten, and when their number begins or ceases to differ from the
    expected one.
    """
    gone = {known: before.devices[known].text for known in before.devices.keys() & after.forgotten}
    yield from _each(gone, name, "is forgotten", "are forgotten", logging.WARNING)
    reason, known = after.why_unexpected, before.why_unexpected
    if reason is not None and not _is_known(reason, known):
        yield Change(f"{reason}", name, level=logging.WARNING)
    elif known is not None and after.off_by == 0:
        yield Change(f"as many devices as expected are Healthy again ({after.expect})", name)


def _is_known(reason: Reason, before: Reason | None) -> bool:
    """Return whether a reason is already known: a changed wording alone is not news."""
    return before is not None and kinds_of([reason]) == kinds_of([before])


def _changed(
    was: Mapping[str, Entry[Device]], now: Mapping[str, Entry[Device]]
) -> tuple[dict[str, str], ...]:
    """Return which devices wait for first results or have good ones, are Healthy again, are
    Unhealthy, or are Unhealthy for a new reason; each with the reasons in words.
    """
    first: dict[str, str] = {}
    recovered: dict[str, str] = {}
    fallen: dict[str, str] = {}
    other: dict[str, str] = {}
    for device_id, entry in now.items():
        former = was.get(device_id)
        reasons = () if former is None else former.reasons
        # A changed wording alone is not news: a temperature changes each time.
        if kinds_of(entry.reasons) == kinds_of(reasons):
            continue
        was_probed = former is None or former.state is not State.PROBING
        if entry.state is State.PROBING or (entry.is_healthy and not was_probed):
            first[device_id] = entry.text
        elif entry.is_healthy:
            recovered[device_id] = entry.text
        elif not (reasons and was_probed):
            fallen[device_id] = entry.text
        else:
            other[device_id] = entry.text
    return first, recovered, fallen, other


def _refusals(name: str, before: DeviceList, after: DeviceList) -> Iterator[Change]:
    spoiler = after.numa_spoiler
    if spoiler and spoiler != before.numa_spoiler:
        yield Change(f"no device carries its NUMA node, since {spoiler} has none", name, spoiler)
    left_out = _left_out(after)
    if left_out and left_out != _left_out(before):
        text = f"list full: left out are {left_out} of the devices"
        yield Change(text, name, level=logging.WARNING)
    logged = {
        (entry.device.path, kind)
        for entry in before.not_offered
        for kind in kinds_of(entry.reasons)
    }
    # For listed devices, the log already says why they are Unhealthy.
    logged_codes = {
        (key, reason.code)
        for entry in after.devices.values()
        for key in (entry.device.key, *entry.device.keys)
        for reason in entry.reasons
    }
    refused = [
        entry
        for entry in after.not_offered
        if any((entry.device.path, kind) not in logged for kind in kinds_of(entry.reasons))
        and (entry.device.key, entry.code) not in logged_codes
    ]
    if len(refused) > MAX_LINES:
        reasons = {entry.device.path: entry.text for entry in refused}
        yield Change(_together("are not offered", reasons), name)
        return
    for entry in refused:
        yield Change(f"{entry.device.path} is not offered: {entry.text}", name)


def _each(
    reasons: Mapping[str, str], name: str, one_is: str, more_are: str, level: int = logging.INFO
) -> Iterator[Change]:
    """Yield a line for each device that has changed in the same way, with the reason if there is
    one.
    """
    if len(reasons) > MAX_LINES:
        yield Change(_together(f"devices {more_are}", reasons), name, level=level)
        return
    for device_id, reason in reasons.items():
        what = f"{one_is}: {reason}" if reason else one_is
        yield Change(f"device {device_id} {what}", name, device_id, level)


def _together(what: str, reasons: Mapping[str, str]) -> str:
    """Return one line about many devices: the first names, and the first reason if there is one."""
    first, reason = next(iter(reasons.items()))
    why = f" ({first}: {reason})" if reason else ""
    return f"{len(reasons):,} {what}: {first_few([*reasons], MAX_LINES)}{why}"


def _few(ids: Collection[str]) -> str:
    return first_few(sorted(ids, key=natural_key), MAX_LINES)


def _left_out(devices: DeviceList) -> int:
    return sum(entry.code is Code.LIST_FULL for entry in devices.not_offered)


def shared_ids(lists: Mapping[str, DeviceList]) -> frozenset[str]:
    """Return the IDs that several resources use: kubelets up to 1.36 mix them up (LAW-4).

    Resources that DRA serves do not count: kubelets do not list them.
    """
    seen: set[str] = set()
    repeated: set[str] = set()
    for listed in lists.values():
        ids = {name for name, entry in listed.devices.items() if not entry.device.is_served_by_dra}
        repeated |= seen & ids
        seen |= ids
    return frozenset(repeated)
