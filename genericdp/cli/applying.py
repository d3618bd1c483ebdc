"""For commands that apply a config to a host once: load it, look, decide."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from genericdp.cli.options import configs_of, node_name_of, root_of
from genericdp.cli.patience import patiently
from genericdp.config.load import load
from genericdp.devices.matching import for_node
from genericdp.discovery import Discovery, discover
from genericdp.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from genericdp.model import Resource


def usable_resources(paths: tuple[Path, ...]) -> tuple[Resource, ...]:
    """Load a config; raises ConfigError with its problems or with what is not built yet."""
    loaded = load(paths)
    if loaded.problems or loaded.unbuilt:
        raise ConfigError((*loaded.problems, *loaded.unbuilt))
    for warning in loaded.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return loaded.resources


def discovered(arguments: argparse.Namespace) -> Discovery:
    """Apply the config of the command line to the host of the command line, once."""
    resources = for_node(usable_resources(configs_of(arguments)), node_name_of(arguments))
    return patiently(
        root_of(arguments),
        lambda look, facts: discover(
            resources,
            look,
            facts=facts,
            node_name=node_name_of(arguments),
            previous={},
            now=time.monotonic(),
        ),
    )
