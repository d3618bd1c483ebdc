"""Explain why a device is or is not offered: each resource's verdict, and the most relevant one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.devicelist import NOTHING
from genericdp.devices.hardware import (
    KINDS,
    function_of,
    is_hardware,
    is_usb_device,
    lineage,
    why_unread,
)
from genericdp.devices.matching import excluded, for_node
from genericdp.devices.resourcenames import resulting
from genericdp.devices.selectors import (
    Condition,
    any_of,
    complaint,
    conditions_before,
    is_candidate_of,
    path_globs,
    select,
    selector_text,
    shown,
    unmet,
    why_not,
)
from genericdp.explain.describe import buses_of, hardware_ids, what_it_is
from genericdp.explain.find import every
from genericdp.model import PathSelector
from genericdp.printing import printable
from genericdp.scalars import yaml_flow
from genericdp.status import view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import DeviceList, Entry
    from genericdp.devices.inventory import Candidate, FoundFile, Host, Inventory, SysDevice
    from genericdp.devices.selectors import Misses
    from genericdp.explain.find import Asked
    from genericdp.model import Candidates, Resource, Selector

_OTHER_KIND = -1
_MAX_ABOVE = 50
_CHANGED = "it has changed while it was read"


class VerdictKind(StrEnum):
    """The verdicts of a resource on a device, the most relevant first."""

    OFFERED = "offered"
    UNHEALTHY = "unhealthy"
    GIVEN_WITH = "given with another device"
    REFUSED = "matched but not offered"
    EXCLUDED = "excluded"
    CHILD_OFFERED = "a child of it is offered"
    PARENT_FAILS = "its parent is matched but not offered"
    PARENT_OFFERED = "its parent is matched"
    OTHER_NODE = "for other nodes"
    UNDECIDED = "cannot be decided"
    NOT_MATCHED = "not matched"


@dataclass(frozen=True, kw_only=True, slots=True)
class Try:
    """An entry of ``match`` tried on a candidate."""

    entry: str
    """Its place in the resource: ``match[0]``."""
    selector: Selector
    path: str
    """The candidate's path, as the selector finds it."""
    failed: Condition | None = None
    """The first condition that does not hold; None if the selector matches the candidate."""
    words: str = ""
    """The failed condition in words."""
    held: int = 0
    """How many conditions held before; -1 if the selector is about other kinds of things."""
    about: str = ""
    """The path of the candidate if it is a child of the device asked about."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The verdict of a resource on the device."""

    resource: Resource
    outcome: VerdictKind
    device_id: str = ""
    """The device that it is part of, or is injected with."""
    offered: Entry[Device] | None = None
    """That device, if it is the one in question."""
    labels: view.HardwareLabels = view.UNKNOWN
    """The path of that device's hardware."""
    reason: str = ""
    """Why it is Unhealthy, not known to be Healthy, refused, or not for this node; what is
    related; the exclude entry."""
    tries: tuple[Try, ...] = ()
    closest: Try | None = None
    """The failed attempt, of the device or a child, with the most conditions held."""
    hint: str = ""
    has_changed: bool = False
    """Whether it is neither on offer nor refused: it has changed while it was read."""
    empty: tuple[str, str] = ("", "")
    """Why the resource has no devices at all, as ``DeviceList.why_empty``."""

    @property
    def is_elsewhere(self) -> bool:
        """Return whether it is for other nodes, and does not match the device there either."""
        untaken = all(attempt.failed for attempt in self.tries)
        return self.outcome is VerdictKind.OTHER_NODE and untaken


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """The explanation of one device."""

    asked: Asked
    headline: str
    verdicts: tuple[Verdict, ...]


def explain(
    asked: Asked,
    resources: Sequence[Resource],
    lists: Mapping[str, DeviceList],
    inventory: Inventory,
) -> Explanation:
    """Return the verdict of each resource on a device; ``lists`` are the current device lists."""
    here = for_node(resources, inventory.node_name)
    verdicts = []
    for resource in resources:
        if not any(resource is other for other in here):
            verdicts.append(_elsewhere(asked, _Trial(resource, inventory)))
            continue
        named = (
            _verdict(asked, _Trial(with_name, inventory), lists.get(name, NOTHING))
            for name, with_name in resulting([resource], lists).items()
        )
        best = min(named, key=lambda verdict: (_rank(verdict), verdict.has_changed))
        verdicts.append(replace(best, empty=lists.get(resource.name, NOTHING).why_empty))
    return Explanation(asked=asked, headline=_headline(asked, verdicts), verdicts=tuple(verdicts))


