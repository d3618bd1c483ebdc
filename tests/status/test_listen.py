"""Sockets to listen at: at once, later, or never."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

import pytest
from genericdp.errors import UsageError
from genericdp.settings import Address, parse_listen_address
from genericdp.status.listen import bind_sockets, listening

IMPOSSIBLE = Address(host="fe80::1", port=9733)
"""An address of a link, without the name of an interface."""


def port_of(entry: socket.socket) -> int:
    return int(entry.getsockname()[1])


async def reached(host: str, port: int) -> bool:
    """Return whether someone listens there."""
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


async def waits_for(address: Address, *, has_been: bool) -> bool:
    """Return whether it is tried again, which takes two seconds."""
    try:
        async with asyncio.timeout(0.1):
            await listening(address, has_been=has_been)
    except TimeoutError:
        return True
    return False


async def test_an_address_that_may_come_is_waited_for_which_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By DHCP, or when it moves here. For one in use, see the daemon's tests."""
    assert await waits_for(Address(host="192.0.2.1", port=9733), has_been=False)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith(
        "cannot listen on 192.0.2.1:9733: this machine does not have that address; devices are"
    )


async def test_what_can_never_be_is_a_mistake_unless_it_was_possible_before() -> None:
    with pytest.raises(UsageError, match=r"^cannot listen on \[fe80::1\]:9733: it is not an addre"):
        await listening(IMPOSSIBLE)
    assert await waits_for(IMPOSSIBLE, has_been=True)


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
