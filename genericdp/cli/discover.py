"""``genericdp discover``: what the daemon would offer on this machine, and why not more."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

from genericdp.cli.applying import discovered
from genericdp.cli.catalogue import as_json, as_text
from genericdp.cli.options import add_config, add_node_name, add_output, add_root, root_of
from genericdp.cli.patience import patiently
from genericdp.cli.tables import table
from genericdp.devices.inventory import Inventory
from genericdp.devices.suggesting import catalogue

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from genericdp.devices.offers import Offered
    from genericdp.discovery import Discovery

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
    add_root(parser)
    add_node_name(parser)
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Look once and print it."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The host may have any names, and the terminal may not know their characters.
        sys.stdout.reconfigure(errors="backslashreplace")
    if arguments.all:
        _print_all(arguments)
        return 0
    discovery = discovered(arguments)
    if arguments.output == "json":
        print(json.dumps(_as_json(discovery), indent=2))
    else:
        print("\n".join(_as_text(discovery)))
    return 0


def _print_all(arguments: argparse.Namespace) -> None:
    groups = patiently(root_of(arguments), lambda look, facts: catalogue(Inventory(look, facts)))
    if arguments.output == "json":
        print(json.dumps(as_json(groups), indent=2))
    else:
        print("\n".join(as_text(groups)))


def _as_text(discovery: Discovery) -> Iterator[str]:
    rows = [("RESOURCE", "ID", "STATE", "NODES", "NUMA")]
    for name, offer in discovery.offers.items():
        for device_id, one in offer.offered.items():
            replicas = one.device.replicas
            shares = f" ({replicas} shares)" if replicas > 1 else ""
            numa = "" if one.device.numa_node is None else str(one.device.numa_node)
            nodes = " ".join(_nodes(one))
            rows.append((name, f"{device_id}{shares}", _state(one), nodes, numa))
    yield from table(rows)
    left_out = [one for offer in discovery.offers.values() for one in offer.not_offered]
    if left_out:
        yield ""
        yield "Matched, but not offered:"
        yield from (f"  {one.resource}: {one.path}: {one.reason}" for one in left_out)
    if discovery.empty_globs:
        yield ""
        yield "Nothing found:"
        yield from (f"  {resource}: {pattern}" for resource, pattern in discovery.empty_globs)


def _state(one: Offered) -> str:
    return f"Unhealthy: {one.unhealthy}" if one.unhealthy else "Healthy"


def _nodes(one: Offered) -> list[str]:
    return list(dict.fromkeys(node.host_path for node in one.device.nodes))


def _as_json(discovery: Discovery) -> dict[str, object]:
    return {
        "resources": {
            name: {
                "devices": [
                    {
                        "id": device_id,
                        "path": one.device.path,
                        "state": "Unhealthy" if one.unhealthy else "Healthy",
                        "reason": one.unhealthy,
                        "shares": list(one.device.shares),
                        "nodes": _nodes(one),
                        "numaNode": one.device.numa_node,
                    }
                    for device_id, one in offer.offered.items()
                ],
                "notOffered": [
                    {"path": one.path, "reason": one.reason} for one in offer.not_offered
                ],
                "nothingFound": [
                    pattern for resource, pattern in discovery.empty_globs if resource == name
                ],
            }
            for name, offer in discovery.offers.items()
        }
    }
