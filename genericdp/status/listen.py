"""Serves the endpoints at an address as long as the daemon runs, waiting for the address if
necessary.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from typing import TYPE_CHECKING

from genericdp.errors import UsageError
from genericdp.host import descriptors
from genericdp.host.workers import in_worker
from genericdp.observed import until
from genericdp.repeat import Latch

if TYPE_CHECKING:
    from genericdp.settings import Address
    from genericdp.status.server import Server
    from genericdp.status.state import Sources

log = logging.getLogger(__name__)

BACKLOG = 1024
"""Connections that the kernel queues until they are accepted: it must not drop that of a probe,
which would be retried only after a second.
"""
BIND_AGAIN_SECONDS = 1.0
_SERVE_AGAIN_SECONDS = 10.0
_FIRST_LISTS_SECONDS = 0.5
_SHARE = 16
"""At most one in this many descriptors is for a connection: the devices need the others."""

_NEVER = {
    errno.EACCES: "no permission to use that port: take one from 1024 on",
    errno.EPERM: "no permission to use that port: take one from 1024 on",
    errno.EINVAL: "it is not an address to bind (one of a link needs its interface: fe80::1%eth0)",
    errno.EAFNOSUPPORT: "this machine does not speak that version of IP",
}
"""Errors that waiting does not resolve."""
_NO_IPV6 = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})


async def serve(address: Address, sources: Sources, *, shows_status: bool) -> None:
    """Serve the endpoints forever; raises UsageError if nothing can ever listen at the address."""

    def make() -> Server:
        # Imported here because it takes 0.1 s of a processor and some megabytes.
        from genericdp.status.endpoints import Endpoints
        from genericdp.status.server import Limits, Server

        most = max(2, min(Limits().connections, descriptors.count().most // _SHARE))
        endpoints = Endpoints(sources, shows_status=shows_status)
        return Server(endpoints.respond, limits=Limits(connections=most))

    sockets = await listening(address)
    try:
        await _first_lists(sources)
        while True:
            try:
                server = await in_worker(make)
                await server.run(sockets)
            except OSError as error:  # even by an import, if descriptors run short
                log.error(
                    "the endpoints cannot be served: %s: again in %g s", error, _SERVE_AGAIN_SECONDS
                )
            except Exception:
                # A bug here must not affect the devices.
                log.exception("the endpoints have failed: again in %g s", _SERVE_AGAIN_SECONDS)
            _close(sockets)
            await asyncio.sleep(_SERVE_AGAIN_SECONDS)
            sockets = await listening(address, has_been=True)
    finally:
        _close(sockets)


async def _first_lists(sources: Sources) -> None:
    """Wait until the kubelet has the first lists, but not for long: devices come first."""
    lists = sources.supervisor.lists
    await until(lambda: bool(lists.value), lists, timeout_seconds=_FIRST_LISTS_SECONDS)
    active = [
        plugin.registration.active for plugin in sources.supervisor.reconciler.running.values()
    ]
    await until(
        lambda: all(is_active.value for is_active in active),
        *active,
        timeout_seconds=_FIRST_LISTS_SECONDS,
    )


async def listening(address: Address, *, has_been: bool = False) -> list[socket.socket]:
    """Return listening sockets, once that is possible; raises UsageError if it never will be.

    An address in use is waited for: with host network, the daemon of a rolling update starts while
    the old one still runs, and devices must be served meanwhile. An address that this machine does
    not have is waited for, too: it may come from DHCP. ``has_been`` shows that the address was
    possible before, so any error is temporary.
    """
    trouble = Latch(log)
    while True:
        try:
            sockets = bind_sockets(address)
        except OSError as error:
            number = error.errno or 0
            if number in _NEVER and not (has_been or trouble.reason):
                why = f"cannot listen on {address}: {_NEVER[number]} (--listen)"
                raise UsageError(why) from error
            lacking = number == errno.EADDRNOTAVAIL
            reason = (os.strerror(number) if number > 0 else str(error)).lower()
            if lacking:
                reason = "this machine does not have that address"
            trouble.update(
                reason,
                "cannot listen on %s: %s; devices are served meanwhile, and it is tried again"
                " each %g s",
                *(address, reason, BIND_AGAIN_SECONDS),
                level=logging.ERROR if lacking else logging.WARNING,
            )
            await asyncio.sleep(BIND_AGAIN_SECONDS)
            continue
        log.info("endpoints at %s", ", ".join(map(_url, sockets)))
        return sockets


def bind_sockets(address: Address) -> list[socket.socket]:
    """Return listening sockets of an address; raises OSError."""
    if address.host == "localhost":
        first = _bind("127.0.0.1", address.port)
        try:
            # With port 0, use the port that was found for the other sockets, too.
            return [first, _bind("::1", first.getsockname()[1])]
        except OSError as error:
            if error.errno in _NO_IPV6:
                return [first]
            first.close()
            raise
    if address.host:
        return [_bind(address.host, address.port)]
    try:
        return [_bind("::", address.port)]
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise
        return [_bind("0.0.0.0", address.port)]  # noqa: S104  # as requested


def _bind(host: str, port: int) -> socket.socket:
    # With the number of the interface, which bind() itself does not read from fe80::1%eth0.
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    family, *_, where = found[0]
    bound = socket.create_server(
        where,
        family=family,
        backlog=BACKLOG,
        dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
    )
    bound.settimeout(0)
    return bound


def _url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _close(sockets: list[socket.socket]) -> None:
    for bound in sockets:
        bound.close()
