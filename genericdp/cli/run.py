"""``genericdp run``: the daemon."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from genericdp import logs
from genericdp.cli.options import (
    add_config,
    add_logging,
    add_node_name,
    add_root,
    configs_of,
    from_environment,
    node_name_of,
    root_of,
)
from genericdp.daemon import KUBELET_FOLDER, Settings
from genericdp.daemon import run as run_daemon

if TYPE_CHECKING:
    import argparse

SUMMARY = "serve the devices of a config to the kubelet of this node"
EXAMPLE = "  genericdp run --config /etc/genericdp"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_config(parser)
    parser.add_argument(
        "--kubelet-dir",
        metavar="DIR",
        type=Path,
        default=Path(from_environment("kubelet-dir") or KUBELET_FOLDER),
        help=f"the folder of kubelet.sock (default: {KUBELET_FOLDER})",
    )
    add_root(parser)
    add_node_name(parser)
    add_logging(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT."""
    logs.set_up(log_format=arguments.log_format, level=arguments.log_level)
    root_of(arguments)
    run_daemon(
        Settings(
            configs=configs_of(arguments),
            kubelet_folder=arguments.kubelet_dir.absolute(),
            root=arguments.root,
            node_name=node_name_of(arguments),
        )
    )
    return 0
