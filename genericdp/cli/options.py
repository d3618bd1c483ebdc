"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from genericdp.cli.output import DATA
from genericdp.cli.parser import (
    CONFIG_FILE,
    Append,
    argument,
    choice,
    config_of,
    path_option,
    policy_of,
)
from genericdp.logs import LEVELS
from genericdp.printing import shortened
from genericdp.settings import CDI_DIRECTORY, DRIVER, KUBELET_ROOT, Address, parse_listen_address

ROOT = (
    "use this directory, which contains dev/ and sys/ of a machine, or a file of genericdp snapshot"
)
LOG_LEVEL = "minimum log level; debug adds each call of the kubelet"
_DRIVER = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_DRIVER = 63


def listen_of(text: str) -> Address:
    """Parse an address to listen on; raises ArgumentTypeError."""
    try:
        return parse_listen_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def driver_of(text: str) -> str:
    """Return the name of a DRA driver; raises ArgumentTypeError for what Kubernetes refuses."""
    if len(text) > _MAX_DRIVER or not _DRIVER.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{shortened(text)!r} is not a DRA driver's name: a domain of at most {_MAX_DRIVER}"
            f" lower-case letters, digits, '-' and '.', as in {DRIVER}"
        )
    return text


SHARED = {
    "FILE": argument("the config, in place of --config FILE", dest=CONFIG_FILE, nargs="?"),
    "--config": argument(
        "a config file, a directory whose *.yaml and *.yml are read, or - for stdin (not for run"
        " and cdi watch); several make up one config",
        metavar="PATH",
        action=Append,
        type=config_of,
        default=(),
    ),
    "--config-map": argument(
        "the config in this ConfigMap, where the input is manifests with several",
        metavar="NAME",
    ),
    "--policy": argument(
        "what configs may do (kind: DevicePluginPolicy); a config that breaks it is refused",
        metavar="FILE",
        type=policy_of,
    ),
    "--root": path_option(ROOT, default=Path("/")),
    "--node-name": argument(
        "the node's name for nodeNames and $(node.name) (default: NODE_NAME, else the host's)",
        metavar="NAME",
    ),
    "--output": choice("how to print", ("text", *DATA)),
    "--log-format": choice("format of log lines", ("text", "json")),
    "--log-level": choice(LOG_LEVEL, LEVELS, default="info"),
    "--cdi-dir": path_option(
        "the directory of CDI specs, where container runtimes read them; it is not created",
        default=CDI_DIRECTORY,
    ),
    "--dra-driver": argument(
        "the name of the DRA driver for resources with servedBy: dra, the same for all commands"
        " and nodes",
        metavar="NAME",
        type=driver_of,
        default=DRIVER,
    ),
    "--kubelet-root": path_option("the kubelet's --root-dir, with plugins/", default=KUBELET_ROOT),
}
"""The arguments that several commands share, by their names in the table of commands."""
