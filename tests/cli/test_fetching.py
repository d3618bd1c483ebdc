"""What is asked for is bounded in time from the host's name on."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from genericdp.address import Address
from genericdp.cli.fetching import fetch
from genericdp.errors import GenericdpError

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
NODE = Address(host="node-7.example.com", port=9733)


@contextmanager
def unanswered() -> Iterator[int]:
    """Give a port of 127.0.0.1 where connecting takes forever: its queue is full."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as server,
        socket.create_connection(server.getsockname()),
    ):
        yield server.getsockname()[1]


def let_it_mean(monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
    """Let every name have these addresses."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for port in ports]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


def test_many_addresses_have_the_time_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with unanswered() as port:
        let_it_mean(monkeypatch, *[port] * 200)
        begun = time.monotonic()
        with pytest.raises(GenericdpError, match=r"^node-7\.example\.com:9733 does not answer$"):
            fetch(NODE, "/status", seconds=0.5)
        assert time.monotonic() - begun < 50


def test_an_address_where_nobody_answers_leaves_time_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    def answer(server: socket.socket) -> None:
        one, _ = server.accept()
        with one:
            one.recv(65_536)
            one.sendall(ANSWER)

    with unanswered() as silent, socket.create_server(("127.0.0.1", 0)) as server:
        let_it_mean(monkeypatch, silent, server.getsockname()[1])
        thread = threading.Thread(target=answer, args=(server,), daemon=True)
        thread.start()
        assert fetch(NODE, "/status", seconds=4) == b"{}"
        thread.join(60)


def test_a_name_server_that_never_answers_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = threading.Event()

    def ask(*_: object, **__: object) -> list[object]:
        over.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    with pytest.raises(GenericdpError, match="does not answer"):
        fetch(NODE, "/status", seconds=0.2)
    over.set()
