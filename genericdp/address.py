"""Network addresses: ``HOST:PORT``, ``[IPV6]:PORT``, or ``:PORT`` for all of the machine's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

_WRITTEN = re.compile(r"(?:\[(?P<v6>[^][\s/@]*)\]|(?P<host>[^][\s/@:]*)):0*(?P<port>[0-9]{1,5})")
_LAST_PORT = 65535
_FORM = "HOST:PORT, [IPV6]:PORT or :PORT, where HOST is an IP address or localhost"


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """An address to listen on, or to connect to."""

    host: str
    """An IP address, ``localhost``, or empty for all addresses."""
    port: int
    """0: any free one."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen_address(text: str) -> Address:
    """Parse an address to listen on; raises ValueError with what is wrong.

    ``localhost`` is the only name: others may resolve to something else later, and slowly.
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


def parse_server_address(text: str) -> Address:
    """Parse an address to connect to; raises ValueError. Without a host it is this machine."""
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
