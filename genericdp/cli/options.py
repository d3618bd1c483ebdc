"""Flags that several commands share."""

from __future__ import annotations

import argparse
import logging
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp import logs
from genericdp.address import Address, parse_listen_address
from genericdp.cli.environment import Appended, StoredUnlessEmpty, unknown_variables
from genericdp.config.loaded import STDIN
from genericdp.errors import UsageError
from genericdp.host.root import Root
from genericdp.printing import print_warning

if TYPE_CHECKING:
    from collections.abc import Sequence

log = logging.getLogger(__name__)

_COUNT = re.compile(r"0*[1-9][0-9]{0,8}")
_FORMATS = ("text", "json")
_LONGEST_SOCKET_BYTES = 107


def add_choice(
    parser: argparse.ArgumentParser,
    flag: str,
    choices: Sequence[str],
    default: str,
    *,
    about: str,
    short: str = "",
) -> None:
    """Declare a flag that takes one of several words."""
    parser.add_argument(
        *([short] if short else []),
        f"--{flag}",
        choices=choices,
        default=default,
        metavar="|".join(choices),
        help=f"{about} (default: {default})",
    )


def add_output(parser: argparse.ArgumentParser, *more: str) -> None:
    """Declare ``-o``."""
    add_choice(parser, "output", (*_FORMATS, *more), "text", about="how to print", short="-o")


def path_of(text: str) -> Path:
    """Take a path; an empty one, as an unset variable of a script gives it, is refused."""
    if not text:
        raise argparse.ArgumentTypeError("an empty path")
    return Path(text)


def config_of(text: str) -> Path:
    """Take the path of a config; stdin has two names."""
    return STDIN if text == "/dev/stdin" else path_of(text)


def add_config(
    parser: argparse.ArgumentParser, *, required: bool = True, stdin: bool = True
) -> None:
    """Declare ``--config``, which may be given several times, and what bounds it."""
    folder = "a folder whose *.yaml and *.yml are read"
    what = f"a config file, {folder}, or - for stdin" if stdin else f"a config file, or {folder}"
    parser.add_argument(
        "--config",
        metavar="PATH",
        action=Appended,
        type=config_of,
        default=None,
        required=required,
        help=f"{what}; may be repeated",
    )
    add_policy(parser)


def add_policy(parser: argparse.ArgumentParser) -> None:
    """Declare ``--policy``."""
    parser.add_argument(
        "--policy",
        metavar="FILE",
        type=path_of,
        default=None,
        help="what configs may do (kind: DevicePluginPolicy); a config that breaks it is refused",
    )


def configs_of(arguments: argparse.Namespace) -> tuple[Path, ...]:
    """Give the paths of ``--config``."""
    given: Sequence[Path] | None = arguments.config
    if not given:
        raise UsageError("the following arguments are required: --config")
    return tuple(given)


def add_root(parser: argparse.ArgumentParser) -> None:
    """Declare ``--root``."""
    parser.add_argument(
        "--root",
        metavar="DIR",
        type=path_of,
        default=Path("/"),
        help="look at this folder, which holds dev/ and sys/ of some machine, or at a file of"
        " genericdp snapshot (default: /)",
    )


def root_folder_of(arguments: argparse.Namespace) -> Path:
    """Give the folder of ``--root``; a snapshot is unpacked once. Raises UsageError."""
    given: Path = arguments.root
    if not given.is_file():
        if given.suffix in {".gz", ".tgz"} and not given.exists():
            raise UsageError(f"{given} does not exist")
        return given
    if not hasattr(arguments, "unpacked_root"):
        from genericdp.cli.unpacking import unpacked  # few have one

        arguments.unpacked_root = unpacked(given)
    folder: Path = arguments.unpacked_root
    return folder


def root_words(arguments: argparse.Namespace) -> list[str]:
    """Give the words that a command line needs to be about the same machine."""
    return [] if root_of(arguments).is_machine else ["--root", str(arguments.root)]


def root_of(arguments: argparse.Namespace) -> Root:
    """Give the root; raises UsageError if there is no machine in that folder."""
    folder = root_folder_of(arguments)
    if not _is_readable(folder / "dev"):
        raise UsageError(
            f"{arguments.root} has no folder dev"
            " (give --root a folder with dev/ and sys/ of a machine)"
        )
    if not (_is_readable(folder / "sys") and _is_readable(folder / "sys/devices")):
        _warn_once(arguments, f"{arguments.root / 'sys/devices'} is missing: {_PATHS_ALONE}")
    return Root(folder)


_PATHS_ALONE = "only path selectors can find anything, and hardware is unknown"


def _is_readable(folder: Path) -> bool:
    """Say whether a folder is there; raises UsageError if that cannot be known."""
    try:
        os.listdir(folder)  # noqa: PTH208  # its error is what is wanted
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {(error.strerror or '').lower()}") from error
    return True


def _warn_once(arguments: argparse.Namespace, sentence: str) -> None:
    if sentence in arguments.__dict__.setdefault("warned", []):
        return
    arguments.warned.append(sentence)
    if hasattr(arguments, "log_level"):
        log.warning("%s", sentence)
    else:
        print_warning(sentence)


def add_node_name(parser: argparse.ArgumentParser) -> None:
    """Declare ``--node-name``."""
    parser.add_argument(
        "--node-name",
        metavar="NAME",
        default=os.environ.get("NODE_NAME") or None,
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


def set_up_logging(arguments: argparse.Namespace) -> None:
    """Log as the flags say; also what is wrong with the environment."""
    logs.set_up(log_format=arguments.log_format, level=arguments.log_level)
    for sentence in unknown_variables():
        log.warning("%s", sentence)


def add_host(parser: argparse.ArgumentParser) -> None:
    """Declare what every command has that applies a config: on which host, as which node."""
    add_root(parser)
    add_node_name(parser)


def listen_of(text: str) -> Address:
    """Take an address to listen on."""
    try:
        return parse_listen_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def add_listen(parser: argparse.ArgumentParser) -> None:
    """Declare ``--listen``."""
    parser.add_argument(
        "--listen",
        metavar="ADDRESS",
        action=StoredUnlessEmpty,
        type=listen_of,
        default=None,
        help="serve /metrics, /livez, /readyz, /status and a page for people at HOST:PORT,"
        " [IPV6]:PORT or :PORT, without encryption (default: nowhere)",
    )


def add_pod_resources(parser: argparse.ArgumentParser, about: str) -> None:
    """Declare ``--pod-resources``."""
    parser.add_argument(
        "--pod-resources",
        metavar="SOCKET",
        type=path_of,
        default=None,
        help=f"what has vanished stays listed, however long, while a pod holds it: {about}",
    )


def pod_resources_of(arguments: argparse.Namespace) -> Path | None:
    """Give the pod-resources socket, if any; raises UsageError."""
    given: Path | None = arguments.pod_resources
    if given is None:
        return None
    if len(os.fsencode(given.absolute())) > _LONGEST_SOCKET_BYTES:
        raise UsageError(
            f"{given} is longer than the {_LONGEST_SOCKET_BYTES} bytes that the path of a unix"
            " socket may have: reach it under a shorter one"
        )
    return given.absolute()


def amounts_of(texts: Sequence[str]) -> dict[str, int]:
    """Take ``RESOURCE=N`` apart; raises UsageError."""
    amounts: dict[str, int] = {}
    for text in texts:
        name, equals, count = text.partition("=")
        if not equals or not _COUNT.fullmatch(count):
            raise UsageError(f"{text!r} is not of the form RESOURCE=N, as in example.com/fuse=1")
        amounts[name] = amounts.get(name, 0) + int(count)
    return amounts
