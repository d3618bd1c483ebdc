"""Flags that several commands share; each can also be set as ``GENERICDP_…``."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp import logs
from genericdp.errors import UsageError
from genericdp.host.root import Root

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_COUNT = re.compile(r"0*[1-9][0-9]{0,8}")
_FORMATS = ("text", "json")


def add_choice(
    parser: argparse.ArgumentParser,
    flag: str,
    choices: Sequence[str],
    default: str,
    *,
    about: str,
    short: str = "",
) -> None:
    """Declare a flag that takes one of several words; raises UsageError for a bad default."""
    given = from_environment(flag) or default
    if given not in choices:
        # argparse does not look at defaults.
        raise UsageError(
            f"{_variable(flag)} is {given!r}, but must be one of: {', '.join(choices)}"
        )
    parser.add_argument(
        *([short] if short else []),
        f"--{flag}",
        choices=choices,
        default=given,
        metavar="|".join(choices),
        help=f"{about} (default: {default})",
    )


def _variable(flag: str) -> str:
    return f"GENERICDP_{flag.upper().replace('-', '_')}"


def from_environment(flag: str) -> str | None:
    """Give what ``GENERICDP_FLAG`` says, if it is set and not empty."""
    return os.environ.get(_variable(flag)) or None


def add_output(parser: argparse.ArgumentParser, *more: str) -> None:
    """Declare ``-o``."""
    add_choice(parser, "output", (*_FORMATS, *more), "text", about="how to print", short="-o")


def add_config(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Declare ``--config``, which may be given several times."""
    listed = from_environment("config")
    parser.add_argument(
        "--config",
        metavar="PATH",
        action="append",
        type=Path,
        default=None,
        required=required and listed is None,
        help="a config file, or a folder whose *.yaml and *.yml are read; may be repeated",
    )
    parser.set_defaults(configs_from_environment=listed)


def configs_of(arguments: argparse.Namespace) -> tuple[Path, ...]:
    """Give the paths of ``--config``, else those of GENERICDP_CONFIG."""
    given: list[Path] | None = arguments.config
    if given:
        return tuple(given)
    listed: str | None = arguments.configs_from_environment
    if listed is None:
        raise UsageError("the following arguments are required: --config")
    paths = tuple(Path(path) for path in listed.split(":") if path)
    if not paths:
        raise UsageError(f"{_variable('config')} is {listed!r}, which names no config")
    return paths


def add_root(parser: argparse.ArgumentParser) -> None:
    """Declare ``--root``."""
    parser.add_argument(
        "--root",
        metavar="DIR",
        type=Path,
        default=Path(from_environment("root") or "/"),
        help="look at this folder, which holds dev/ and sys/ of some machine (default: /)",
    )


def root_of(arguments: argparse.Namespace) -> Root:
    """Give the root; raises UsageError if there is no machine in that folder."""
    folder: Path = arguments.root
    if not os.path.isdir(folder / "dev"):  # noqa: PTH112  # False where it may not be looked at
        raise UsageError(
            f"{folder} has no folder dev (give --root a folder with dev/ and sys/ of a machine)"
        )
    return Root(folder)


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


def add_logging(parser: argparse.ArgumentParser, *, level: str = "info") -> None:
    """Declare how to log."""
    add_choice(parser, "log-format", _FORMATS, "text", about="how log lines look")
    about = "the least that is logged; debug adds each call of the kubelet"
    add_choice(parser, "log-level", logs.LEVELS, level, about=about)


def amounts_of(texts: Sequence[str]) -> dict[str, int]:
    """Take ``RESOURCE=N`` apart; raises UsageError."""
    amounts: dict[str, int] = {}
    for text in texts:
        name, equals, count = text.partition("=")
        if not equals or not _COUNT.fullmatch(count):
            raise UsageError(f"{text!r} is not of the form RESOURCE=N, as in example.com/fuse=1")
        amounts[name] = amounts.get(name, 0) + int(count)
    return amounts
