"""A config that is applied to a host once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from genericdp.cli.loading import usable_resources
from genericdp.cli.output import print_warning
from genericdp.cli.patience import run_skipping_hangs
from genericdp.cli.root import node_name_of, root_of
from genericdp.devices.decide import Decision, DeviceLists, decide
from genericdp.devices.inventory import Inventory
from genericdp.devices.matching import for_node, why_none
from genericdp.devices.resourcenames import resulting
from genericdp.errors import GenericdpError, Problem, UsageError
from genericdp.explain.explanation import nothing_found_by
from genericdp.explain.weak_ids import weak_ids
from genericdp.kubelet.servicer import entry_bytes
from genericdp.printing import meant_or_listed, quoted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from genericdp.host.cache import HostCache
    from genericdp.model import Resource

    NothingFound = dict[str, list[tuple[str, str]]]
    """The results of ``nothing_found_by`` for each resource, by its name."""


def load_resources(
    arguments: argparse.Namespace, *, must_apply: bool = True
) -> tuple[tuple[Resource, ...], tuple[Resource, ...]]:
    """Return the resources of the config on the command line: all of them, and those for the node.

    If none is for the node, raises GenericdpError, or only warns without ``must_apply``.
    """
    resources, node_name = usable_resources(arguments), node_name_of(arguments)
    if reason := why_none(resources, node_name):
        if must_apply:
            raise GenericdpError(reason)
        print_warning(reason)
    return resources, for_node(resources, node_name)


def refuse_unknown(resource: str, known: Collection[str]) -> None:
    """Raise UsageError if the config has no such resource."""
    if resource not in known:
        listed = meant_or_listed(resource, known, "it has")
        raise UsageError(f"the config has no resource {quoted(resource)} for this node{listed}")


def unknown_device(device_id: str, ids: Iterable[str], resource: str | None = None) -> UsageError:
    """Return the error for an ID that is not on offer, in one resource if that is given."""
    of = f" of {resource}" if resource else ""
    listed = meant_or_listed(device_id, [*ids], "there are")
    what = f"no device {quoted(device_id)}{of}"
    return UsageError(f"{what} is on offer{listed}; see genericdp discover")


def discover_once(resources: Sequence[Resource], host: HostCache, node_name: str) -> Decision:
    """Decide which devices the resources, all for this node, offer now; print warnings."""
    now = time.monotonic()
    found = decide(
        resources, host, node_name=node_name, previous={}, now=now, entry_bytes=entry_bytes
    )
    for name, listed in found.lists.items():
        for device_id, text in listed.warnings.items():
            print_warning(f"{name}: device {device_id}: {text}")
    return found


def discover_with_misses(
    resources: Sequence[Resource], host: HostCache, node_name: str
) -> tuple[DeviceLists, NothingFound]:
    """Decide as ``discover_once`` does, and return the device lists and the selectors that found
    nothing.
    """
    decision, inventory = discover_once(resources, host, node_name), Inventory(host, node_name)
    nothing = {
        resource.name: [
            *nothing_found_by(resource, inventory, failed=resource.name in decision.failures)
        ]
        for resource in resources
    }
    return decision.lists, nothing


def weak_ids_of(
    resources: Sequence[Resource], node_name: str, host: HostCache
) -> tuple[Problem, ...]:
    """Return a warning for each resource whose devices have IDs that can change."""
    here = for_node(resources, node_name)
    lists = decide(here, host, node_name=node_name, previous={}, now=0.0).lists
    places = {resource.name: resource.place for resource in here}
    found = []
    for weak in weak_ids(here, lists, Inventory(host, node_name)):
        place = places[lists[weak.resource].template or weak.resource]
        found.append(
            Problem(
                file=place.file,
                line=place.line,
                column=place.column,
                path="",
                message=f"{weak.resource}: {weak.sentence}",
                hint=weak.hint,
            )
        )
    return tuple(found)


def discovered(
    arguments: argparse.Namespace,
) -> tuple[Mapping[str, Resource], DeviceLists, NothingFound]:
    """Apply the config of the command line to its host once.

    Returns the resources for the node, their device lists, and the selectors that found nothing.
    Raises GenericdpError if no resource is for the node.
    """
    (_, here), node_name = load_resources(arguments), node_name_of(arguments)
    root = root_of(arguments)
    lists, nothing = run_skipping_hangs(
        root, lambda host: discover_with_misses(here, host, node_name)
    )
    return resulting(here, lists), lists, nothing
