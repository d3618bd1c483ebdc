"""``genericdp explain``: why a device is offered, or why not, in words."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from genericdp.cli.apply import discover_once, load_resources
from genericdp.cli.output import print_result
from genericdp.cli.parser import argument
from genericdp.cli.patience import run_skipping_hangs
from genericdp.cli.probe import Probed, who_probes
from genericdp.cli.root import node_name_of, root_of
from genericdp.devices.hardware import KINDS, file_of
from genericdp.devices.inventory import Inventory
from genericdp.devices.matching import for_node
from genericdp.devices.selectors import any_of, selector_text, shown
from genericdp.errors import UsageError
from genericdp.explain.describe import claim_lines, entry_of
from genericdp.explain.explanation import VerdictKind, explain
from genericdp.explain.find import Asked, Unknown, awaited_by, find, refuse_plain
from genericdp.printing import plural, printable, quoted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from genericdp.devices.decide import DeviceLists
    from genericdp.devices.devicelist import DeviceList
    from genericdp.devices.selectors import Condition
    from genericdp.explain.describe import Entry
    from genericdp.explain.explanation import Explanation, Try, Verdict
    from genericdp.host.cache import HostCache
    from genericdp.model import Resource
    from genericdp.status import view

    Answer = tuple[Explanation, Entry] | Unknown

_MAX_IDS = 8
_MAX_UNRELATED = 3
"""How many resources that do not match the device are shown, the closest ones first."""
_NAMES_ANOTHER_DEVICE = {
    VerdictKind.CHILD_OFFERED,
    VerdictKind.PARENT_OFFERED,
    VerdictKind.GIVEN_WITH,
}
"""Outcomes whose reason is the name of another device."""
_EXPLAINS_EMPTY = {VerdictKind.EXCLUDED, VerdictKind.REFUSED, VerdictKind.UNDECIDED}
"""Outcomes that explain why a resource has no devices."""
EXAMPLE = (
    "  genericdp explain examples/configs/this-machine.yaml /dev/fuse\n"
    "  genericdp explain serial.yaml --root snapshot/ 1-1.4   # a USB port"
)
ARGUMENTS = {
    "DEVICE": argument(
        "a device file, a link to one, a directory of /sys, a PCI address (03:00.0), a USB port"
        " (1-1.4), VENDOR:PRODUCT (0403:6001), a network interface, the kernel's name of a device,"
        " the id of one on offer, or a resource",
    ),
}


def execute(arguments: argparse.Namespace) -> int:
    """Print what happens to the device; return 1 if it is missing or not a device."""
    node_name, asked = node_name_of(arguments), arguments.device
    if not asked:
        raise UsageError("DEVICE is an empty string: name a device, as /dev/ttyUSB0 or 1-1.4")
    if asked.endswith((".yaml", ".yml")):
        raise UsageError(f"{quoted(asked)} is a config: it comes before DEVICE")
    resources, _ = load_resources(arguments, must_apply=False)
    root = root_of(arguments)
    said = run_skipping_hangs(root, lambda host: answer(asked, resources, host, node_name))
    if isinstance(said, tuple):
        document = _document(*said)
        offered = (verdict["device"] for verdict in document["resources"] if verdict["device"])
        lines = chain(_as_text(*said), who_probes(offered, arguments))
        print_result(document, lines, arguments.output)
        return 0
    print_result(_unknown_document(said), _unknown_as_text(said), arguments.output)
    return 1


def answer(asked: str, resources: Sequence[Resource], host: HostCache, node_name: str) -> Answer:
    """Find the device, decide what all resources offer, and explain the result for the device."""
    here, inventory = for_node(resources, node_name), Inventory(host, node_name)
    lists = discover_once(here, host, node_name).lists
    if asked in lists:
        return _resource(asked, lists[asked])
    found = find(asked, inventory)
    if not isinstance(found, Asked):
        unknown = replace(found, tried=(*found.tried, *awaited_by(asked, here)))
        found = _by_id(asked, lists, inventory) or unknown
    if isinstance(found, Asked):
        found = refuse_plain(found, resources, inventory)
    if not isinstance(found, Asked):
        return found
    return explain(found, resources, lists, inventory), entry_of(found.candidate, inventory)


def _resource(name: str, listed: DeviceList) -> Unknown:
    """Return what a resource offers, for who names one in place of a device."""
    ids = [*listed.devices]
    why, _ = listed.why_empty
    has = f"it has {plural(len(ids), 'device')}" if ids else f"it has no devices: {why}"
    more = "name one of them" if ids else "see genericdp discover FILE"
    return Unknown(
        text=name, tried=(), reason=f"{has} ({more})", near=(*ids[:_MAX_IDS],), is_resource=True
    )


def _by_id(asked: str, lists: DeviceLists, inventory: Inventory) -> Asked | None:
    """Find the device that has this ID, or a share with this ID."""
    for offer in lists.values():
        for entry in offer.devices.values():
            if entry.device.has_share(asked):
                found = find(entry.device.identity.syspath or entry.device.path, inventory)
                return replace(found, text=asked) if isinstance(found, Asked) else None
    return None


def _as_text(explanation: Explanation, entry: Entry) -> Iterator[str]:
    yield explanation.headline
    yield ""
    yield f"{explanation.asked.shown} is {entry.what}"
    yield from (f"  {name:<10}  {text}" for name, text in entry.lines())
    shown_verdicts = _closest(explanation.verdicts)
    for verdict in shown_verdicts:
        yield ""
        place = verdict.resource.place
        device_id = verdict.device_id and f" ({verdict.device_id})"
        is_said = (
            verdict.outcome not in _NAMES_ANOTHER_DEVICE and verdict.reason in explanation.headline
        )
        reason = "" if is_said else verdict.reason
        said = ": ".join(filter(None, (f"{verdict.outcome}{device_id}", reason)))
        yield f"{verdict.resource.name} ({place.file}:{place.line}): {said}"
        for attempt in verdict.tries:
            yield from _tried(attempt)
        if verdict.offered is not None:
            lines = claim_lines(verdict.offered.device)
            yield from (f"  {name:<10}  {text}" for name, text in lines)
        if verdict.closest is not None and verdict.closest.about:
            yield f"  {verdict.closest.about}, a child of it:"
            yield from _tried(verdict.closest)
        if verdict.empty[0] and verdict.outcome not in _EXPLAINS_EMPTY:
            yield f"  it has no devices: {verdict.empty[0]}"
        if verdict.hint:
            yield f"  hint: {verdict.hint}"
    if left_out := len(explanation.verdicts) - len(shown_verdicts):
        yield ""
        others = plural(left_out, "other resource")
        yield f"{others} not shown: these come closer (all: -o json)"


def _closest(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the resources that are related to the device, and the closest three of the others.

    If some are related to it, a resource that only matches a neighbor in its directory is not
    close.
    """
    not_matched = VerdictKind.NOT_MATCHED
    unrelated = [
        verdict for verdict in verdicts if verdict.outcome is not_matched or verdict.is_elsewhere
    ]
    if len(unrelated) <= _MAX_UNRELATED:
        return list(verdicts)
    close = sorted(unrelated, key=_conditions_held, reverse=True)[:_MAX_UNRELATED]
    if len(unrelated) < len(verdicts):
        close = [verdict for verdict in close if _conditions_held(verdict) > 0]
    hidden = {*map(id, unrelated)} - {*map(id, close)}
    return [verdict for verdict in verdicts if id(verdict) not in hidden]


