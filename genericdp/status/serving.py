"""The endpoints of a running daemon, from the address to the answers."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from genericdp.host.descriptors import most_allowed
from genericdp.host.workers import in_worker
from genericdp.observed import until
from genericdp.status.listening import listening

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    from genericdp.address import Address
    from genericdp.status.http import Server
    from genericdp.status.looking import Parts
    from genericdp.tally import Tally

log = logging.getLogger(__name__)

_PATIENCE_SECONDS = 0.5
_MOST_CONNECTIONS = 64
_PART = 16
"""One of so many descriptors, at most, is for a connection: the devices need the others."""
_AGAIN_SECONDS = 10.0


async def serve(address: Address, parts: Parts, *, tally: Tally, shows_status: bool) -> None:
    """Serve the endpoints forever; raises UsageError if there never can be any at that address."""
    sockets = await listening(address)
    try:
        await _first_lists(parts)
        await _serve(partial(_server, parts, tally, shows_status=shows_status), address, sockets)
    finally:
        _close(sockets)


async def _first_lists(parts: Parts) -> None:
    """Wait until the kubelet has the lists, but not for long."""
    offers = parts.supervisor.lists
    await until(lambda: bool(offers.value), offers, timeout_seconds=_PATIENCE_SECONDS)
    active = [one.registration.active for one in parts.supervisor.plugins.values()]
    await until(
        lambda: all(one.value for one in active), *active, timeout_seconds=_PATIENCE_SECONDS
    )


def _server(parts: Parts, tally: Tally, *, shows_status: bool) -> Server:
    from genericdp.status.endpoints import Endpoints
    from genericdp.status.http import Limits, Server

    connections = max(2, min(_MOST_CONNECTIONS, most_allowed() // _PART))
    endpoints = Endpoints(parts, tally=tally, shows_status=shows_status)
    return Server(endpoints.answer, limits=Limits(connections=connections))


async def _serve(make: Callable[[], Server], address: Address, sockets: list[socket]) -> None:
    while True:
        try:
            # Takes 0.1 s of a processor, which the devices need first; whoever asks waits so long.
            server = await in_worker(make)
            await server.run(sockets)
        except OSError as error:  # also by an import, where descriptors run short
            log.error("the endpoints cannot be served: %s: again in %g s", error, _AGAIN_SECONDS)
        except Exception:
            # A mistake of ours here must not take the devices along.
            log.exception("the endpoints have failed: again in %g s", _AGAIN_SECONDS)
        _close(sockets)
        await asyncio.sleep(_AGAIN_SECONDS)
        sockets[:] = await listening(address, has_been=True)


def _close(sockets: list[socket]) -> None:
    for one in sockets:
        one.close()
