"""Sockets to listen at: at once, later, or never."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from pathlib import Path

import pytest
from genericdp.errors import UsageError
from genericdp.settings import Address, parse_listen_address
from genericdp.status import listen
from genericdp.status.listen import bind_sockets, listening

from tests.status.http_server import ANYWHERE


def port_of(entry: socket.socket) -> int:
    return int(entry.getsockname()[1])


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "BIND_AGAIN_SECONDS", 0.01)


async def reached(host: str, port: int) -> bool:
    """Return whether someone listens there."""
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


def failing(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    """Let each next try to listen fail with one of these, then listen anywhere."""
    left = [*numbers]

    def bind(_: Address) -> list[socket.socket]:
        if left:
            raise OSError(number := left.pop(0), os.strerror(number))
        return bind_sockets(ANYWHERE)

    monkeypatch.setattr(listen, "bind_sockets", bind)


@pytest.mark.parametrize(
    ("number", "level", "why"),
    [
        (errno.EADDRINUSE, "WARNING", "address already in use"),
        (errno.EADDRNOTAVAIL, "ERROR", "this machine does not have that address"),
    ],
)
async def test_an_address_that_cannot_be_had_yet_is_waited_for_and_said_once(
    number: int,
    level: str,
    why: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The daemon before this one has it, or it comes later: by DHCP, or when it moves here."""
    caplog.set_level(logging.INFO)
    failing(monkeypatch, *[number] * 3)
    (listener,) = await listening(Address(host="192.0.2.1", port=9733))
    port = port_of(listener)
    assert await reached("127.0.0.1", port)
    listener.close()
    said = f"cannot listen on 192.0.2.1:9733: {why}; devices are served meanwhile, and it is tried"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (level, f"{said} again each 0.01 s"),
        ("INFO", f"endpoints at http://127.0.0.1:{port}/"),
    ]


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.EACCES, "no permission to use that port: take one from 1024 on"),
        (errno.EINVAL, "it is not an address to bind"),
        (errno.EAFNOSUPPORT, "this machine does not speak that version of IP"),
    ],
)
async def test_what_can_never_be_is_a_mistake_of_who_asked_for_it(
    number: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, number)
    with pytest.raises(UsageError, match=f"^cannot listen on 127.0.0.1:0: {why}"):
        await listening(ANYWHERE)


@pytest.mark.parametrize("first", [(errno.EADDRINUSE, errno.EADDRNOTAVAIL), ()])
async def test_what_was_possible_before_is_waited_for(
    first: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, *(first or (errno.EACCES, errno.EACCES)))
    (listener,) = await listening(ANYWHERE, has_been=not first)
    listener.close()


async def test_all_addresses_are_those_of_both_versions() -> None:
    (listener,) = bind_sockets(Address(host="", port=0))
    assert await reached("127.0.0.1", port_of(listener))
    if listener.family == socket.AF_INET6:
        assert await reached("::1", port_of(listener))
    listener.close()


async def test_an_address_of_a_link_is_bound_at_its_interface() -> None:
    """With ``one.bind((host, port))`` the interface is lost: invalid argument."""
    listed = Path("/proc/net/if_inet6")
    found = map(str.split, listed.read_text().splitlines() if listed.exists() else [])
    for digits, _, _, scope, _, name in found:
        if scope == "20":  # a link
            host = ":".join(digits[at : at + 4] for at in range(0, 32, 4))
            (listener,) = bind_sockets(parse_listen_address(f"[{host}%{name}]:0"))
            listener.close()
            return
    pytest.skip("no link of this machine has an address of IPv6")


async def test_localhost_is_nobody_elses() -> None:
    sockets = bind_sockets(Address(host="localhost", port=0))
    assert len({port_of(each_socket) for each_socket in sockets}) == 1
    assert {entry.getsockname()[0] for entry in sockets} <= {"127.0.0.1", "::1"}
    assert await reached("127.0.0.1", port_of(sockets[0]))
    for item in sockets:
        item.close()
