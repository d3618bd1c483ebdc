"""For commands that apply a config to a host once: load it, look, decide."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from genericdp.cli.loading import load_in_time, read_stdin
from genericdp.cli.options import configs_of, node_name_of, root_of
from genericdp.cli.patience import patiently
from genericdp.devices.decide import Decision, decide
from genericdp.devices.inventory import Inventory
from genericdp.devices.matching import for_node, path_globs, why_none
from genericdp.errors import ConfigError, GenericdpError
from genericdp.explain.explanation import unmatched
from genericdp.printing import print_warning

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from genericdp.host.cache import HostCache
    from genericdp.model import Resource


def usable_resources(
    arguments: argparse.Namespace, stdin: bytes | None = None, *, silent: bool = False
) -> tuple[Resource, ...]:
    """Load a config; raises ConfigError with its problems, and prints warnings unless silent."""
    paths = configs_of(arguments)
    loaded = load_in_time(
        paths, read_stdin(paths) if stdin is None else stdin, policy=arguments.policy
    )
    if loaded.problems:
        raise ConfigError(loaded.problems)
    for warning in () if silent else loaded.warnings:
        print_warning(str(warning))
    return loaded.resources


def warn_if_none(resources: Sequence[Resource], node_name: str) -> None:
    """Say so where a config offers nothing because of the node's name."""
    if reason := why_none(resources, node_name):
        print_warning(reason)


def refuse_if_none(resources: Sequence[Resource], node_name: str) -> None:
    """Raise GenericdpError where nothing at all could come of a command."""
    if reason := why_none(resources, node_name):
        raise GenericdpError(reason)


def discover_once(resources: Sequence[Resource], host: HostCache, node_name: str) -> Decision:
    """Run the one pass that a command is for; the resources are those for the node."""
    return decide(resources, host, node_name=node_name, previous={}, now=time.monotonic())


def nothing_found_by(
    resources: Sequence[Resource], decision: Decision, inventory: Inventory
) -> tuple[tuple[str, str], ...]:
    """Give resource and glob, or selector in words, of what ``match`` and ``inject`` do not find.

    What an ``exclude`` does not find is as it should be.
    """
    globs = (
        (one.name, pattern)
        for one in resources
        for pattern in sorted({*path_globs(one.match)})
        if one.name not in decision.failures
        and not inventory.found(pattern)
        and pattern not in inventory.hanging
    )
    return (*globs, *unmatched(resources, inventory))


def discovered(arguments: argparse.Namespace) -> tuple[Decision, tuple[tuple[str, str], ...]]:
    """Apply the config of the command line to the host of the command line, once.

    Gives also what found nothing. Raises GenericdpError if nothing of it is for the node.
    """
    resources, node_name = usable_resources(arguments), node_name_of(arguments)
    refuse_if_none(resources, node_name)
    here = for_node(resources, node_name)

    def work(host: HostCache) -> tuple[Decision, tuple[tuple[str, str], ...]]:
        decision = discover_once(here, host, node_name)
        return decision, nothing_found_by(here, decision, Inventory(host, node_name))

    return patiently(root_of(arguments), work)