def _conditions_held(verdict: Verdict) -> int:
    tries = [verdict.closest] if verdict.closest else verdict.tries
    return max((attempt.held for attempt in tries), default=-1)


def _tried(attempt: Try) -> Iterator[str]:
    yield f"  {attempt.entry}  {selector_text(attempt.selector)}"
    failed = attempt.failed
    if failed is None:
        yield f"    matches it as {attempt.path}"
        return
    yield f"    {attempt.words}"
    if failed.where.startswith("/sys/"):
        yield f"    read from {_source(failed)}"


def _document(explanation: Explanation, entry: Entry) -> view.Document:
    return {
        "asked": explanation.asked.shown,
        "exists": True,
        "answer": explanation.headline,
        "candidate": entry.document,
        "resources": list(map(_verdict_document, explanation.verdicts)),
        "tried": [],
        "near": [],
    }


def _verdict_document(verdict: Verdict) -> view.Document:
    name, offered = verdict.resource.name, verdict.offered
    return {
        "name": name,
        "place": str(verdict.resource.place),
        "outcome": str(verdict.outcome),
        "id": verdict.device_id,
        "device": None
        if offered is None
        else Probed(resource=name, listed=offered, labels=verdict.labels).document,
        "reason": verdict.reason,
        "hint": verdict.hint,
        **dict(zip(("empty", "emptyCause"), verdict.empty, strict=True)),
        "match": list(map(_try_document, verdict.tries)),
        "closest": None if verdict.closest is None else _try_document(verdict.closest),
    }


def _try_document(attempt: Try) -> view.Document:
    failed = attempt.failed
    return {
        "entry": attempt.entry,
        "selector": selector_text(attempt.selector),
        "matches": failed is None,
        "path": attempt.about or attempt.path,
        "why": attempt.words,
        "key": "" if failed is None else failed.key,
        "expected": [] if failed is None else list(map(printable, failed.wanted)),
        "found": None if failed is None or failed.found is None else printable(failed.found),
        "readFrom": "" if failed is None else printable(_source(failed)),
    }


def _unknown_as_text(unknown: Unknown) -> Iterator[str]:
    what = "is a resource" if unknown.is_resource else "is not offered"
    yield f"{shown(unknown.text)} {what}: {unknown.reason}"
    yield from (f"  {sentence}" for sentence in unknown.tried)
    if unknown.near:
        yield f"  {'devices' if unknown.is_resource else 'near'}: {any_of(unknown.near)}"


def _unknown_document(unknown: Unknown) -> view.Document:
    return {
        "asked": printable(unknown.text),
        "exists": False,
        "answer": next(_unknown_as_text(unknown)),
        "candidate": None,
        "resources": [],
        "tried": list(unknown.tried),
        "near": list(unknown.near),
    }


def _source(condition: Condition) -> str:
    """Return where the value was read."""
    kind, _, name = condition.key.removeprefix("hardware.").partition(".")
    if name.startswith("properties."):
        return f"the properties that udev and the kernel record of {condition.where}"
    file = file_of(kind, name, condition.where) if kind in KINDS else ""
    return file or condition.where
