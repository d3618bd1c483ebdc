"""A small HTTP/1 server: one GET or HEAD for each connection, with limits on its cost.

``h11`` parses requests. This module protects the daemon, which serves devices on the same event
loop.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

import h11

from genericdp.errors import is_shortage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

log = logging.getLogger(__name__)

SECURITY = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Headers of every response; a response may replace them."""
_READ_BYTES = 4096
_AT_ONCE = 16
_PAUSE_SECONDS = _AT_ONCE / 800
"""Pause after this many connections, so that a flood leaves most of the loop's time to devices."""
_RETRY_SECONDS = 0.2
_LINGER_SECONDS = 1.0
_MAX_LINGER_BYTES = 256 * 1024
_SEND_BUFFER_BYTES = 128 * 1024
"""How much of a response the kernel buffers for a client that does not read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of clients; times in seconds."""

    connections: int = 64
    header_bytes: int = 8 * 1024
    request: float = 5.0
    """Time from the beginning of a connection to the end of its request."""
    response: float = 30.0
    """Time to receive a response, which a slow client keeps in memory."""
    unsent_bytes: int = 4 * 1024 * 1024
    """Memory for the different bodies that slow clients keep, in total."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """An HTTP response."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class _Connection:
    socket: socket.socket
    has_request: bool = False
    """Whether its request is complete and its response is not sent yet."""
    body: bytes = b""
    """The body of the response that is being sent."""


