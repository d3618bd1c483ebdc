"""A small HTTP server: it answers GET and HEAD, and nobody who connects can cost it much.

``h11`` makes requests of bytes; what is here protects the daemon: how many connections there are,
for how long, and who has to go when there are too many.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import h11

from genericdp.errors import is_shortage
from genericdp.status.pacing import ResponsePace, too_slow
from genericdp.status.requests import Answer, asked, goes_on, refusal, written

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from genericdp.status.requests import HttpRequest

log = logging.getLogger(__name__)

_READ_BYTES = 4096
_TOGETHER_BYTES = 16 * 1024
"""What is shorter goes out in one piece with its headers."""
_AGAIN_SECONDS = 0.2
_TELL_SECONDS = 60.0
_LINGER_SECONDS = 1.0
_MOST_LINGERING_BYTES = 256 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What those who connect may take; times in seconds."""

    connections: int = 64
    header_bytes: int = 8 * 1024
    request: float = 5.0
    """From its first byte, or from the beginning of the connection, to the end of a request."""
    new_per_second: float = 800.0
    """So many connections are taken, each of which asks at once: they cost a fifth of a processor.
    A probe waits for those before it, ``listening.BACKLOG`` at most."""
    burst: int = 64
    """So many more at once, after rest."""
    pause: float = 0.1
    """After an answer, before the next request is read: all that can be asked over connections that
    are kept costs no more than new ones do."""
    idle: float = 30.0
    """Between two requests."""
    answer: float = 10.0
    """To take an answer, besides the time for its bytes."""
    bytes_per_second: int = 256 * 1024
    held_bytes: int = 16 * 1024 * 1024
    """Of all answers that are being taken, but the newest."""


@dataclass(eq=False, slots=True)
class _Connection:
    socket: socket.socket
    peer: str
    since: float
    """When it began to wait, or to be sent its answer, on the loop's clock."""
    is_answered: bool = False
    """Whether a request of it is being answered, and not waited for."""
    body: bytes = b""
    """What it is being sent."""


