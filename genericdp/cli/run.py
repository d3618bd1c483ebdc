"""``genericdp run``: the daemon."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.cli.options import (
    add_config,
    add_host,
    add_listen,
    add_logging,
    add_pod_resources,
    configs_of,
    node_name_of,
    path_of,
    pod_resources_of,
    root_of,
    set_up_logging,
)
from genericdp.cli.places import socket_doubt, state_doubt
from genericdp.config.loaded import STDIN
from genericdp.daemon import KUBELET_FOLDER, Settings
from genericdp.daemon import run as run_daemon
from genericdp.errors import UsageError

if TYPE_CHECKING:
    import argparse

log = logging.getLogger(__name__)

SUMMARY = "serve the devices of a config to the kubelet of this node"
EXAMPLE = "  genericdp run --config /etc/genericdp"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_config(parser, stdin=False)
    parser.add_argument(
        "--kubelet-dir",
        metavar="DIR",
        type=path_of,
        default=Path(KUBELET_FOLDER),
        help=f"the folder of kubelet.sock (default: {KUBELET_FOLDER})",
    )
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        type=path_of,
        default=None,
        help="keep the last good config here, and serve it when at a start the config is bad",
    )
    add_pod_resources(
        parser,
        "ask the kubelet at this socket, usually /var/lib/kubelet/pod-resources/kubelet.sock"
        " (default: nobody is asked)",
    )
    add_listen(parser)
    parser.add_argument(
        "--no-status",
        action="store_true",
        help="with --listen: show no single devices, since that tells their serial numbers;"
        " / and /status are not served",
    )
    add_host(parser)
    add_logging(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT."""
    set_up_logging(arguments)
    configs = configs_of(arguments)
    if STDIN in configs:
        raise UsageError("run takes no config from stdin: it reads its config again")
    if arguments.root.is_file():
        raise UsageError(
            f"--root {arguments.root} is a snapshot: its devices are not this node's, whose kubelet"
            " would give them to pods (genericdp simulate shows what they would be)"
        )
    root_of(arguments)
    pod_resources = pod_resources_of(arguments)
    _tell_doubts(arguments.state_dir, pod_resources)
    run_daemon(
        Settings(
            configs=configs,
            policy=arguments.policy,
            kubelet_folder=arguments.kubelet_dir.absolute(),
            root=arguments.root,
            node_name=node_name_of(arguments),
            state_dir=arguments.state_dir,
            pod_resources=pod_resources,
            listen=arguments.listen,
            shows_status=not arguments.no_status,
        )
    )
    return 0


def _tell_doubts(state_dir: Path | None, pod_resources: Path | None) -> None:
    if state_dir is not None and (said := state_doubt(state_dir)):
        log.warning("%s", said)
    if pod_resources is not None:
        said, may_pass = socket_doubt(pod_resources)
        if said:
            log.log(logging.INFO if may_pass else logging.WARNING, "%s", said)
