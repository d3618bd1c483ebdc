"""``genericdp discover``: what the daemon would offer on this machine, and why not more."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from genericdp.cli.applying import (
    discover_once,
    nothing_found_by,
    usable_resources,
    warn_if_none,
)
from genericdp.cli.catalogue import as_json, as_text
from genericdp.cli.environment import is_given
from genericdp.cli.missing import dangling_target, missing_mounts
from genericdp.cli.options import (
    add_config,
    add_host,
    add_output,
    node_name_of,
    root_of,
    root_words,
)
from genericdp.cli.patience import patiently
from genericdp.cli.probing import NOT_ASKED, State, probe_once, subjects_of, unprobed
from genericdp.cli.tables import table
from genericdp.devices.inventory import Inventory
from genericdp.devices.matching import for_node
from genericdp.errors import UsageError
from genericdp.explain.catalog import catalogue
from genericdp.glob import has_wildcard, unescape
from genericdp.printing import print_json, print_lines, printable, shell_words

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from genericdp.cli.probing import Probed
    from genericdp.devices.decide import Decision
    from genericdp.devices.devicelist import ListedDevice
    from genericdp.host.cache import HostCache
    from genericdp.host.root import Root
    from genericdp.model import Resource

SUMMARY = "show which devices a config offers on this machine, and why others are not offered"
EXAMPLE = (
    "  genericdp discover --config examples/configs/this-machine.yaml\n"
    "  genericdp discover --config serial.yaml --root snapshot/   # a copy of a node\n"
    "  genericdp discover --all        # what this machine has, with selectors to copy"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_config(parser, required=False)
    parser.add_argument(
        "--all",
        action="store_true",
        help="show all that a config could name, with a selector for each; needs no --config",
    )
    parser.add_argument(
        "--probe",
        action="store_true",
        help="run the health probes of the config once, commands too, and show what they say",
    )
    add_host(parser)
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Look once and print it."""
    if arguments.all:
        if is_given(arguments.config):
            raise UsageError("--all shows what the machine has: --config is not used with it")
        _print_all(arguments)
        return 0
    if not arguments.config:
        raise UsageError(
            "--config is required, or --all for what this machine has"
            " (see genericdp discover --help)"
        )
    resources, node_name = usable_resources(arguments), node_name_of(arguments)
    warn_if_none(resources, node_name)
    root, here = root_of(arguments), for_node(resources, node_name)
    report = patiently(root, lambda host: _report(here, host, node_name, root))
    subjects = subjects_of(report.discovery.lists)
    # A config's commands do not run unasked: it may be read on a laptop, or in CI.
    probed = probe_once(subjects, root) if arguments.probe else [unprobed(one) for one in subjects]
    if arguments.output == "json":
        print_json(_as_json(report, probed))
    else:
        to_probe = () if arguments.probe else _to_probe(arguments)
        print_lines(_as_text(report, probed, to_probe, root_words(arguments)))
    return 0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Report:
    discovery: Decision
    nothing_found: tuple[tuple[str, str], ...]
    """Resource and glob, or selector in words, of what finds nothing."""
    dangling: Mapping[str, str] = field(default_factory=dict)
    """Where those of the globs lead that are links to nothing."""
    missing_mounts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By resource, what would be mounted and is not there."""


def _report(resources: Sequence[Resource], host: HostCache, node_name: str, root: Root) -> _Report:
    discovery = discover_once(resources, host, node_name)
    nothing_found = nothing_found_by(resources, discovery, Inventory(host, node_name))
    literal = {one: unescape(one) for _, one in nothing_found if _is_literal_path(one)}
    targets = {one: dangling_target(path, root) for one, path in literal.items()}
    return _Report(
        discovery=discovery,
        nothing_found=nothing_found,
        dangling={one: target for one, target in targets.items() if target},
        missing_mounts={
            name: missing
            for name, offer in discovery.lists.items()
            if (missing := tuple(missing_mounts(offer, host, root)))
        },
    )


def _is_literal_path(text: str) -> bool:
    return text.startswith("/") and not has_wildcard(text)


def _print_all(arguments: argparse.Namespace) -> None:
    groups = patiently(root_of(arguments), lambda host: catalogue(Inventory(host)))
    if arguments.output == "json":
        print_json(as_json(groups))
    else:
        print_lines(as_text(groups))


def _to_probe(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Give the command line that tells what this one does not."""
    words = ["genericdp", "probe"]
    for path in arguments.config:
        words += ["--config", str(path)]
    if arguments.policy:
        words += ["--policy", str(arguments.policy)]
    words += root_words(arguments)
    if arguments.node_name:
        words += ["--node-name", arguments.node_name]
    return tuple(words)


