"""``genericdp status``: what the running daemon says of itself."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from genericdp.address import parse_server_address
from genericdp.cli.colours import are_wanted
from genericdp.cli.environment import StoredUnlessEmpty
from genericdp.cli.fetching import fetch
from genericdp.cli.options import add_output
from genericdp.cli.overview import lines
from genericdp.errors import GenericdpError
from genericdp.printing import print_document, print_json
from genericdp.status.codec import decode

if TYPE_CHECKING:
    from genericdp.address import Address
    from genericdp.status.model import Status

SUMMARY = "print what the daemon of this node says: what it offers, what is Unhealthy and why"
EXAMPLE = (
    "  genericdp status                # of a daemon that was run with --listen=:9733\n"
    "  kubectl exec ds/genericdp -- genericdp status -o json"
)
ADDRESS = "127.0.0.1:9733"


def daemon_at(text: str) -> Address:
    """Take ``HOST:PORT``, ``[IPv6]:PORT`` or ``:PORT``, which is this machine."""
    try:
        return parse_server_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not of the form HOST:PORT, as in {ADDRESS} or [::1]:9733"
        ) from error


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        action=StoredUnlessEmpty,
        type=daemon_at,
        default=daemon_at(ADDRESS),
        help=f"where the daemon listens (default: {ADDRESS})",
    )
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Ask once and print it; fine also if the daemon says that it is not ready."""
    address: Address = arguments.address
    body = fetch(address, "/status")
    status = _decoded(body, address)
    if arguments.output == "json":
        print_json(json.loads(body))
    else:
        print_document("\n".join(lines(status, colours=are_wanted())))
    return 0


def _decoded(body: bytes, address: Address) -> Status:
    try:
        return decode(body)
    except GenericdpError as error:
        raise GenericdpError(
            f"what answers on port {address.port} of {address.host}"
            f" is no genericdp of this version: {error}"
        ) from error
