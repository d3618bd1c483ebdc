"""Answers of the HTTP server to whatever is sent; and no one who connects can cost it much."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest
from genericdp.status.server import Limits, Response

from tests.polling import poll_until
from tests.resource_limits import spare_descriptors
from tests.status.http_server import (
    BIG,
    PATIENCE_SECONDS,
    Serving,
    answered,
    connections,
    request,
    serving,
)

HOST = b"Host: node-1\r\n"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_get_is_answered_with_its_length_and_headers_for_browsers(version: str) -> None:
    async with serving() as server:
        head, _, body = (await server.says(request("/x", version=version))).partition(b"\r\n\r\n")
        only_head = await server.says(request("/x", method="HEAD"))
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\ncontent-length: 3\r\n" in head
    assert b"\r\ncontent-security-policy: default-src 'none'; frame-ancestors 'none'" in head
    for header in (b"nosniff", b"no-referrer", b"no-store", b"DENY"):
        assert header in head
    assert body == b"/x\n"
    assert b"\r\ncontent-length: 3\r\n" in only_head
    assert only_head.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/status?x=/livez", "/status"),
        ("/status#x", "/status"),
        ("http://node-1:9733/status?x", "/status"),
        ("HTTP://node-1", "/"),
        ("//status", "//status"),
        ("/livez/../status", "/livez/../status"),
        ("/%73tatus", "/%73tatus"),
        ("/status;x", "/status;x"),
        ("?", ""),
        ("status", "status"),
        ("ftp://node-1/status", "ftp://node-1/status"),
    ],
)
async def test_a_path_is_taken_as_it_is_written(target: str, path: str) -> None:
    async with serving() as server:
        assert (await server.get(target)).startswith(b"HTTP/1.1 200 ")
        assert server.asked == [path]


def _refused() -> Iterator[object]:
    for method in ("POST", "CONNECT", "get"):
        yield pytest.param(request(method=method), b"405 Method Not Allowed", id=method)
    body = request("/", "Content-Length: 5")
    yield pytest.param(body + b"hello", b"413 ", id="body")
    yield pytest.param(body + request("/smuggled"), b"413 ", id="smuggled")
    yield pytest.param(request("/", "Content-Length: 5"), b"413 ", id="body-to-come")
    chunks = request("/", "Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n"
    yield pytest.param(chunks, b"413 ", id="chunks")
    yield pytest.param(request("/", "Expect: 100-continue", "Content-Length: 9"), b"413 ", id="100")
    both = request("/", "Transfer-Encoding: chunked", "Content-Length: 3") + b"0\r\n\r\n"
    yield pytest.param(both, b"413 ", id="length-and-chunks")
    yield pytest.param(request("/", "Content-Length: 1", "Content-Length: 2"), b"400 ", id="two")
    yield pytest.param(request("/", "Content-Length: -1"), b"400 ", id="negative")
    yield pytest.param(request("/", "Transfer-Encoding: gzip"), b"501 ", id="encoding")
    yield pytest.param(request("/", "X: a\0b"), b"400 ", id="nul-in-header")
    yield pytest.param(request("/", "X: y", " folded"), b"200 ", id="folded")
    yield pytest.param(request("/\0"), b"400 ", id="nul-in-path")
    yield pytest.param(request("/a b"), b"400 ", id="space-in-path")
    yield pytest.param(request("/ä"), b"400 ", id="not-ascii")
    yield pytest.param(request("/", version="2.0"), b"505 ", id="version")
    yield pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"505 ", id="http2")
    yield pytest.param(b"GET / HTTP/1.1\r\n\r\n", b"400 ", id="no-host")
    yield pytest.param(b"GET /\r\n\r\n", b"400 ", id="http-0.9")
    yield pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n", b"400 ", id="tls")
    yield pytest.param(b"\0" * 9000, b"400 ", id="zeros")
    yield pytest.param(b"hello\r\n\r\n", b"400 ", id="garbage")
    yield pytest.param(b"\r\n" * 100 + request(), b"400 ", id="empty-lines")
    yield pytest.param(request("/" + "x" * 70_000), b"431 ", id="long-path")
    yield pytest.param(request("/", "X: " + "x" * 70_000), b"431 ", id="long-header")
    yield pytest.param(request("/", *["X: y"] * 20_000), b"431 ", id="many-headers")


@pytest.mark.parametrize(("data", "status"), tuple(_refused()))
async def test_what_is_no_request_of_ours_is_refused(data: bytes, status: bytes) -> None:
    async with serving() as server:
        said = await server.says(data)
        assert said.startswith(b"HTTP/1.1 " + status), said[:100]
        assert b"100 Continue" not in said
        assert b"bytearray" not in said
        assert said.count(b"HTTP/1.1") == 1
        assert (b"\r\nallow: GET, HEAD\r\n" in said) is status.startswith(b"405")
        if status != b"200 ":
            assert server.asked == []
        assert (await server.get("/after")).endswith(b"/after\n")


async def test_a_connection_ends_after_one_response() -> None:
    """Whatever is requested: no one holds one that is not used."""
    async with serving() as server:
        first = b"GET /a HTTP/1.1\r\n" + HOST + b"Connection: keep-alive\r\n\r\n"
        said = await server.says(first * 5)
        assert said.count(b"HTTP/1.1 200 ") == 1
        assert b"\r\nconnection: close\r\n" in said
        assert said.endswith(b"/a\n")
        assert server.asked == ["/a"]
        await server.are_left(0)


async def test_one_who_has_ended_his_side_is_answered() -> None:
    async with serving() as server:
        data = b"GET /x HTTP/1.1\r\n" + HOST + b"\r\n"
        assert (await server.says(data, half_closed=True)).endswith(b"/x\n")
        cut = await server.says(b"GET /x HT", half_closed=True)
        assert cut.startswith(b"HTTP/1.1 400 ")
        assert await server.says(b"", half_closed=True) == b""


async def test_a_mistake_of_ours_is_500_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving() as server:
        assert (await server.get("/wrong")).startswith(b"HTTP/1.1 500 ")
        assert (await server.get("/right")).endswith(b"/right\n")
    (record,) = caplog.records
    assert record.getMessage() == "/wrong cannot be answered"
    assert "KeyError: 'a mistake of ours'" in caplog.text


CROWD = 300
PIECE = b"GET /livez HTTP/1.1\r\nHost: no"


@asynccontextmanager
async def crowd(server: Serving, count: int, data: bytes) -> AsyncIterator[list[socket.socket]]:
    """This many connections that have sent this and wait."""
    loop, sockets = asyncio.get_running_loop(), []
    try:
        for _ in range(count):
            entry = socket.socket()
            sockets.append(entry)
            entry.setblocking(False)
            await loop.sock_connect(entry, ("127.0.0.1", server.port))
            with suppress(ConnectionError):  # it may have had to go already
                await loop.sock_sendall(entry, data)
        yield sockets
    finally:
        for entry in sockets:
            entry.close()


async def is_over(entry: socket.socket) -> bool:
    """Wait until the other side has ended it."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await asyncio.get_running_loop().sock_recv(entry, 1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("data", [b"", PIECE, request("/big")], ids=["silent", "slow", "unread"])