def nothing_found_by(
    resource: Resource, inventory: Inventory, *, failed: bool
) -> Iterator[tuple[str, str]]:
    """Yield each glob, or selector as text, of ``match`` and ``inject`` that finds nothing.

    Each selector comes with read errors and the nearest candidate. Entries of ``exclude`` that
    match nothing are not reported, nor globs of a resource that ``failed`` to be decided.
    """
    for pattern in () if failed else sorted({*path_globs(resource.match)}):
        if not inventory.found(pattern) and pattern not in inventory.hanging:
            yield pattern, ""
    for selector in resource.match:
        paths = selector.candidates
        if isinstance(paths, PathSelector) and not any(map(inventory.found, paths.globs)):
            continue
        found = select((selector,), resource, inventory)
        reasons = [why for candidate in found.candidates for why in candidate.entries.values()]
        if "" not in reasons:
            text, trouble = selector_text(selector), next(iter(reasons), "")
            near = _nearest(selector, found.misses[0], resource, inventory)
            yield f"{text} ({trouble})" if trouble else text, near
    injects = (resource.inject, *(selector.inject for selector in resource.match))
    for entry in (device for inject in injects for device in inject.devices or ()):
        if entry.subsystem and entry.subsystem not in inventory.host.subsystems():
            yield f"inject.devices: {{subsystem: {entry.subsystem}}}", ""


def _nearest(selector: Selector, misses: Misses, resource: Resource, inventory: Inventory) -> str:
    """Return the candidate that comes closest to a selector, and the failed condition."""
    found: list[tuple[int, float, str]] = []
    for thing, first in misses.samples.get(misses.nearest(selector), {}).values():
        if (candidate := inventory.candidate(thing)) is not None:
            lacking = [
                complaint(condition) for condition in unmet(selector, thing, resource, inventory)
            ]
            likeness = SequenceMatcher(None, first.found or "", " ".join(first.wanted)).ratio()
            text = f"nearest: {_named(candidate)}: {'; '.join(lacking)}"
            found.append((-len(lacking), likeness, text))
    return max(found, default=(0, 0.0, ""))[2]


