"""Addresses to listen on: ``HOST:PORT``, ``[V6]:PORT``, or ``:PORT`` for all addresses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

_WRITTEN = re.compile(r"(?:\[(?P<v6>[^][\s/@]*)\]|(?P<host>[^][\s/@:]*)):0*(?P<port>[0-9]{1,5})")
_LAST_PORT = 65535
_FORM = "HOST:PORT, [IPV6]:PORT or :PORT, where HOST is an IP address or localhost"


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Where to listen, or whom to ask."""

    host: str
    """An IP address, ``localhost``, or nothing: all addresses."""
    port: int
    """0: any that is free."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def listening_address_of(text: str) -> Address:
    """Take an address to listen on; raises ValueError, which says what is wrong with it.

    No names but ``localhost``: what they mean may change, and asking may take its time.
    """
    written = _WRITTEN.fullmatch(text)
    if written is None:
        raise ValueError(f"{text!r} is no address (give {_FORM})")
    host = written["v6"] if written["v6"] is not None else written["host"]
    if written["v6"] is not None or host not in {"", "localhost"}:
        _check(host, wants_v6=written["v6"] is not None, text=text)
    port = int(written["port"])
    if port > _LAST_PORT:
        raise ValueError(f"the port of {text!r} is greater than {_LAST_PORT}")
    return Address(host=host, port=port)


def asked_address_of(text: str) -> Address:
    """Take an address to ask at; raises ValueError. Any name is one, and none is this machine."""
    written = _WRITTEN.fullmatch(text)
    if written is None or not 0 < int(written["port"]) <= _LAST_PORT:
        raise ValueError(f"{text!r} is no address to ask at")
    if written["v6"] is not None:
        IPv6Address(written["v6"])
    return Address(host=written["v6"] or written["host"] or "127.0.0.1", port=int(written["port"]))


def _check(host: str, *, wants_v6: bool, text: str) -> None:
    try:
        address = ip_address(host)
    except ValueError:
        address = None
    if address is None or (address.version == 6) != wants_v6:
        raise ValueError(f"{host!r} in {text!r} is no IP address (give {_FORM})")
    if isinstance(address, IPv6Address) and (meant := address.ipv4_mapped) is not None:
        raise ValueError(f"{host!r} in {text!r} is no address of its own: give {meant} instead")
