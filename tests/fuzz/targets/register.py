"""Answers of a hostile kubelet to Register, as a call's status and as any bytes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from genericdp.errors import KubeletError
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.directory import KUBELET_SOCKET
from genericdp.kubelet.server import RegistrationError, check, register

from tests.fuzz.hostile import asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tests.fuzz.hostile import HostileKubelet


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return a frame of HTTP/2."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


SETTINGS = frame(4, 0, 0, b"")
WORDS = (
    *(b"\x00", b"\x01", b"\x80", b"not supported by kubelet", b'the ResourceName "', b"is invalid"),
    *(SETTINGS, frame(4, 1, 0, b""), frame(7, 0, 0, bytes(8)), frame(3, 0, 1, bytes(4))),
    *(frame(1, 5, 1, b"\x88"), frame(1, 4, 1, b"\x88"), frame(0, 0, 1, bytes(5)), b"\xff" * 9),
    *(b"\n", b"%", b"%ff", "é".encode(), b"HTTP/1.1 400 Bad Request\r\n\r\n"),
)


def seeds() -> Iterator[bytes]:
    yield b"\x00\x02" + b'the ResourceName "a" is invalid'
    yield b"\x00\x0d" + b"failed to dial device plugin: context deadline exceeded"
    yield b"\x00\xff" + b"\x0a\x01a"
    yield b"\x01" + SETTINGS + frame(4, 1, 0, b"") + frame(1, 5, 1, b"\x88")
    yield (
        b"\x01"
        + SETTINGS
        + frame(1, 4, 1, b"\x88\x5f\x10application/grpc")
        + frame(0, 1, 1, bytes(5))
    )
    yield b"\x01HTTP/1.1 200 OK\r\n\r\n"


def opened() -> AbstractContextManager[Callable[[bytes], None]]:
    return asked(_run)


async def _run(kubelet: HostileKubelet) -> None:
    directory, timeout = kubelet.how
    try:
        options = api.DevicePluginOptions()
        await register(
            directory / "e", "a/b", options, timeout_seconds=timeout, connected=lambda: None
        )
    except RegistrationError as error:
        str(error).encode("utf-8", "backslashreplace")
    with suppress(KubeletError):
        await check(directory / KUBELET_SOCKET, timeout_seconds=timeout)