@dataclass(frozen=True, slots=True)
class _Trial:
    """Tries the selectors of a resource on candidates."""

    resource: Resource
    inventory: Inventory

    def tries(self, candidate: Candidate) -> tuple[Try, ...]:
        """Try every entry of ``match``."""
        return tuple(
            self._try(f"match[{i}]", selector, candidate)
            for i, selector in enumerate(self.resource.match)
        )

    def _try(self, entry: str, selector: Selector, candidate: Candidate) -> Try:
        seen, failed = self._as_seen(selector.candidates, candidate)
        if seen is not None:
            failed = why_not(selector, seen, self.resource, self.inventory)
            candidate = self.inventory.candidate(seen) or candidate
        tried = Try(entry=entry, selector=selector, path=candidate.file.printable_path)
        if failed is None:
            return tried
        words, held = self._words(failed, candidate, selector), _held(selector, candidate, failed)
        return replace(tried, failed=failed, words=words, held=held)

    def _as_seen(
        self, wanted: Candidates, candidate: Candidate
    ) -> tuple[FoundFile | SysDevice | None, Condition | None]:
        """Return the candidate as a selector finds it, or why it does not."""
        device, where = candidate.device, candidate.file.printable_path
        if isinstance(wanted, PathSelector):
            files = chain.from_iterable(map(self.inventory.found, wanted.globs))
            found = [file for file in files if file.key == candidate.key]
            if found:
                fitting = (file for file in found if file.type in wanted.types)
                return next(fitting, candidate.file), None
            path = where if device is None or candidate.has_node else None
            return None, Condition(key="path", wanted=wanted.globs, found=path, where=where)
        kind, what, unreadable = wanted.kind, None, ""
        if device is not None:
            if is_candidate_of(wanted, device) or kind == "udev":
                return device, None
            what = what_it_is(device)
            unreadable = why_unread(kind, "", device, self.inventory.host)
        return None, Condition(
            key=kind, wanted=("*",), found=what, where=where, unreadable=unreadable
        )

    def _words(self, failed: Condition, candidate: Candidate, selector: Selector) -> str:
        if isinstance(selector.candidates, PathSelector) and failed.key == "path":
            hanging = [path for path in failed.wanted if path in self.inventory.hanging]
            if hanging:
                return f"may match it, but reading {any_of(hanging)} timed out"
            if stolen := self._link_elsewhere(failed.wanted, candidate):
                return f"matches {any_of(failed.wanted)}, but {stolen}"
        return complaint(failed)

    def _link_elsewhere(self, wanted: Iterable[str], candidate: Candidate) -> str:
        """Describe a link that udev wanted for the device and that leads to another one."""
        for link in () if candidate.device is None else candidate.device.links:
            file = self.inventory.file(link)
            named = any(glob.matches(pattern, link) for pattern in wanted)
            if named and file is not None and file.key != candidate.key:
                return (
                    f"{printable(link)} leads to {printable(file.target)}, which claims the same"
                    " name (equal serial numbers? select by usb.port)"
                )
        return ""

    def taken_below(self, candidate: Candidate) -> Candidate | None:
        """Return the parent of the candidate that the resource matches, or None."""
        device, host = candidate.device, self.inventory.host
        if device is None:
            return None
        for ancestor in lineage(device, host):
            below = (
                self.inventory.of_device(ancestor) if ancestor.syspath != device.syspath else None
            )
            if below is not None and any(tried.failed is None for tried in self.tries(below)):
                return below
            if is_hardware(ancestor):
                break  # its hubs and their controller only connect it
        return None

    def above(self, candidate: Candidate) -> tuple[Candidate, ...]:
        """Return those children of the candidate that the resource's selectors read."""
        if candidate.device is None:
            return ()
        directory = f"{candidate.device.syspath}/"
        found: dict[str, Candidate] = {}
        for path in self._looked_at(directory):
            if (path.file.identity.syspath or "").startswith(directory):
                found.setdefault(path.key, path)
            if len(found) >= _MAX_ABOVE:
                break
        return tuple(found.values())

    def _looked_at(self, directory: str) -> Iterator[Candidate]:
        for selector in self.resource.match:
            wanted = selector.candidates
            if isinstance(wanted, PathSelector):
                for file in chain.from_iterable(map(self.inventory.found, wanted.globs)):
                    yield self.inventory.of_file(file)
                continue
            of_kind = self.inventory.host.members
            is_udev = wanted.kind == "udev"
            for device in every(self.inventory) if is_udev else of_kind(wanted.kind):
                if device.syspath.startswith(directory) and is_candidate_of(wanted, device):
                    candidate = self.inventory.of_device(device)
                    if candidate is not None:
                        yield candidate


def _held(selector: Selector, candidate: Candidate, failed: Condition) -> int:
    """Count the conditions that held before one failed."""
    if failed.key in {"path", "udev.subsystem", *KINDS}:
        directory = candidate.path.rpartition("/")[0]
        beside = any(path.rpartition("/")[0] == directory for path in failed.wanted)
        return 0 if failed.key == "path" and beside else _OTHER_KIND
    if candidate.device is None:
        return 0
    return conditions_before(selector, failed.key)


def _elsewhere(asked: Asked, trial: _Trial) -> Verdict:
    resource, node = trial.resource, trial.inventory.node_name
    reason = "an earlier resource of that name is for this node"
    if resource.node_names and not glob.matches_any(resource.node_names, node):
        names = any_of(resource.node_names)
        reason = f"it is for nodes called {names}, this one is {shown(node)}"
    tries = trial.tries(asked.candidate)
    return Verdict(resource=resource, outcome=VerdictKind.OTHER_NODE, reason=reason, tries=tries)