async def test_hundreds_that_wait_keep_nobody_from_being_answered(data: bytes) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < CROWD * 2:
        pytest.skip("needs more descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        async with serving() as server:
            async with crowd(server, CROWD, data):
                for at in range(10):
                    assert (await server.get(f"/{at}")).endswith(b"/%d\n" % at)
                    assert connections() <= Limits().connections + 1
            assert (await server.get("/after")).endswith(b"/after\n")
            await server.are_left(0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_at_the_limit_the_oldest_without_a_complete_request_goes() -> None:
    async with serving(limits=Limits(connections=3)) as server, crowd(server, 3, PIECE) as sockets:
        await server.are_left(3)
        assert (await server.get("/x")).endswith(b"/x\n")
        assert await is_over(sockets[0])
        sockets[1].send(b"de-1\r\n\r\n")
        said = await asyncio.get_running_loop().sock_recv(sockets[1], 99)
        assert said.startswith(b"HTTP/1.1 200")


async def test_one_that_is_being_answered_does_not_go_as_long_as_others_wait() -> None:
    go_on = asyncio.Event()

    async def slowly(path: str) -> Response:
        if path == "/slow":
            await go_on.wait()
        return await answered(path)

    async with (
        serving(slowly, limits=Limits(connections=3)) as server,
        asyncio.TaskGroup() as tasks,
    ):
        slow = tasks.create_task(server.get("/slow"))
        await poll_until(lambda: len(server.asked) == 1)
        async with crowd(server, 20, b""):
            assert (await server.get("/x")).endswith(b"/x\n")
            go_on.set()
            assert (await slow).endswith(b"/slow\n")


@pytest.mark.parametrize("data", [b"", b"\r\n", PIECE])
async def test_who_does_not_end_his_request_is_not_waited_for(data: bytes) -> None:
    async with serving(limits=Limits(request=0.2)) as server, crowd(server, 1, data):
        await server.are_left(1)
        await server.are_left(0)


async def test_bytes_that_trickle_buy_no_time() -> None:
    async with serving(limits=Limits(request=0.3)) as server, crowd(server, 1, PIECE) as (only,):
        with pytest.raises(ConnectionError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    only.send(b"x")
                    await asyncio.sleep(0.02)  # noqa: TID251 -- a slow client


async def test_who_does_not_take_his_response_is_not_waited_for() -> None:
    async with serving(limits=Limits(response=0.2)) as server, crowd(server, 5, request("/big")):
        await poll_until(
            lambda: len(server.asked) == 5
        )  # the first may be gone before the last asks
        await server.are_left(0)


@pytest.mark.parametrize(("is_shared", "left"), [(False, 2), (True, 5)])
async def test_clients_that_take_nothing_keep_few_different_bodies(
    is_shared: bool, left: int
) -> None:
    """64 of them kept 64 bodies of /status for half a minute."""

    async def answer(path: str) -> Response:
        return Response(status=200, body=BIG if is_shared else bytes(len(BIG)))

    limits = Limits(unsent_bytes=2 * len(BIG))
    async with serving(answer, limits=limits) as server, crowd(server, 5, request("/status")):
        await poll_until(lambda: len(server.asked) == 5)
        await server.are_left(left)
        assert (await server.get("/status")).endswith(BIG)


async def test_a_body_above_the_limit_is_sent() -> None:
    async with serving(limits=Limits(unsent_bytes=1)) as server, crowd(server, 1, request("/big")):
        await server.are_left(1)
        assert (await server.get("/big")).endswith(BIG)


async def test_who_sends_on_after_a_refusal_is_told_nevertheless() -> None:
    """An end without reading would take the response along."""
    body = b"x" * 200_000
    async with serving() as server:
        said = await server.says(request("/", f"Content-Length: {len(body)}") + body)
        assert said.startswith(b"HTTP/1.1 413 ")
        await server.are_left(0)


async def test_where_descriptors_run_short_who_waits_makes_room() -> None:
    async with serving() as server:
        async with crowd(server, 5, b""):
            await server.are_left(5)
            with spare_descriptors(1):  # for the client's own end
                assert (await server.get("/x")).endswith(b"/x\n")
        await server.are_left(0)
