"""``genericdp discover``: what the daemon would offer on this machine, and why not more."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from genericdp.cli.apply import applied, discover_with_misses, patiently
from genericdp.cli.hardware import execute as show_hardware
from genericdp.cli.output import WITH_WIDE, print_result, shell_words, table
from genericdp.cli.parser import choice, flag, is_given
from genericdp.cli.probe import NOT_ASKED, DeviceState, unprobed
from genericdp.cli.root import node_name_of, root_of, root_option, suggestion
from genericdp.devices.inventory import Inventory
from genericdp.errors import UsageError
from genericdp.explain.describe import claim_lines, claims_as_json
from genericdp.explain.find import names_like
from genericdp.explain.weak_ids import weak_ids
from genericdp.glob import escape, has_wildcard, unescape
from genericdp.printing import printable
from genericdp.reasons import Code
from genericdp.status import view

if TYPE_CHECKING:
    import argparse
    from collections.abc import Container, Iterator, Mapping, Sequence

    from genericdp.cli.probe import Probed
    from genericdp.devices.devicelist import DeviceList
    from genericdp.devices.inventory import Identity
    from genericdp.explain.weak_ids import WeakIds
    from genericdp.host.cache import HostCache
    from genericdp.host.root import Root
    from genericdp.model import Resource

_MAX_NEAR = 3
_HANGS = "looking at it does not end"
_SHOWN_BELOW = (Code.NOT_OFFERED, Code.NOTHING_FOUND)
"""Causes of which other sections tell as much."""
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
    """Look once and print it."""
    if arguments.all:
        if is_given(arguments.config):
            raise UsageError("--all shows what the machine has: --config is not used with it")
        return show_hardware(arguments)
    (_, here), node_name = applied(arguments, must_apply=False), node_name_of(arguments)
    root = root_of(arguments)
    lists, found, hardware = patiently(root, lambda host: look(here, host, node_name, root))
    # A config's commands do not run here: it may be read on a laptop, or in CI.
    probed = unprobed(lists)
    for one in probed:
        found[one.resource]["devices"].append(
            {**_device(one), **hardware[one.listed.device.identity]}
        )
    claims = _claims(probed) if arguments.output == "wide" else ()
    print_result({"resources": found}, chain(_as_text(found, arguments), claims), arguments.output)
    return 1 if any(map(_not_read, found.values())) else 0


def look(
    resources: Sequence[Resource], host: HostCache, node_name: str, root: Root
) -> tuple[Mapping[str, DeviceList], dict[str, Any], Mapping[Identity, dict[str, str]]]:
    """Return the device lists, what JSON says of each but the devices, and of their hardware."""
    lists, nothing = discover_with_misses(resources, host, node_name)
    inventory = Inventory(host, node_name)
    given = {
        key
        for listed in lists.values()
        for one in listed.devices.values()
        for key in (*one.device.keys, *(node.key for node in one.device.nodes))
    }
    weak_by_name: dict[str, list[WeakIds]] = {}
    for weak in weak_ids(resources, lists, inventory):
        weak_by_name.setdefault(weak.resource, []).append(weak)
    found = {
        name: {
            "devices": [],
            **dict(zip(("empty", "emptyCause"), listed.why_empty, strict=True)),
            "notOffered": [
                *(
                    {"path": one.device.path, "code": one.code, "reason": one.text}
                    for one in listed.not_offered
                ),
                # It may concern any resource.
                *(
                    {"path": printable(one), "code": Code.HANGING, "reason": _HANGS}
                    for one in sorted(host.hanging)
                ),
            ],
            "nothingFound": [pattern for pattern, _ in nothing.get(name, ())],
            "nearest": {
                pattern: hint
                for pattern, near in nothing.get(name, ())
                if (hint := near or _hint(pattern, inventory, root, given))
            },
            "danglingLinks": {
                pattern: target
                for pattern, _ in nothing.get(name, ())
                if (target := _dangling_target(pattern, root))
            },
            **_mounts(listed, host),
            "weakIds": [_weak_ids(weak) for weak in weak_by_name.get(name, ())],
        }
        for name, listed in lists.items()
    }
    devices = [one.device for listed in lists.values() for one in listed.devices.values()]
    hardware = {one.identity: view.hardware_of(one.identity, host)._asdict() for one in devices}
    return lists, found, hardware


def _weak_ids(weak: WeakIds) -> dict[str, Any]:
    warning = f"{weak.sentence} ({weak.hint})"
    return {"ids": list(weak.ids), "suggested": weak.template, "warning": warning}


def _not_read(resource: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return what did not answer, of ``notOffered``."""
    return [one for one in resource["notOffered"] if one["code"] is Code.HANGING]


def _dangling_target(pattern: str, root: Root) -> str:
    """Return what is written in a link that leads nowhere; empty if it is not the path of one."""
    if not pattern.startswith("/") or has_wildcard(pattern):
        return ""
    folder, _, name = unescape(pattern).rpartition("/")
    link = f"{root.walk(folder).at.rstrip('/')}/{name}"
    walk = root.walk(link)
    return root.read_link(link) if walk.error is not None and link in walk.links else ""