class Server:
    """Has requests answered by ``answer``, which may raise anything."""

    def __init__(
        self, answer: Callable[[HttpRequest], Awaitable[Answer]], *, limits: Limits | None = None
    ) -> None:
        self._answer = answer
        self._limits = limits or Limits()
        self._pace = ResponsePace(self._limits.new_per_second, self._limits.burst)
        self._connections: dict[_Connection, asyncio.Task[None]] = {}
        self._failing: dict[str, str] = {}
        """Why the last request of a path could not be answered."""

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._connections)

    async def run(self, sockets: Sequence[socket.socket]) -> None:
        """Serve forever at sockets that listen; closes them in the end."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for one in sockets:
                    tasks.create_task(self._accept(one, tasks), name="accepting")
        finally:
            for one in sockets:
                one.close()

    async def _accept(self, listener: socket.socket, tasks: asyncio.TaskGroup) -> None:
        loop, told = asyncio.get_running_loop(), -inf
        while True:
            try:
                connected, address = await loop.sock_accept(listener)
            except OSError as error:
                # It goes on waiting in the kernel; without a pause this would spin.
                if is_shortage(error):
                    self._evict()
                    if loop.time() - told > _TELL_SECONDS:
                        log.warning("no connection to the endpoints: %s", error.strerror)
                        told = loop.time()
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            if len(self._alive()) >= self._limits.connections:
                self._evict()
            one = _Connection(connected, peer=str(address[0]), since=loop.time())
            task = tasks.create_task(self._serve(one), name="connection")
            self._connections[one] = task
            # Also of one that is evicted before its first step.
            task.add_done_callback(lambda _, one=one: self._forget(one))  # type: ignore[misc]
            # Without a pause accepting would never wait, as long as there is somebody.
            await asyncio.sleep(self._pace.take(loop.time()))

    def _evict(self) -> None:
        """End the connection that can be missed most, for another one.

        It is one of those that are not being answered, if there are any, of the peer that has most
        of them: that one which has been waiting longest.
        """
        alive = self._alive()
        waiting = [one for one in alive if not one.is_answered] or alive
        count = Counter(one.peer for one in waiting)
        if waiting:
            self._connections[min(waiting, key=lambda one: (-count[one.peer], one.since))].cancel()

    def _alive(self) -> list[_Connection]:
        return [one for one, task in self._connections.items() if not task.cancelling()]

    def _forget(self, one: _Connection) -> None:
        del self._connections[one]
        one.socket.close()

    async def _serve(self, one: _Connection) -> None:
        try:
            with suppress(OSError):  # it is gone, or was too slow
                one.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await self._talk(one)
        except Exception:
            log.exception("a connection of %s has failed", one.peer)

    async def _talk(self, one: _Connection) -> None:
        loop, limits = asyncio.get_running_loop(), self._limits
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.header_bytes)
        patience = limits.request
        while True:
            one.is_answered, one.since, request = False, loop.time(), None
            try:
                request = await self._request(one, http, patience)
                if request is None:
                    return
                one.is_answered = True
                answer = refusal(request, http) or await self._answered(asked(request))
            except h11.RemoteProtocolError as error:
                why = str(error).partition(": bytearray(")[0]  # what was sent, as Python has it
                answer = Answer(status=error.error_status_hint, body=f"{why}\n".encode())
            one.is_answered = True
            wants_body = request is None or request.method != b"HEAD"
            await self._send(one, *written(http, answer, wants_body=wants_body))
            del answer  # it may be large, and the next request far off
            one.is_answered, patience = False, limits.idle
            if not goes_on(http):
                break
            await asyncio.sleep(limits.pause)
        await _linger(one.socket)

    async def _request(
        self, one: _Connection, http: h11.Connection, patience: float
    ) -> h11.Request | None:
        """Wait for a request; None: no more will come.

        Raises h11.RemoteProtocolError, and OSError, of which TimeoutError is one.
        """
        loop, begun = asyncio.get_running_loop(), False
        async with asyncio.timeout(patience) as limit:
            while (event := http.next_event()) is h11.NEED_DATA:
                data = await loop.sock_recv(one.socket, _READ_BYTES)
                if not begun:
                    begun = True
                    limit.reschedule(loop.time() + self._limits.request)
                http.receive_data(data)
        return event if isinstance(event, h11.Request) else None

    async def _answered(self, request: HttpRequest) -> Answer:
        try:
            answer = await self._answer(request)
        except Exception as error:  # whatever it is, it ends nothing
            path, reason = request.path, f"{type(error).__name__}: {error}"
            if self._failing.get(path) != reason:
                self._failing[path] = reason
                log.error("%s cannot be answered: %s", path, reason)
                log.debug("where that came from", exc_info=error)
            return Answer(status=500, body=b"the daemon has failed to answer: see its log\n")
        self._failing.pop(request.path, None)
        return answer

    async def _send(self, one: _Connection, head: bytes, body: bytes) -> None:
        """Send an answer; raises OSError, of which TimeoutError is one."""
        limits, loop = self._limits, asyncio.get_running_loop()
        for slow in too_slow(self._alive(), body, limits.held_bytes):
            self._connections[slow].cancel()
        one.body, one.since = body, loop.time()
        async with asyncio.timeout(limits.answer + len(body) / limits.bytes_per_second):
            if len(body) <= _TOGETHER_BYTES:
                await loop.sock_sendall(one.socket, head + body)
            else:
                await loop.sock_sendall(one.socket, head)
                await loop.sock_sendall(one.socket, body)
        one.body = b""


async def _linger(one: socket.socket) -> None:
    """Let the answer arrive: to close while the other side still sends would destroy it."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        one.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(_LINGER_SECONDS):
            left = _MOST_LINGERING_BYTES
            while left > 0 and (data := await loop.sock_recv(one, _READ_BYTES)):
                left -= len(data)
                await asyncio.sleep(0)
