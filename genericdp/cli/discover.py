"""``genericdp discover``: the devices that the daemon would offer on this machine, and why it
offers no others.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any

from genericdp.cli.apply import discover_with_misses, load_resources
from genericdp.cli.hardware import execute as show_hardware
from genericdp.cli.output import WITH_WIDE, print_result, shell_words, table
from genericdp.cli.parser import choice, flag, is_given
from genericdp.cli.patience import run_skipping_hangs
from genericdp.cli.probe import documents, unprobed, who_probes
from genericdp.cli.root import node_name_of, root_of, root_option
from genericdp.devices.inventory import Inventory
from genericdp.errors import UsageError
from genericdp.explain.describe import claim_lines
from genericdp.explain.find import names_in_other_case, names_like
from genericdp.explain.weak_ids import weak_ids
from genericdp.glob import escape, has_wildcard, unescape
from genericdp.printing import printable
from genericdp.reasons import Code
from genericdp.status import view

if TYPE_CHECKING:
    import argparse
    from collections.abc import Container, Iterator, Sequence

    from genericdp.cli.probe import Probed
    from genericdp.devices.devicelist import DeviceList
    from genericdp.explain.weak_ids import WeakIds
    from genericdp.host.cache import HostCache
    from genericdp.host.root import Root
    from genericdp.model import Resource

_MAX_NEAR = 3
_HANGS = "reading it timed out"
_COVERED = (Code.NOT_OFFERED, Code.NOTHING_FOUND)
"""Causes that other sections show."""
EXAMPLE = (
    "  genericdp discover examples/configs/this-machine.yaml\n"
    "  genericdp discover serial.yaml --root snapshot/   # a copy of a node"
)
ARGUMENTS = {
    "--all": flag("the former name of genericdp hardware"),
    "--output": choice(
        "how to print; wide adds path, model, serial number and driver of each device, and"
        " attributes",
        WITH_WIDE,
    ),
}


def execute(arguments: argparse.Namespace) -> int:
    """Scan the machine once and print the result."""
    if arguments.all:
        if is_given(arguments.config):
            raise UsageError("--all shows what the machine has: --config is not used with it")
        return show_hardware(arguments)
    (_, here), node_name = load_resources(arguments, must_apply=False), node_name_of(arguments)
    root = root_of(arguments)
    # A config's commands do not run here: it may be read on a laptop, or in CI.
    probed, found = run_skipping_hangs(root, lambda host: look(here, host, node_name, root))
    claims = _claims(probed) if arguments.output == "wide" else ()
    print_result({"resources": found}, chain(_as_text(found, arguments), claims), arguments.output)
    return 1 if any(map(_unread, found)) else 0


def look(
    resources: Sequence[Resource], host: HostCache, node_name: str, root: Root
) -> tuple[list[Probed], list[view.Document]]:
    """Return the devices, and the resources for ``-o json``."""
    lists, nothing = discover_with_misses(resources, host, node_name)
    inventory = Inventory(host, node_name)
    given = {
        key
        for listed in lists.values()
        for entry in listed.devices.values()
        for key in (*entry.device.keys, *(node.key for node in entry.device.nodes))
    }
    weak = list(weak_ids(resources, lists, inventory))
    # This may affect any resource.
    hanging = [
        {"path": printable(path), "code": Code.HANGING, "reason": _HANGS}
        for path in sorted(host.hanging)
    ]

    def with_misses(document: view.Document) -> view.Document:
        name = document["name"]
        missed = dict(nothing.get(name, ()))
        hints = {
            pattern: near or _hint(pattern, inventory, root, given)
            for pattern, near in missed.items()
        }
        targets = {pattern: _dangling_target(pattern, root) for pattern in missed}
        return {
            **document,
            "notOffered": [*document["notOffered"], *hanging],
            "nothingFound": list(missed),
            "nearest": {pattern: hint for pattern, hint in hints.items() if hint},
            "danglingLinks": {pattern: target for pattern, target in targets.items() if target},
            **_mounts(lists[name], host),
            "weakIds": [_weak_ids(ids) for ids in weak if ids.resource == name],
        }

    probed = unprobed(lists, host)
    return probed, [*map(with_misses, documents(lists, probed))]


def _weak_ids(weak: WeakIds) -> dict[str, Any]:
    warning = f"{weak.sentence} ({weak.hint})"
    return {"ids": list(weak.ids), "suggested": weak.template, "warning": warning}


def _unread(resource: view.Document) -> list[view.Document]:
    """Return the entries of ``notOffered`` that did not answer."""
    return [refused for refused in resource["notOffered"] if refused["code"] is Code.HANGING]


_LITERAL = {
    re.compile(r"\{.*\}"): "braces do not list alternatives: write a list of globs",
    re.compile(r"\.\*"): "'.*' is literal in a glob: * matches any characters",
}
"""Patterns that have no meaning in a glob, and what to write instead."""


def _dangling_target(pattern: str, root: Root) -> str:
    """Return the target of a broken link; empty if the path is not such a link."""
    if not pattern.startswith("/") or has_wildcard(pattern):
        return ""
    directory, _, name = unescape(pattern).rpartition("/")
    link = f"{root.walk(directory).at.rstrip('/')}/{name}"
    walk = root.walk(link)
    return root.read_link(link) if walk.error is not None and link in walk.links else ""


def _hint(pattern: str, inventory: Inventory, root: Root, given: Container[str]) -> str:
    """Suggest existing device files, not ``given`` yet, for a glob that matches nothing."""
    if not pattern.startswith("/"):
        return ""
    if other_case := names_in_other_case(pattern, inventory):
        return f"upper and lower case count: there is {other_case}"
    if literal := next((why for sign, why in _LITERAL.items() if sign.search(pattern)), ""):
        return literal
    files = ((path, inventory.file(path)) for path in names_like(pattern, inventory))
    if near := [path for path, file in files if file is not None and file.key not in given]:
        return f"there is {' and '.join(near[:_MAX_NEAR])}"
    directory = ""
    for name in pattern.split("/")[1:-1]:
        directory = f"{directory}/{name}"
        if has_wildcard(directory):
            break
        if isinstance(root.walk(unescape(directory)).error, FileNotFoundError):
            return f"there is no {directory}"
    return ""


def _mounts(listed: DeviceList, host: HostCache) -> dict[str, list[str]]:
    """Return the host paths of mounts that do not exist, and the optional ones that cannot be
    seen.
    """
    mounts = (mount for entry in listed.devices.values() for mount in entry.device.given_mounts)
    given = {mount.host_path: mount.optional for mount in mounts}
    exist = {path: host.exists_on_host(path) for path in given}
    return {
        "missingMounts": [
            path for path in given if exist[path] is False and escape(path) not in host.hanging
        ],
        "unseenMounts": [path for path in given if given[path] and exist[path] is None],
    }


def _as_text(found: Sequence[view.Document], arguments: argparse.Namespace) -> Iterator[str]:
    more = view.HARDWARE_COLUMNS if arguments.output == "wide" else ()
    columns = ("RESOURCE", "ID", "STATE", "NODES", "NUMA", *more)
    devices = [(resource["name"], device) for resource in found for device in resource["devices"]]
    rows = (view.row(name, device, columns, STATE=view.state(device)) for name, device in devices)
    yield from table([columns, *rows])
    yield from who_probes((device for _, device in devices), arguments)
    read = [
        {
            **each,
            "notOffered": [
                device for device in each["notOffered"] if device["code"] is not Code.HANGING
            ],
        }
        for each in found
    ]
    titled = {
        "Matched, but not offered": view.not_offered(read),
        "Not read, so there may be more": sorted(
            {refused["path"] for resource in found for refused in _unread(resource)}
        ),
        "Mounts": [
            f"{resource['name']}: hostPath {path} does not exist; the runtime would create an empty"
            " directory"
            for resource in found
            for path in resource["missingMounts"]
        ]
        + [
            f"{resource['name']}: hostPath {path} is optional, and cannot be seen from here: it is"
            " mounted, whether or not it exists"
            for resource in found
            for path in resource["unseenMounts"]
        ],
        "IDs that can change at boot": [
            f"{resource['name']}: {weak['warning']}"
            for resource in found
            for weak in resource["weakIds"]
        ],
        "Not as expected": view.not_as_expected(found),
        "Without devices": view.without_devices(
            resource for resource in found if resource["emptyCause"] not in {"", *_COVERED}
        ),
        "Nothing found": list(_nothing_found(found, arguments)),
    }
    for title, lines in titled.items():
        if lines:
            yield from ("", f"{title}:", *(f"  {line}" for line in lines))


def _claims(probed: Sequence[Probed]) -> Iterator[str]:
    """Yield how claims see each device that DRA serves."""
    for device in probed:
        for i, (name, text) in enumerate(claim_lines(device.listed.device)):
            if i == 0:
                yield from ("", f"{device.resource} {device.listed.device.id}, as claims see it:")
            yield f"  {name:<10}  {text}"


def _nothing_found(found: Sequence[view.Document], arguments: argparse.Namespace) -> Iterator[str]:
    # Where a resource has devices, other entries need not match.
    empty = [resource for resource in found if not resource["devices"]]
    patterns = [(resource, pattern) for resource in empty for pattern in resource["nothingFound"]]
    # Globs before selectors.
    for resource, pattern in sorted(patterns, key=lambda pair: pair[1][:1] != "/"):
        target, near = resource["danglingLinks"].get(pattern), resource["nearest"].get(pattern)
        hint = f" ({near})" if near else ""
        leads = f" is a link to {target}, which does not exist" if target else hint
        yield f"{resource['name']}: {pattern}{leads}"
    if any(not pattern.startswith("/") for _, pattern in patterns):
        root = root_option(arguments)
        everything = shell_words(["genericdp", "hardware", *root])
        why = " ".join(filter(None, ["genericdp explain FILE DEVICE", shell_words(root)]))
        yield f"({everything} lists what there is, {why} shows why it is not matched)"
