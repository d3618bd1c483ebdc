"""One GET to a daemon, bounded in time and size, past all proxies."""

from __future__ import annotations

import http
import http.client
import socket
import threading
import time
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from genericdp.errors import GenericdpError
from genericdp.status.wording import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from http.client import HTTPResponse

    from genericdp.address import Address

MOST_BYTES = 64 * 1024 * 1024
"""A state of 100,000 devices has about 20 MB."""
SECONDS = 10.0
"""For all together: the host's name, connecting, and the answer."""
_MOST_SAID = 200
_Resolved = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]


def fetch(
    address: Address, path: str, *, seconds: float = SECONDS, most_bytes: int = MOST_BYTES
) -> bytes:
    """Give what ``http://HOST:PORT/path`` answers with 200; raises GenericdpError."""
    where = str(address)
    deadline = time.monotonic() + seconds
    connection = http.client.HTTPConnection(address.host, address.port)
    with closing(connection):
        try:
            connection.sock = _connected(address, deadline)
            with _cut_after(_left(deadline), connection.sock):
                connection.request("GET", path, headers={"Accept": "application/json"})
                answer = connection.getresponse()
                body = answer.read(most_bytes + 1)
        except UnicodeError as error:  # from encoding the name for DNS
            raise GenericdpError(f"{where!r} is no name of a host: {error}") from error
        except (http.client.HTTPException, ValueError) as error:
            raise GenericdpError(
                f"what answers at {where} does not speak HTTP: {_gist(error)}"
            ) from error
        except OSError as error:
            raise GenericdpError(_why_not(error, where)) from error
    if answer.status != 200:
        raise GenericdpError(_refusal(answer, body, where))
    if len(body) <= most_bytes and answer.length:
        raise GenericdpError(f"the answer of {where} ends too early")
    if len(body) > most_bytes:
        raise GenericdpError(f"the answer of {where} is longer than {most_bytes} bytes")
    return body


def _left(deadline: float) -> float:
    """Give the seconds until then; raises TimeoutError if there are none."""
    if (left := deadline - time.monotonic()) <= 0:
        raise TimeoutError
    return left


def _connected(address: Address, deadline: float) -> socket.socket:
    """Connect to one of a host's addresses; raises OSError, or ValueError for what is no name.

    Each gets its part of the time that is left: the first may be where nobody answers.
    """
    found = _resolved(address, _left(deadline))
    failure = OSError("it has no address")
    for tried, one in enumerate(found):
        try:
            connected = _connected_to(one, _left(deadline) / (len(found) - tried))
        except OSError as error:
            failure = error
        else:
            connected.settimeout(None)  # it is cut in time
            return connected
    raise failure


def _connected_to(found: _Resolved, seconds: float) -> socket.socket:
    family, kind, protocol, _, where = found
    connecting = socket.socket(family, kind, protocol)
    try:
        connecting.settimeout(seconds)
        connecting.connect(where)
    except OSError:
        connecting.close()
        raise
    return connecting


def _resolved(address: Address, seconds: float) -> Sequence[_Resolved]:
    """Ask for a host's addresses; raises OSError, and ValueError for what is no name.

    In a thread, which may stay behind: nothing can cut it short.
    """
    answer: Future[Sequence[_Resolved]] = Future()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except (OSError, ValueError) as error:
            answer.set_exception(error)
        else:
            answer.set_result(found)

    threading.Thread(target=ask, daemon=True).start()
    return answer.result(seconds)


@contextmanager
def _cut_after(seconds: float, connected: socket.socket) -> Iterator[None]:
    """End the connection then: a timeout alone is only about each piece of what comes.

    Raises TimeoutError if it was ended: to ``http.client`` that may look like a short answer.
    """
    is_cut = threading.Event()

    def cut() -> None:
        is_cut.set()
        with suppress(OSError):
            # Not `connection.sock`: of an answer with "Connection: close" that is None.
            connected.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException):
        if not is_cut.is_set():
            raise
    finally:
        timer.cancel()
    if is_cut.is_set():
        raise TimeoutError


def _gist(error: Exception) -> str:
    """Give its text without Python's marks; some have none."""
    if isinstance(error, http.client.RemoteDisconnected):
        return "it ends the connection without an answer"
    return visible(str(error).strip(), _MOST_SAID) or type(error).__name__


def _why_not(error: OSError, where: str) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens at {where}: is the daemon run with --listen?"
    if isinstance(error, TimeoutError):
        return f"{where} does not answer"
    if isinstance(error, socket.gaierror):
        return f"the host of {where} is not known"
    return f"{where} cannot be asked: {(error.strerror or str(error)).lower()}"


def _refusal(answer: HTTPResponse, body: bytes, where: str) -> str:
    said = visible(body[:_MOST_SAID].decode(errors="replace").strip(), _MOST_SAID)
    if answer.status == http.HTTPStatus.NOT_FOUND and "--no-status" in said:
        return f"the daemon at {where} does not show its state: it is run with --no-status"
    quoted = f" (it says: {said})" if said else ""
    return f"{where} answers {answer.status}: is that a genericdp?{quoted}"
