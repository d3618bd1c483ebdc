"""Why a device is or is not offered: what each resource decides about it, and the main reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from genericdp import glob
from genericdp.devices.devicelist import NOTHING
from genericdp.devices.hardware import function_of, is_usb_device
from genericdp.devices.matching import excluded, for_node
from genericdp.explain.attempts import Pass, what_it_is
from genericdp.explain.describe import any_of, selector_text, shown, yaml_mapping
from genericdp.explain.entry import buses_of, hardware_ids
from genericdp.explain.find import every
from genericdp.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from genericdp.devices.device import Device
    from genericdp.devices.devicelist import DeviceList
    from genericdp.devices.inventory import Inventory
    from genericdp.devices.matching import Candidate
    from genericdp.devices.sysdevice import Host, SysDevice
    from genericdp.explain.attempts import Try
    from genericdp.explain.find import Asked
    from genericdp.model import Resource


class Outcome(StrEnum):
    """What a resource makes of a device; the first that some resource says is the answer."""

    OFFERED = "offered"
    UNHEALTHY = "unhealthy"
    BROUGHT_ALONG = "given with another device"
    REFUSED = "taken but not offered"
    EXCLUDED = "excluded"
    ABOVE = "what sits on it is offered"
    BELOW_FAILS = "what it sits on is taken but not offered"
    BELOW = "what it sits on is taken"
    OTHER_NODE = "for other nodes"
    UNDECIDED = "cannot be decided"
    NOT_TAKEN = "not taken"


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What one resource makes of the device."""

    resource: Resource
    outcome: Outcome
    device_id: str = ""
    """The device that it is, or is given with."""
    reason: str = ""
    """Why it is Unhealthy, refused, or not for this node; what is related; the exclude entry."""
    tries: tuple[Try, ...] = ()
    closest: Try | None = None
    """Of all that did not take it, or something that sits on it, the one that came closest."""
    hint: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """The answer to: why is this device offered, or not?"""

    asked: Asked
    headline: str
    verdicts: tuple[Verdict, ...]


def explain(
    asked: Asked,
    resources: Sequence[Resource],
    lists: Mapping[str, DeviceList],
    inventory: Inventory,
) -> Explanation:
    """Ask every resource of a config about the device; ``lists`` are those of this moment."""
    here = for_node(resources, inventory.node_name)
    verdicts = []
    for resource in resources:
        one = Pass(resource=resource, inventory=inventory)
        fits = any(resource is fitting for fitting in here)
        verdicts.append(_verdict(asked, one, lists) if fits else _elsewhere(asked, one))
    return Explanation(asked=asked, headline=_headline(asked, verdicts), verdicts=tuple(verdicts))


def _elsewhere(asked: Asked, one: Pass) -> Verdict:
    resource, names = one.resource, one.resource.node_names
    if names and not glob.matches_any(names, one.inventory.node_name):
        reason = (
            f"it is for nodes called {any_of(names)}, this one is {shown(one.inventory.node_name)}"
        )
    else:
        reason = "an earlier resource of that name is for this node"
    tries = one.tries(asked.candidate)
    return Verdict(resource=resource, outcome=Outcome.OTHER_NODE, reason=reason, tries=tries)


def _verdict(asked: Asked, one: Pass, lists: Mapping[str, DeviceList]) -> Verdict:
    resource, candidate = one.resource, asked.candidate
    offer = lists.get(resource.name, NOTHING)
    if offer.failed:
        return Verdict(resource=resource, outcome=Outcome.UNDECIDED, reason=offer.failed, tries=())
    tries = one.tries(candidate)
    verdict = Verdict(resource=resource, outcome=Outcome.NOT_TAKEN, tries=tries)
    if all(attempt.failed is not None for attempt in tries):
        return _brought_along(verdict, candidate, offer) or _related(verdict, asked, one, offer)
    if entry := _exclude_entry(one, candidate):
        return replace(verdict, outcome=entry[0], reason=entry[1])
    for device_id, offered in offer.devices.items():
        if candidate.key in offered.device.keys:
            outcome = Outcome.UNHEALTHY if offered.unhealthy else Outcome.OFFERED
            return replace(
                verdict,
                outcome=outcome,
                device_id=device_id,
                reason=offered.unhealthy,
                hint=_also_there(candidate, one, offered.device),
            )
    reasons = [left.reason for left in offer.not_offered if left.is_about(candidate.key)]
    reason = reasons[0] if reasons else "it has changed while it was looked at"
    return replace(verdict, outcome=Outcome.REFUSED, reason=reason)


def _exclude_entry(one: Pass, candidate: Candidate) -> tuple[Outcome, str] | None:
    """Return the entry of ``exclude`` that takes, or may take, the candidate or what it sits on."""
    resource, file = one.resource, candidate.file
    doubtful = None
    for i, entry in enumerate(resource.exclude):
        alone = replace(resource, match=(), exclude=(entry,))
        out = excluded(alone, one.inventory)
        text = f"exclude[{i}] {selector_text(entry)}"
        if out.is_certain_of(file):
            below = "" if candidate.key in out.keys else ", which takes what it sits on"
            return Outcome.EXCLUDED, f"{text}{below}"
        if doubtful is None and (why := out.doubt(file)):
            doubtful = Outcome.REFUSED, f"it may be excluded by {text}: {printable(why)}"
    return doubtful


def _brought_along(verdict: Verdict, candidate: Candidate, offer: DeviceList) -> Verdict | None:
    for device_id, offered in offer.devices.items():
        for node in offered.device.nodes:
            if node.key == candidate.key:
                reason = printable(offered.device.path)
                return replace(
                    verdict, outcome=Outcome.BROUGHT_ALONG, device_id=device_id, reason=reason
                )
    return None