def _verdict(asked: Asked, trial: _Trial, offer: DeviceList) -> Verdict:
    resource, candidate = trial.resource, asked.candidate
    if offer.undecided:
        reason = offer.undecided.text
        return Verdict(resource=resource, outcome=VerdictKind.UNDECIDED, reason=reason)
    tries = trial.tries(candidate)
    verdict = Verdict(resource=resource, outcome=VerdictKind.NOT_MATCHED, tries=tries)
    if all(attempt.failed is not None for attempt in tries):
        return _brought_along(verdict, candidate, offer) or _related(verdict, asked, trial, offer)
    if entry := _exclude_entry(trial, candidate):
        return replace(verdict, outcome=entry[0], reason=entry[1])
    for device_id, listed in offer.devices.items():
        if candidate.key in listed.device.keys:
            return replace(
                verdict,
                outcome=VerdictKind.OFFERED if listed.is_healthy else VerdictKind.UNHEALTHY,
                device_id=device_id,
                offered=listed,
                labels=view.hardware_of(listed.device.identity, trial.inventory.host),
                reason=listed.text or (view.NOT_PROBED if listed.device.probes else ""),
                hint=_also_there(candidate, trial.inventory, listed.device),
            )
    reason = _why_not_offered(candidate, offer)
    return replace(
        verdict, outcome=VerdictKind.REFUSED, reason=reason or _CHANGED, has_changed=not reason
    )


def _exclude_entry(trial: _Trial, candidate: Candidate) -> tuple[VerdictKind, str] | None:
    """Return the entry of ``exclude`` that matches, or may match, the candidate or a parent."""
    out = excluded(trial.resource, trial.inventory)
    if (entry := out.entry(candidate.file)) is None:
        return None
    i, why = entry
    text = f"exclude[{i}] {selector_text(trial.resource.exclude[i])}"
    if why:
        return VerdictKind.REFUSED, f"it may be excluded by {text}: {printable(why)}"
    is_itself = entry in out.entries.get(candidate.file.key, ())
    return VerdictKind.EXCLUDED, text if is_itself else f"{text}, which matches its parent"


def _why_not_offered(candidate: Candidate, offer: DeviceList) -> str:
    about = (
        entry.text
        for entry in offer.not_offered
        if candidate.key in {entry.device.key, *entry.device.keys}
    )
    return next(about, "")


def _brought_along(verdict: Verdict, candidate: Candidate, offer: DeviceList) -> Verdict | None:
    for device_id, listed in offer.devices.items():
        if any(node.key == candidate.key for node in listed.device.nodes):
            reason = printable(listed.device.path)
            outcome = VerdictKind.GIVEN_WITH
            return replace(verdict, outcome=outcome, device_id=device_id, reason=reason)
    return None


def _related(verdict: Verdict, asked: Asked, trial: _Trial, offer: DeviceList) -> Verdict:
    """Judge the children and the parents of the device, too."""
    above = {candidate.key: candidate for candidate in trial.above(asked.candidate)}
    offered = {
        device_id: " and ".join(_named(above[key]) for key in shared_keys)
        for device_id, listed in offer.devices.items()
        if (shared_keys := [key for key in listed.device.keys if key in above])
    }
    if offered:
        texts = [f"{what} as {device_id}" for device_id, what in offered.items()]
        return replace(
            verdict,
            outcome=VerdictKind.CHILD_OFFERED,
            device_id=next(iter(offered)),
            reason=", ".join(texts),
            hint="ask about its child, or match the device itself",
        )
    below = trial.taken_below(asked.candidate)
    if below is not None:
        named = _named(below, with_kind=True)
        if why := _why_not_offered(below, offer):
            reason = f"{named}, its parent, but does not offer that: {why}"
            return replace(verdict, outcome=VerdictKind.PARENT_FAILS, reason=reason)
        device, hint = asked.candidate.device, ""
        if device is not None:
            hint = f"to offer {asked.shown} itself {_match(device, trial.inventory.host)}"
        return replace(verdict, outcome=VerdictKind.PARENT_OFFERED, reason=named, hint=hint)
    of_above = (
        replace(attempt, about=candidate.file.printable_path)
        for candidate in above.values()
        for attempt in trial.tries(candidate)
    )
    failed = [attempt for attempt in (*verdict.tries, *of_above) if attempt.failed is not None]
    # If several are equal, the first: the device itself, and the first entry.
    return replace(verdict, closest=max(failed, key=lambda attempt: attempt.held, default=None))


