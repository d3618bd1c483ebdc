"""The sockets that the endpoints are reached at."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import TYPE_CHECKING

from genericdp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from genericdp.address import Address

log = logging.getLogger(__name__)

BACKLOG = 1024
"""So many connections the kernel keeps until they are taken: a probe must not be among those that
it drops, since they are tried again only after a second."""
AGAIN_SECONDS = 1.0

_NEVER = {
    errno.EACCES: "no permission to use that port: take one from 1024 on",
    errno.EPERM: "no permission to use that port: take one from 1024 on",
    errno.EINVAL: "it is no address to listen at (one of a link needs its interface: fe80::1%eth0)",
    errno.EAFNOSUPPORT: "this machine does not speak that version of IP",
}
"""What does not pass by waiting."""
_NOT_HERE = "this machine does not have that address"
"""Yet, it may be: one of DHCP comes later, a virtual one when it moves here."""
_WITHOUT_V6 = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})


async def listening(
    address: Address,
    *,
    has_been: bool = False,
    again_seconds: float = AGAIN_SECONDS,
    bind: Callable[[Address], list[socket.socket]] | None = None,
) -> list[socket.socket]:
    """Return sockets that listen, once there can be any; raises UsageError if there never can.

    An address in use is waited for: with host network, the daemon of a rolling update starts while
    the one before it is still there, and devices must be served meanwhile. So is one that this
    machine does not have: devices need no metrics. What ``has_been`` possible is waited for, too.
    """
    told = ""
    while True:
        try:
            sockets = (bind or bound)(address)
        except OSError as error:
            can_be = has_been or bool(told)
            if not can_be and (reason := _NEVER.get(error.errno or 0)):
                raise UsageError(f"cannot listen on {address}: {reason} (--listen)") from error
            lacking = error.errno == errno.EADDRNOTAVAIL
            reason = _NOT_HERE if lacking else (error.strerror or str(error)).lower()
            if reason != told:
                told = reason
                log.log(
                    logging.ERROR if lacking else logging.WARNING,
                    "cannot listen on %s: %s; devices are served meanwhile, and it is tried again"
                    " each %g s",
                    *(address, reason, again_seconds),
                )
            await asyncio.sleep(again_seconds)
            continue
        names = ", ".join(map(_name, sockets))
        log.info("endpoints at %s", names)
        return sockets


def bound(address: Address) -> list[socket.socket]:
    """Return sockets that listen; raises OSError."""
    match address.host:
        case "":
            return [_everywhere(address.port)]
        case "localhost":
            first = _listening(socket.AF_INET, "127.0.0.1", address.port)
            try:
                # Of any free port, the one that was found.
                return [first, _listening(socket.AF_INET6, "::1", first.getsockname()[1])]
            except OSError as error:
                if error.errno in _WITHOUT_V6:
                    return [first]
                first.close()
                raise
        case host:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return [_listening(family, host, address.port)]


def _everywhere(port: int) -> socket.socket:
    try:
        return _listening(socket.AF_INET6, "::", port)
    except OSError as error:
        if error.errno not in _WITHOUT_V6:
            raise
        return _listening(socket.AF_INET, "0.0.0.0", port)  # noqa: S104  # as was asked for


def _listening(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        one.settimeout(0)
        # With the number of the interface, which bind() itself does not take from fe80::1%eth0.
        one.bind(socket.getaddrinfo(host, port, family, flags=socket.AI_NUMERICHOST)[0][4])
        one.listen(BACKLOG)
    except BaseException:
        one.close()
        raise
    return one


def _name(one: socket.socket) -> str:
    host, port = one.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
