"""Addresses as a flag gives them."""

from __future__ import annotations

import pytest
from genericdp.settings import Address, parse_listen_address, parse_server_address
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":9733", "", 9733),
        ("127.0.0.1:1", "127.0.0.1", 1),
        ("0.0.0.0:65535", "0.0.0.0", 65535),
        ("localhost:0", "localhost", 0),
        ("[::1]:9733", "::1", 9733),
        ("[::]:09733", "::", 9733),
        ("[fe80::1%eth0]:1", "fe80::1%eth0", 1),
    ],
)
def test_an_address_is_taken(text: str, host: str, port: int) -> None:
    assert parse_listen_address(text) == Address(host=host, port=port)


@pytest.mark.parametrize(
    "text",
    [
        *("", "9733", "localhost", "127.0.0.1", ":", "::1:9733", "[::1]", "[]:1", "[127.0.0.1]:1"),
        *("::", "example.com:80", "127.0.0.1:x", "127.0.0.1:-1", "127.0.0.1:65536", ":99999999"),
        *("127.1:1", "256.0.0.1:1", "http://127.0.0.1:1", "127.0.0.1:1/", " :1", ":1\n", ":\u0661"),
        *("[localhost]:1", "a:b@c:1", "127.0.0.1%eth0:1", "[::ffff:127.0.0.1]:1"),
    ],
)
def test_what_is_none_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no|is greater than 65535") as caught:
        parse_listen_address(text)
    assert repr(text) in str(caught.value)
    assert ("give 127.0.0.1 instead" in str(caught.value)) is ("ffff" in text)


@given(st.text(alphabet="0123456789.:[]%abclo", max_size=24))
def test_what_is_taken_is_written_as_it_was_meant_and_can_be_asked(text: str) -> None:
    try:
        address = parse_listen_address(text)
    except ValueError:
        return
    assert parse_listen_address(str(address)) == address
    if address.port:
        host = address.host or "127.0.0.1"
        assert parse_server_address(text) == Address(host=host, port=address.port)
