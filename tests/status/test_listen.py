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


def port_of(one: socket.socket) -> int:
    return int(one.getsockname()[1])


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "BIND_AGAIN_SECONDS", 0.01)


async def reached(host: str, port: int) -> bool:
    """Whether somebody listens there."""
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


async def test_an_address_in_use_is_waited_for_and_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With host network, the next daemon starts while the one before it has the port."""
    caplog.set_level(logging.INFO)
    (first,) = bind_sockets(ANYWHERE)
    address, tries = Address(host="127.0.0.1", port=port_of(first)), 0

    def bind(address: Address) -> list[socket.socket]:
        nonlocal tries
        tries += 1
        if tries == 4:
            first.close()
        return bind_sockets(address)

    monkeypatch.setattr(listen, "bind_sockets", bind)
    (one,) = await listening(address)
    assert await reached("127.0.0.1", address.port)
    one.close()
    assert [record.getMessage() for record in caplog.records] == [
        f"cannot listen on {address}: address already in use; devices are served meanwhile, and it"
        " is tried again each 0.01 s",
        f"endpoints at http://127.0.0.1:{address.port}/",
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
    def bind(_: Address) -> list[socket.socket]:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(listen, "bind_sockets", bind)
    with pytest.raises(UsageError, match=f"^cannot listen on 127.0.0.1:0: {why}"):
        await listening(ANYWHERE)


async def test_an_address_that_this_machine_does_not_have_is_waited_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes later: by DHCP, or when a virtual one moves here. Devices are served meanwhile."""
    caplog.set_level(logging.INFO)
    nobodys, tries = Address(host="192.0.2.1", port=9733), 0  # for documentation

    def bind(address: Address) -> list[socket.socket]:
        nonlocal tries
        tries += 1
        return bind_sockets(address if tries < 4 else ANYWHERE)

    monkeypatch.setattr(listen, "bind_sockets", bind)
    (one,) = await listening(nobodys)
    port = port_of(one)
    one.close()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "ERROR",
            "cannot listen on 192.0.2.1:9733: this machine does not have that address; devices are"
            " served meanwhile, and it is tried again each 0.01 s",
        ),
        ("INFO", f"endpoints at http://127.0.0.1:{port}/"),
    ]


@pytest.mark.parametrize("numbers", [(errno.EADDRINUSE, errno.EADDRNOTAVAIL), ()])
async def test_what_was_possible_before_is_waited_for(
    numbers: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    def bind(address: Address) -> list[socket.socket]:
        nonlocal tries
        tries += 1
        if tries <= 2:
            raise OSError((*numbers, errno.EACCES, errno.EACCES)[tries - 1], "not now")
        return bind_sockets(address)

    monkeypatch.setattr(listen, "bind_sockets", bind)
    (one,) = await listening(ANYWHERE, has_been=not numbers)
    one.close()


async def test_all_addresses_are_those_of_both_versions() -> None:
    (one,) = bind_sockets(Address(host="", port=0))
    assert await reached("127.0.0.1", port_of(one))
    if one.family == socket.AF_INET6:
        assert await reached("::1", port_of(one))
    one.close()


async def test_an_address_of_a_link_is_bound_at_its_interface() -> None:
    """With ``one.bind((host, port))`` the interface is lost: invalid argument."""
    listed = Path("/proc/net/if_inet6")
    found = map(str.split, listed.read_text().splitlines() if listed.exists() else [])
    for digits, _, _, scope, _, name in found:
        if scope == "20":  # a link
            host = ":".join(digits[at : at + 4] for at in range(0, 32, 4))
            (one,) = bind_sockets(parse_listen_address(f"[{host}%{name}]:0"))
            one.close()
            return
    pytest.skip("no link of this machine has an address of IPv6")


async def test_localhost_is_nobody_elses() -> None:
    sockets = bind_sockets(Address(host="localhost", port=0))
    assert len({port_of(one) for one in sockets}) == 1
    assert {one.getsockname()[0] for one in sockets} <= {"127.0.0.1", "::1"}
    assert await reached("127.0.0.1", port_of(sockets[0]))
    for one in sockets:
        one.close()
