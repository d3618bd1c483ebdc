"""Any bytes to our socket: whoever calls it properly goes on being answered."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from genericdp.kubelet.server import SERVICE
from tests.fuzz.targets.calls import calling
from tests.polling import poll_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import grpc

SECONDS = 30.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_MOST_DESCRIPTORS = 100


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Give a frame of HTTP/2."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def headers(path: str, stream: int = 1) -> bytes:
    """Give the start of a call: literals, neither indexed nor coded by Huffman."""
    pairs = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    block = b"".join(
        b"\0" + bytes([len(text)]) + text.encode() for pair in pairs.items() for text in pair
    )
    return frame(1, 4, stream, block)


SETTINGS = frame(4, 0, 0, b"")
OPTIONS = headers(f"/{SERVICE}/GetDevicePluginOptions")
ALLOCATE = headers(f"/{SERVICE}/Allocate")
WATCH = headers(f"/{SERVICE}/ListAndWatch")
EMPTY = frame(0, 1, 1, bytes(5))
WORDS = (
    *(PREFACE, SETTINGS, OPTIONS, ALLOCATE, WATCH, EMPTY, frame(4, 1, 0, b"")),
    *(frame(3, 0, 1, bytes(4)), frame(6, 0, 0, bytes(8)), frame(7, 0, 0, bytes(8))),
    *(frame(8, 0, 0, b"\x7f\xff\xff\xff"), frame(9, 4, 1, b"\x82"), frame(5, 4, 1, bytes(4))),
    *(frame(0, 1, 1, b"\0\xff\xff\xff\xff"), frame(0, 1, 1, b"\1" + bytes(4)), b"\xff" * 9),
    *(frame(4, 0, 0, b"\0\4\xff\xff\xff\xff"), frame(4, 0, 0, b"\0\1\xff\xff\xff\xff")),
)


def seeds() -> Iterator[bytes]:
    yield b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    yield PREFACE
    yield PREFACE + SETTINGS + OPTIONS + EMPTY
    yield PREFACE + SETTINGS + ALLOCATE + frame(0, 1, 1, b"\0\0\0\0\2\xff\xff")
    yield PREFACE + SETTINGS + WATCH + EMPTY
    yield PREFACE + SETTINGS + WATCH + EMPTY + frame(3, 0, 1, bytes(4))
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64)


@contextmanager
def opened() -> Iterator[Callable[[bytes], None]]:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        socket, channel = runner.run(stack.enter_async_context(calling()))
        try:
            yield lambda data: runner.run(_run(data, socket, channel))
        finally:
            runner.run(stack.aclose())


async def _run(data: bytes, socket: Path, channel: grpc.aio.Channel) -> None:
    reader, writer = await asyncio.open_unix_connection(socket)
    with suppress(ConnectionError, TimeoutError):
        writer.write(data)
        await writer.drain()
        # What it answers is its affair; a moment, so that it reads before the end comes.
        async with asyncio.timeout(0.002):
            await reader.read(65_536)
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        f"/{SERVICE}/GetDevicePluginOptions"
    )
    await call(b"", timeout=20)
    if data and data[-1] == 0:
        await _closed()


async def _closed() -> None:
    """Wait until the server has given up the connections that have ended."""
    await poll_until(lambda: len(os.listdir("/proc/self/fd")) <= _MOST_DESCRIPTORS, seconds=20)
