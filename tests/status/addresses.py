"""Where tests listen."""

from __future__ import annotations

from genericdp.address import Address

ANYWHERE = Address(host="127.0.0.1", port=0)
