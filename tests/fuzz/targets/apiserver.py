"""Any bytes as the answer of an API server: an ApiError, or objects with metadata."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from genericdp.apiserver import SLICES, Access, ApiClient
from genericdp.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_LIST = b'{"kind":"ResourceSliceList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{}}]}'
_EVENT = b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"8"}}}\n'
_EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'

WORDS = (
    *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 429 \r\n", b"HTTP/1.1 101 Switching Protocols\r\n"),
    *(b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\n", b"HTTP/1.1 204 \r\n", b"\r\n"),
    *(b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Content-Encoding: gzip\r\n"),
    *(b"Content-Encoding: deflate\r\n", b"Retry-After: 1\r\n", b"Retry-After: 9e9\r\n", b"0\r\n"),
    *(b"Retry-After: \xc2\xb2\r\n", b"Set-Cookie: a=b\r\n", b'"metadata":', b'"items":', b"null"),
    *(
        b'"continue":',
        b"[",
        b"]",
        b"{",
        b"}",
        b'"',
        b",",
        b":",
        b"\n",
        b"\\ud800",
        b"1e999",
        b"\xff",
    ),
)


def seeds() -> Iterator[bytes]:
    yield _sized(_LIST)
    yield _sized(_EVENT * 2 + _EXPIRED)
    packed = gzip.compress(_LIST)
    yield _sized(packed).replace(b"\r\n", b"\r\nContent-Encoding: gzip\r\n", 1)
    yield _HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(_EVENT), _EVENT)
    refusal = b'{"kind":"Status","message":"no","reason":"Forbidden","code":403}'
    yield _sized(refusal).replace(b"200 OK", b"403 Forbidden\r\nRetry-After: 3")
    yield b"\x15\x03\x01\x00\x02\x02\x16"


def _sized(content: bytes) -> bytes:
    return _HEAD + b"Content-Length: %d\r\n\r\n" % len(content) + content


@contextmanager
def opened() -> Iterator[Callable[[bytes], None]]:
    with asyncio.Runner() as runner:
        yield lambda data: runner.run(_run(data))


async def _run(data: bytes) -> None:
    connections: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(data)
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, ApiClient(lambda: Access(server=url)) as client:
        with suppress(ApiError):
            for item in (await client.list(SLICES))[0]:
                assert isinstance(item["metadata"], dict)
        with suppress(ApiError):
            async with client.watch(SLICES, resource_version="1") as events:
                async for kind, item in events:
                    assert isinstance(kind, str)
                    assert isinstance(item["metadata"], dict)
    if connections:
        await asyncio.wait(connections)