def _related(verdict: Verdict, asked: Asked, one: Pass, offer: DeviceList) -> Verdict:
    """Look at what sits on the device and what it sits on, where it is not taken itself."""
    above = one.above(asked.candidate)
    keys = {candidate.key: candidate for candidate in above}
    offered = {
        device_id: " and ".join(_named(keys[key]) for key in its)
        for device_id, listed in offer.devices.items()
        if (its := [key for key in listed.device.keys if key in keys])
    }
    if offered:
        texts = [f"{what} as {device_id}" for device_id, what in offered.items()]
        return replace(
            verdict,
            outcome=Outcome.ABOVE,
            device_id=next(iter(offered)),
            reason=", ".join(texts),
            hint="ask about what sits on it, or match the device itself",
        )
    below = one.taken_below(asked.candidate)
    if below is not None and (why := _why_not(below, offer)):
        return replace(
            verdict,
            outcome=Outcome.BELOW_FAILS,
            reason=f"{_named(below, with_kind=True)} that it sits on, but does not offer that:"
            f" {why}",
        )
    if below is not None:
        return replace(
            verdict,
            outcome=Outcome.BELOW,
            reason=_named(below, with_kind=True),
            hint=_hint_for(asked, one),
        )
    of_above = (
        replace(attempt, about=this.file.shown) for this in above for attempt in one.tries(this)
    )
    tries = (*verdict.tries, *of_above)
    failed = [attempt for attempt in tries if attempt.failed is not None]
    # Of equals the first: the device itself, and the first entry.
    closest = max(failed, key=lambda attempt: attempt.held, default=None)
    return replace(verdict, closest=closest)


def _why_not(candidate: Candidate, offer: DeviceList) -> str:
    about = (left.reason for left in offer.not_offered if left.is_about(candidate.key))
    return next(about, "")


def _named(candidate: Candidate, *, with_kind: bool = False) -> str:
    """Name what is related, so that a person can go on asking."""
    device = candidate.device
    if device is None or (candidate.has_node and not with_kind):
        return candidate.file.shown
    what = "the " + what_it_is(device).partition(" ")[2]
    file = f" ({candidate.file.shown})" if candidate.has_node else ""
    return f"{what} {shown(device.name)}{file}"


def _also_there(candidate: Candidate, one: Pass, offered: Device) -> str:
    """Name a device file on an offered USB device that a container does not get (D14)."""
    device, host = candidate.device, one.inventory.host
    if device is None or not is_usb_device(device):
        return ""
    given = {node.key for node in offered.nodes}
    for other in every(one.inventory):
        if other.number is None or other.key in given or other.syspath == device.syspath:
            continue
        function = function_of(other, host)
        if function is not None and function.syspath == device.syspath:
            file = shown(other.device_file)
            return f"it comes without {file}, which sits on it: for that {_match(other, host)}"
    return ""


def _hint_for(asked: Asked, one: Pass) -> str:
    device = asked.candidate.device
    if device is None:
        return ""
    return f"to offer {asked.shown} itself {_match(device, one.inventory.host)}"


def _match(device: SysDevice, host: Host) -> str:
    """Write the selector that takes what sits on hardware, not the hardware (D14)."""
    keys: dict[str, object] = {"udev": {"subsystem": device.subsystem}}
    if hardware := hardware_ids(buses_of(device, host)):
        keys["hardware"] = hardware
    return f"match {{{yaml_mapping(keys)}}}"


_RANK = list(Outcome)


def _headline(asked: Asked, verdicts: Iterable[Verdict]) -> str:
    best: Verdict | None = None
    for verdict in verdicts:
        if best is None or _rank(verdict) < _rank(best):
            best = verdict
    if best is None:
        return f"{asked.shown} is not offered: the config names no resource"
    return _sentence(asked.shown, best)


def _rank(verdict: Verdict) -> tuple[int, int]:
    held = 0 if verdict.closest is None else verdict.closest.held
    if verdict.outcome is Outcome.OTHER_NODE and all(one.failed for one in verdict.tries):
        return len(_RANK), 0  # it would not be offered there either
    return _RANK.index(verdict.outcome), -held


_SENTENCES = {
    Outcome.OFFERED: "{device} is offered: it is {id} of {name}",
    Outcome.UNHEALTHY: "{device} is Unhealthy as {id} of {name}: {reason}",
    Outcome.BROUGHT_ALONG: "{device} is given with {id} of {name} (inject.devices)",
    Outcome.REFUSED: "{device} is not offered: {name} takes it, but {reason}",
    Outcome.EXCLUDED: "{device} is not offered: {name} excludes it by {reason}",
    Outcome.ABOVE: "{device} itself is not offered, but {name} offers what sits on it: {reason}",
    Outcome.BELOW_FAILS: "{device} is not offered: {name} takes {reason}",
    Outcome.BELOW: "{device} is not offered: {name} takes {reason} that it sits on, not {device}",
    Outcome.NOT_TAKEN: "{device} is not offered: {name} {closest}",
    Outcome.OTHER_NODE: "{device} is not offered: {name} is not for this node ({reason})",
}


def _sentence(device: str, best: Verdict) -> str:
    return _SENTENCES[best.outcome].format(
        device=device,
        id=best.device_id,
        name=best.resource.name,
        reason=best.reason,
        closest=_closest(best.closest),
    )


def _closest(closest: Try | None) -> str:
    if closest is None:
        return "matches nothing"
    about = f" (asked of {closest.about}, which sits on it)" if closest.about else ""
    return f"{closest.words}{about}"