class Server:
    """Answers requests with ``respond``, which may raise anything, and gets the path without its
    query, not decoded.
    """

    def __init__(
        self, respond: Callable[[str], Awaitable[Response]], *, limits: Limits | None = None
    ) -> None:
        self._respond = respond
        self._limits = limits or Limits()
        self._connections: dict[_Connection, asyncio.Task[None]] = {}
        """The open connections, the oldest first."""

    async def run(self, sockets: Sequence[socket.socket]) -> None:
        """Serve forever at listening sockets; closes them in the end."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for bound in sockets:
                    tasks.create_task(self._accept(bound, tasks), name="HTTP")
        finally:
            for bound in sockets:
                bound.close()

    async def _accept(self, listener: socket.socket, tasks: asyncio.TaskGroup) -> None:
        loop, accepted = asyncio.get_running_loop(), 0
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError as error:
                # The client continues to wait in the kernel; without a pause this would spin.
                if is_shortage(error):
                    self._close_oldest()
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if len(self._open()) >= self._limits.connections:
                self._close_oldest()
            connection = _Connection(client)
            task = tasks.create_task(self._serve(connection), name="HTTP connection")
            self._connections[connection] = task
            # Even if it is canceled before its first step.
            task.add_done_callback(lambda _, connection_=connection: self._forget(connection_))  # type: ignore[misc]
            accepted += 1
            await asyncio.sleep(0 if accepted % _AT_ONCE else _PAUSE_SECONDS)

    def _open(self) -> list[_Connection]:
        return [
            connection for connection, task in self._connections.items() if not task.cancelling()
        ]

    def _close_oldest(self) -> None:
        """Close the oldest connection without a complete request, else the oldest of all."""
        open_ = self._open()
        for connection in [
            *(connection for connection in open_ if not connection.has_request),
            *open_,
        ][:1]:
            self._connections[connection].cancel()

    def _keep_body(self, connection: _Connection, body: bytes) -> None:
        """Record the body that is being sent; above the limit, close the oldest other connections.

        Clients that ask at the same time have the same body. The latest may be of any size.
        """
        connection.body = body
        kept = {id(body): len(body)}
        for other in reversed(self._open()):
            if other.body and id(other.body) not in kept:
                if sum(kept.values()) + len(other.body) > self._limits.unsent_bytes:
                    self._connections[other].cancel()
                else:
                    kept[id(other.body)] = len(other.body)

    def _forget(self, connection: _Connection) -> None:
        del self._connections[connection]
        connection.socket.close()

    async def _serve(self, connection: _Connection) -> None:
        try:
            with suppress(OSError):  # the client has disconnected, or was too slow
                client = connection.socket
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
                await self._exchange(connection)
        except Exception:
            log.exception("a connection has failed")

    async def _exchange(self, connection: _Connection) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.header_bytes)
        request = None
        try:
            async with asyncio.timeout(self._limits.request):
                request = await _receive_request(connection.socket, http)
            if request is None:
                return
            connection.has_request = True
            response = _refusal(request, http) or await self._response_to(_path_of(request))
        except h11.RemoteProtocolError as error:
            response = _text(error.error_status_hint)
        has_body = request is None or request.method != b"HEAD"
        await self._send(connection, _head(http, response), response.body if has_body else b"")
        await _linger(connection.socket)

    async def _response_to(self, path: str) -> Response:
        try:
            return await self._respond(path)
        except Exception:  # no error here ends the server
            log.exception("%s cannot be answered", path)
            body = b"the daemon has failed to answer: see its log\n"
            return Response(status=HTTPStatus.INTERNAL_SERVER_ERROR, body=body)

    async def _send(self, connection: _Connection, head: bytes, body: bytes) -> None:
        """Send a response; raises OSError, of which TimeoutError is a subclass."""
        loop = asyncio.get_running_loop()
        connection.has_request = True
        self._keep_body(connection, body)
        async with asyncio.timeout(self._limits.response):
            await loop.sock_sendall(connection.socket, head)
            await loop.sock_sendall(connection.socket, body)
        connection.has_request, connection.body = False, b""


async def _receive_request(client: socket.socket, http: h11.Connection) -> h11.Request | None:
    """Wait for a request; return None if none will come.

    Raise h11.RemoteProtocolError for anything that is not a request, and OSError.
    """
    loop = asyncio.get_running_loop()
    while (event := http.next_event()) is h11.NEED_DATA:
        http.receive_data(await loop.sock_recv(client, _READ_BYTES))
    return event if isinstance(event, h11.Request) else None


def _refusal(request: h11.Request, http: h11.Connection) -> Response | None:
    """Return the response to a request that is never answered; raises h11.RemoteProtocolError."""
    if not request.http_version.startswith(b"1."):
        return _text(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
    if request.method not in {b"GET", b"HEAD"}:
        return _text(HTTPStatus.METHOD_NOT_ALLOWED, allow="GET, HEAD")
    has_chunks = any(name == b"transfer-encoding" for name, _ in request.headers)
    if has_chunks or not isinstance(http.next_event(), h11.EndOfMessage):
        return _text(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return None


def _text(status: int, **headers: str) -> Response:
    body = f"{HTTPStatus(status).phrase}\n".encode()
    return Response(status=status, body=body, headers=headers)


def _path_of(request: h11.Request) -> str:
    target = request.target.decode("latin-1")
    scheme, separator, rest = target.partition("://")
    if separator and scheme.lower() in {"http", "https"}:  # as proxies are asked
        target = f"/{rest.partition('/')[2]}"
    return target.partition("?")[0].partition("#")[0]


def _head(http: h11.Connection, response: Response) -> bytes:
    """Return status line and headers."""
    headers = {
        "date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()),
        "content-type": response.content_type,
        "content-length": str(len(response.body)),
        "connection": "close",
        **SECURITY,
        **response.headers,
    }
    reason = HTTPStatus(response.status).phrase.encode()
    head = h11.Response(status_code=response.status, headers=list(headers.items()), reason=reason)
    return http.send(head) or b""


async def _linger(client: socket.socket) -> None:
    """Let the response arrive: closing while the client still sends would destroy it."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        client.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(_LINGER_SECONDS):
            left = _MAX_LINGER_BYTES
            while left > 0 and (data := await loop.sock_recv(client, _READ_BYTES)):
                left -= len(data)
