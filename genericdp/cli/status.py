"""``genericdp status``: what the running daemon says of itself."""

from __future__ import annotations

import argparse
import json
import re
from typing import TYPE_CHECKING

from genericdp.cli.colours import are_wanted
from genericdp.cli.fetching import fetch
from genericdp.cli.options import add_output
from genericdp.cli.overview import lines
from genericdp.errors import GenericdpError
from genericdp.status.codec import decode

if TYPE_CHECKING:
    from genericdp.status.model import Status

SUMMARY = "print what the daemon of this node says: what it offers, what is Unhealthy and why"
EXAMPLE = (
    "  genericdp status                # of a daemon that was run with --listen=:9733\n"
    "  kubectl exec ds/genericdp -- genericdp status -o json"
)
ADDRESS = "127.0.0.1:9733"
_ADDRESS = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[^\s:/\[\]@]*)):0*(?P<port>[0-9]{1,5})"
)


def address_of(text: str) -> tuple[str, int]:
    """Take ``HOST:PORT``, ``[IPv6]:PORT`` or ``:PORT``, which is this machine."""
    taken = _ADDRESS.fullmatch(text)
    if not taken or not 0 < int(taken["port"]) < 65_536:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not of the form HOST:PORT, as in {ADDRESS} or [::1]:9733"
        )
    return taken["v6"] or taken["host"] or "127.0.0.1", int(taken["port"])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        type=address_of,
        default=address_of(ADDRESS),
        help=f"where the daemon listens (default: {ADDRESS})",
    )
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Ask once and print it; fine also if the daemon says that it is not ready."""
    host, port = arguments.address
    body = fetch(host, port, "/status")
    status = _decoded(body, host, port)
    if arguments.output == "json":
        print(json.dumps(json.loads(body), indent=2))
    else:
        print("\n".join(lines(status, colours=are_wanted())))
    return 0


def _decoded(body: bytes, host: str, port: int) -> Status:
    try:
        return decode(body)
    except GenericdpError as error:
        raise GenericdpError(
            f"what answers on port {port} of {host} is no genericdp of this version: {error}"
        ) from error
