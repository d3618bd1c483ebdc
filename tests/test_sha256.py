from __future__ import annotations

import hashlib

import pytest

from genericdp import sha256


@pytest.mark.parametrize("text", [b"", b"example.com/serial", bytes(1000)])
def test_it_gives_what_everybody_gives(text: bytes) -> None:
    assert sha256.digest(text) == hashlib.sha256(text).digest()
    assert sha256.hexdigest(text) == hashlib.sha256(text).hexdigest()
