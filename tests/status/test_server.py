"""Test what is answered to whom, whatever is sent."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from tests.status.http_server import request, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = b"Host: node-1\r\n"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_get_is_answered_with_its_length_and_headers_for_browsers(version: str) -> None:
    async with serving() as server:
        head, _, body = (await server.says(request("/x", version=version))).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\ncontent-length: 3\r\n" in head
    assert b"\r\ncontent-security-policy: default-src 'none'; frame-ancestors 'none'" in head
    for header in (b"nosniff", b"no-referrer", b"no-store", b"DENY"):
        assert header in head
    assert body == b"/x\n"


async def test_head_is_answered_by_the_headers_alone() -> None:
    async with serving() as server:
        head, _, body = (await server.says(request("/x", method="HEAD"))).partition(b"\r\n\r\n")
    assert b"\r\ncontent-length: 3\r\n" in head
    assert body == b""


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
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT", "get"):
        yield pytest.param(request(method=method), b"405 Method Not Allowed", id=method)
    body = request("/", "Content-Length: 5") + b"hello"
    yield pytest.param(body, b"413 ", id="body")
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
        if status != b"200 ":
            assert server.asked == []
        assert (await server.get("/after")).endswith(b"/after\n")


async def test_another_method_is_told_which_there_are() -> None:
    async with serving() as server:
        assert b"\r\nallow: GET, HEAD\r\n" in await server.says(request(method="POST"))


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


async def test_what_follows_a_refused_body_is_no_request() -> None:
    """Nothing is smuggled: what cannot be distinguished from a body ends the connection."""
    async with serving() as server:
        said = await server.says(
            b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\n" + request("/smuggled")
        )
        assert said.count(b"HTTP/1.1") == 1
        assert server.asked == []


async def test_one_who_has_ended_his_side_is_answered() -> None:
    async with serving() as server:
        data = b"GET /x HTTP/1.1\r\n" + HOST + b"\r\n"
        assert (await server.says(data, half_closed=True)).endswith(b"/x\n")
        cut = await server.says(b"GET /x HT", half_closed=True)
        assert cut.startswith(b"HTTP/1.1 400 ")
        assert await server.says(b"", half_closed=True) == b""


async def test_a_mistake_of_ours_is_500_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with serving() as server:
        assert (await server.get("/wrong")).startswith(b"HTTP/1.1 500 ")
        assert (await server.get("/right")).endswith(b"/right\n")
    (record,) = caplog.records
    assert record.getMessage() == "/wrong cannot be answered"
    assert "KeyError: 'a mistake of ours'" in caplog.text