def _hint(pattern: str, inventory: Inventory, root: Root, given: Container[str]) -> str:
    """Return what there is, and is not ``given``, in place of what a glob does not find."""
    if not pattern.startswith("/"):
        return ""
    files = ((path, inventory.file(path)) for path in names_like(pattern, inventory))
    if near := [path for path, file in files if file is not None and file.key not in given]:
        return f"there is {' and '.join(near[:_MAX_NEAR])}"
    if "{" in pattern and "}" in pattern:
        return "braces are no alternatives: write a list of globs"
    folder = ""
    for name in pattern.split("/")[1:-1]:
        folder = f"{folder}/{name}"
        if has_wildcard(folder):
            break
        if isinstance(root.walk(unescape(folder)).error, FileNotFoundError):
            return f"there is no {folder}"
    return ""


def _mounts(listed: DeviceList, host: HostCache) -> dict[str, list[str]]:
    """Return which host paths of mounts do not exist, and which optional ones cannot be seen."""
    mounts = (mount for one in listed.devices.values() for mount in one.device.given_mounts)
    given = {mount.host_path: mount.optional for mount in mounts}
    exist = {path: host.exists_on_host(path) for path in given}
    return {
        "missingMounts": [
            path for path in given if exist[path] is False and escape(path) not in host.hanging
        ],
        "unseenMounts": [path for path in given if given[path] and exist[path] is None],
    }


def _device(one: Probed) -> dict[str, Any]:
    device = one.listed.device
    return {
        "id": device.id,
        "path": device.path,
        "state": one.state,
        "reason": one.reason,
        "shares": list(device.shares),
        "nodes": list(dict.fromkeys(node.host_path for node in device.nodes)),
        "numaNodes": list(device.numa_nodes),
        "dra": claims_as_json(device),
    }


def _as_text(found: dict[str, Any], arguments: argparse.Namespace) -> Iterator[str]:
    devices = [(name, one) for name, resource in found.items() for one in resource["devices"]]
    more = ("path", "model", "serial", "driver") if arguments.output == "wide" else ()
    heading = ("RESOURCE", "ID", "STATE", "NODES", "NUMA", *map(str.upper, more))
    rows = ((*_row(name, one), *(one[key] for key in more)) for name, one in devices)
    yield from table([heading, *rows])
    is_unprobed = any(one["state"] is DeviceState.UNPROBED for _, one in devices)
    if is_unprobed and not root_option(arguments):
        command = shell_words(["genericdp", *suggestion("probe", arguments)])
        yield from ("", f"not probed: {command} runs the probes")
    titled = {
        "Matched, but not offered": [
            f"  {name}: {one['path']}: {one['reason']}"
            for name, resource in found.items()
            for one in resource["notOffered"]
            if one not in _not_read(resource)
        ],
        "Not looked at, so there may be more": sorted(
            {f"  {one['path']}" for resource in found.values() for one in _not_read(resource)}
        ),
        "Mounts": [
            f"  {name}: hostPath {path} does not exist; the runtime would create an empty folder"
            for name, resource in found.items()
            for path in resource["missingMounts"]
        ]
        + [
            f"  {name}: hostPath {path} is optional, and cannot be seen from here: it is mounted,"
            " whether or not it exists"
            for name, resource in found.items()
            for path in resource["unseenMounts"]
        ],
        "IDs that can change at boot": [
            f"  {name}: {weak['warning']}"
            for name, resource in found.items()
            for weak in resource["weakIds"]
        ],
        "Without devices": [
            f"  {name}: {resource['empty']}"
            for name, resource in found.items()
            if resource["emptyCause"] not in {"", *_SHOWN_BELOW}
        ],
        "Nothing found": list(_nothing_found(found, arguments)),
    }
    for title, lines in titled.items():
        if lines:
            yield from ("", f"{title}:", *lines)


def _claims(probed: Sequence[Probed]) -> Iterator[str]:
    """Yield what claims see of each device that DRA serves."""
    for one in probed:
        for i, (name, text) in enumerate(claim_lines(one.listed.device)):
            if i == 0:
                yield from ("", f"{one.resource} {one.listed.device.id}, as claims see it:")
            yield f"  {name:<10}  {text}"


def _row(name: str, one: dict[str, Any]) -> tuple[str, ...]:
    count = len(one["shares"])
    state = "not probed" if one["state"] is DeviceState.UNPROBED else one["state"]
    return (
        name,
        f"{one['id']} ({count} shares)" if count > 1 else one["id"],
        f"{state}: {one['reason']}" if one["reason"] not in {"", NOT_ASKED} else state,
        " ".join(one["nodes"]),
        ",".join(map(str, one["numaNodes"])),
    )


def _nothing_found(found: dict[str, Any], arguments: argparse.Namespace) -> Iterator[str]:
    patterns = [
        (name, pattern, resource["danglingLinks"].get(pattern), resource["nearest"].get(pattern))
        for name, resource in found.items()
        for pattern in resource["nothingFound"]
    ]
    # Globs before selectors.
    for name, pattern, target, near in sorted(patterns, key=lambda one: one[1][:1] != "/"):
        hint = f" ({near})" if near else ""
        leads = f" is a link to {target}, which does not exist" if target else hint
        yield f"  {name}: {pattern}{leads}"
    if any(not pattern.startswith("/") for _, pattern, _, _ in patterns):
        root = root_option(arguments)
        everything = shell_words(["genericdp", "hardware", *root])
        why = " ".join(filter(None, ["genericdp explain --config … DEVICE", shell_words(root)]))
        yield f"  ({everything} tells what there is, {why} why it is not taken)"
