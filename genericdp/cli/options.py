"""Flags that several commands share; each can also be set as ``GENERICDP_…``."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

_FORMATS = ("text", "json")


def from_environment(flag: str) -> str | None:
    """Give what ``GENERICDP_FLAG`` says, if it is set and not empty."""
    return os.environ.get(f"GENERICDP_{flag.upper().replace('-', '_')}") or None


def add_output(parser: argparse.ArgumentParser, *more: str) -> None:
    """Declare ``-o``."""
    choices = (*_FORMATS, *more)
    default = from_environment("output") or "text"
    parser.add_argument(
        "-o",
        "--output",
        choices=choices,
        default=default,
        metavar="FORMAT",
        help=f"one of: {', '.join(choices)} (default: text)",
    )


def add_config(parser: argparse.ArgumentParser) -> None:
    """Declare ``--config``, which may be given several times."""
    listed = from_environment("config")
    parser.add_argument(
        "--config",
        metavar="PATH",
        action="append",
        type=Path,
        default=None,
        required=listed is None,
        help="a config file, or a folder whose *.yaml and *.yml are read; may be repeated",
    )
    parser.set_defaults(configs_from_environment=listed)


def configs_of(arguments: argparse.Namespace) -> tuple[Path, ...]:
    """Give the paths of ``--config``, else those of GENERICDP_CONFIG."""
    given: list[Path] | None = arguments.config
    if given:
        return tuple(given)
    listed: str = arguments.configs_from_environment
    return tuple(Path(path) for path in listed.split(":") if path)


def add_root(parser: argparse.ArgumentParser) -> None:
    """Declare ``--root``."""
    parser.add_argument(
        "--root",
        metavar="DIR",
        type=Path,
        default=Path(from_environment("root") or "/"),
        help="look at this folder, which holds dev/ and sys/ of some machine (default: /)",
    )


def add_node_name(parser: argparse.ArgumentParser) -> None:
    """Declare ``--node-name``."""
    parser.add_argument(
        "--node-name",
        metavar="NAME",
        default=from_environment("node-name") or os.environ.get("NODE_NAME") or None,
        help="the node's name for nodeNames and $(node.name) (default: NODE_NAME, else the host's)",
    )


def node_name_of(arguments: argparse.Namespace) -> str:
    """Give the node's name: the flag, NODE_NAME, else the host name."""
    return arguments.node_name or socket.gethostname().lower()