def _named(candidate: Candidate, *, with_kind: bool = False) -> str:
    """Name something related, so that the user can ask about it next."""
    device = candidate.device
    if device is None or (candidate.has_node and not with_kind):
        return candidate.file.printable_path
    what = "the " + what_it_is(device).partition(" ")[2]
    file = f" ({candidate.file.printable_path})" if candidate.has_node else ""
    return f"{what} {shown(device.name)}{file}"


def _also_there(candidate: Candidate, inventory: Inventory, offered: Device) -> str:
    """Name a device file on an offered USB device that a container does not get (D14)."""
    device, host = candidate.device, inventory.host
    if device is None or not is_usb_device(device):
        return ""
    given = {node.key for node in offered.nodes}
    for other in every(inventory):
        if other.number is None or other.key in given or other.syspath == device.syspath:
            continue
        function = function_of(other, host)
        if function is not None and function.syspath == device.syspath:
            file = shown(other.device_file)
            return f"it comes without {file}, a child of it: for that {_match(other, host)}"
    return ""


def _match(device: SysDevice, host: Host) -> str:
    """Return a selector for the children of hardware, not for the hardware itself (D14)."""
    keys: dict[str, object] = {"udev": {"subsystem": device.subsystem}}
    if hardware := hardware_ids(buses_of(device, host)):
        keys["hardware"] = hardware
    return f"match {yaml_flow(keys)}"


_SENTENCES = {
    VerdictKind.OFFERED: "{device} is offered: it is {reason}",
    VerdictKind.UNHEALTHY: "{device} is Unhealthy as {id} of {name}: {reason}",
    VerdictKind.GIVEN_WITH: "{device} is given with {id} of {name} (inject.devices)",
    VerdictKind.REFUSED: "{device} is not offered: {name} matches it, but {reason}",
    VerdictKind.EXCLUDED: "{device} is not offered: {name} excludes it by {reason}",
    VerdictKind.CHILD_OFFERED: (
        "{device} itself is not offered, but {name} offers its child: {reason}"
    ),
    VerdictKind.PARENT_FAILS: "{device} is not offered: {name} matches {reason}",
    VerdictKind.PARENT_OFFERED: (
        "{device} is not offered: {name} matches {reason}, its parent, not {device}"
    ),
    VerdictKind.NOT_MATCHED: "{device} is not offered: {name} {closest}",
    VerdictKind.OTHER_NODE: "{device} is not offered: {name} is not for this node ({reason})",
    VerdictKind.UNDECIDED: "{device} is not offered: {name} cannot be decided: {reason}",
}


def _headline(asked: Asked, verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return f"{asked.shown} is not offered: the config names no resource"
    best = min(verdicts, key=_rank)
    closest = "matches nothing"
    if best.closest is not None:
        about = best.closest.about and f" (asked of {best.closest.about}, a child of it)"
        closest = f"{best.closest.words}{about}"
    reason = best.reason
    if best.outcome is VerdictKind.OFFERED:  # under several names with ``exclusive: false``
        offers = [
            verdict
            for verdict in verdicts
            if verdict.outcome is best.outcome and not verdict.is_elsewhere
        ]
        names = dict.fromkeys(f"{offer.device_id} of {offer.resource.name}" for offer in offers)
        reason = "; ".join(filter(None, (" and ".join(names), best.reason)))
    return _SENTENCES[best.outcome].format(
        device=asked.shown,
        id=best.device_id,
        name=best.resource.name,
        reason=reason,
        closest=closest,
    )


def _rank(verdict: Verdict) -> tuple[int, int]:
    held = 0 if verdict.closest is None else verdict.closest.held
    order = list(VerdictKind)
    if verdict.is_elsewhere:
        return len(order), 0
    return order.index(verdict.outcome), -held
