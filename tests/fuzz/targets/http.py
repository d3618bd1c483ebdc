"""Any bytes to the endpoints: an answer with headers of ours or an end, and others are served."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from genericdp.status.server import Limits, Response

from tests.status.http_server import Serving, request, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORDS = (
    *(b"GET ", b"HEAD ", b"POST ", b"/", b"/status", b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", b"\r\n"),
    *(b"Host: x\r\n", b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"\r\n\r\n", b"\n"),
    *(b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(
        b"0\r\n\r\n",
        b"5\r\nhello\r\n",
        b"Expect: 100-continue\r\n",
        b"Upgrade: h2c\r\n",
        b"http://",
    ),
    *(b"\0", b"\xff", b" ", b"\t", b": ", b"?", b"#", b"%2e%2e", b"..", b"x" * 59),
)
_STATUS = re.compile(rb"HTTP/1\.1 (200|400|405|413|431|501|505) [A-Z]")


def seeds() -> Iterator[bytes]:
    yield request("/status")
    yield request("/", method="HEAD")
    yield request("/", version="1.0")
    yield b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n" * 3 + request("/b")
    yield request("http://x/status?a#b", "Accept: */*")
    yield request("/", "Content-Length: 5", method="POST") + b"hello"
    yield request("/", "Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n"
    yield b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: " + b"x" * 5000 + b"\r\n\r\n"
    yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64)


async def _answer(path: str) -> Response:
    return Response(status=200, body=path.encode("latin-1"))


@contextmanager
def opened() -> Iterator[Callable[[bytes], None]]:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        limits = Limits(request=5.0)
        server = runner.run(stack.enter_async_context(serving(_answer, limits=limits)))
        try:
            yield lambda data: runner.run(_run(data, server))
        finally:
            runner.run(stack.aclose())


async def _run(data: bytes, server: Serving) -> None:
    with suppress(ConnectionError):
        said = await server.says(data, half_closed=True)
        assert not said or _STATUS.match(said), said[:100]
    assert (await server.get("/livez")).endswith(b"\r\n\r\n/livez")
    server.asked.clear()
    await server.are_left(0)