def _as_text(
    report: _Report, probed: Sequence[Probed], to_probe: Sequence[str], root: Sequence[str]
) -> Iterator[str]:
    yield from table(_rows(probed))
    if to_probe and any(one.state is State.UNPROBED for one in probed):
        yield from ("", f"not probed: {shell_words(to_probe)} runs the probes")
    offers = report.discovery.lists.values()
    left_out = [
        f"  {one.resource}: {one.path}: {one.reason}"
        for offer in offers
        for one in offer.not_offered
    ]
    mounts = [
        f"  {name}: hostPath {printable(path)} does not exist; {_CREATED}"
        for name, paths in report.missing_mounts.items()
        for path in paths
    ]
    nothing = [
        f"  {name}: {pattern}{_leads(report.dangling.get(pattern))}"
        for name, pattern in report.nothing_found
    ]
    if any(not pattern.startswith("/") for _, pattern in report.nothing_found):
        everything = shell_words(["genericdp", "discover", "--all", *root])
        why = " ".join(filter(None, ["genericdp explain DEVICE", shell_words(root)]))
        nothing.append(f"  ({everything} tells what there is, {why} why it is not taken)")
    titled = {"Matched, but not offered": left_out, "Mounts": mounts, "Nothing found": nothing}
    for title, lines in titled.items():
        if lines:
            yield from ("", f"{title}:", *lines)


def _rows(probed: Sequence[Probed]) -> Iterator[tuple[str, ...]]:
    yield ("RESOURCE", "ID", "STATE", "NODES", "NUMA")
    for known in probed:
        one = known.subject.one
        replicas = one.device.replicas
        shares = f" ({replicas} shares)" if replicas > 1 else ""
        numa = ",".join(map(str, one.device.numa_nodes))
        nodes = " ".join(_nodes(one))
        yield known.subject.resource, f"{one.device.id}{shares}", _state(known), nodes, numa


def _leads(target: str | None) -> str:
    return f" is a link to {printable(target)}, which does not exist" if target else ""


_CREATED = "the runtime would create an empty folder"


def _state(known: Probed) -> str:
    if known.state is State.HEALTHY or known.reason == NOT_ASKED:
        return _STATES[known.state]
    return f"{_STATES[known.state]}: {printable(known.reason)}"


_STATES = {
    State.HEALTHY: "Healthy",
    State.UNHEALTHY: "Unhealthy",
    State.UNPROBED: "not probed",
}


def _nodes(one: ListedDevice) -> list[str]:
    return list(dict.fromkeys(node.host_path for node in one.device.nodes))


def _as_json(report: _Report, probed: Sequence[Probed]) -> dict[str, object]:
    known = {(one.subject.resource, one.subject.one.device.id): one for one in probed}
    return {
        "resources": {
            name: {
                "devices": [
                    {
                        "id": device_id,
                        "path": one.device.path,
                        "state": known[name, device_id].state,
                        "reason": known[name, device_id].reason,
                        "shares": list(one.device.shares),
                        "nodes": _nodes(one),
                        "numaNodes": list(one.device.numa_nodes),
                    }
                    for device_id, one in offer.devices.items()
                ],
                "notOffered": [
                    {"path": one.path, "reason": one.reason} for one in offer.not_offered
                ],
                "nothingFound": [
                    pattern for resource, pattern in report.nothing_found if resource == name
                ],
                "danglingLinks": {
                    pattern: report.dangling[pattern]
                    for resource, pattern in report.nothing_found
                    if resource == name and pattern in report.dangling
                },
                "missingMounts": list(report.missing_mounts.get(name, ())),
            }
            for name, offer in report.discovery.lists.items()
        }
    }
