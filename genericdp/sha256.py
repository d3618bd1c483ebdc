"""SHA-256 of short texts without OpenSSL, of which four megabytes would be resident."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class _Hash(Protocol):
    def digest(self) -> bytes: ...
    def hexdigest(self) -> str: ...


def _lean() -> Callable[[bytes], _Hash]:
    """Find Python's own, as the library's ``random`` does; hashlib's where there is none."""
    from importlib import import_module

    for name in ("_sha2", "_sha256"):  # from 3.12 on, and up to 3.11
        try:
            found: Callable[[bytes], _Hash] = import_module(name).sha256
        except (ImportError, AttributeError):
            continue
        return found
    import hashlib

    return hashlib.sha256


_sha256 = _lean()


def digest(text: bytes) -> bytes:
    """Give the 32 bytes."""
    return _sha256(text).digest()


def hexdigest(text: bytes) -> str:
    """Give them as 64 hexadecimal digits, in small letters."""
    return _sha256(text).hexdigest()
