"""Registering at a socket, also where descriptors run short: real limits."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from genericdp.errors import KubeletError
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.server import RegistrationError, check, keep_grpc, register

from tests.resource_limits import spare_descriptors

OPTIONS = api.DevicePluginOptions(pre_start_required=True)


async def registered(directory: Path, connected: Callable[[], object] = lambda: None) -> None:
    await register(directory / "e.sock", "a/b", OPTIONS, timeout_seconds=60, connected=connected)


@asynccontextmanager
async def taking(path: Path) -> AsyncIterator[list[api.RegisterRequest]]:
    """Take registrations at a path; give the list that they are in."""
    taken: list[api.RegisterRequest] = []

    async def take(request: bytes, _: object) -> bytes:
        taken.append(api.RegisterRequest.FromString(request))
        return b""

    server = grpc.aio.server()
    methods: dict[str, Any] = {"Register": grpc.unary_unary_rpc_method_handler(take)}
    handler = grpc.method_handlers_generic_handler("v1beta1.Registration", methods)
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    yield taken
    await server.stop(None)


async def test_only_the_kubelet_that_was_looked_at_gets_the_registration(
    short_directory: Path,
) -> None:
    """KST-5: the next one may take its place at any moment, and would get two.

    REG-7: old kubelets read the options in it, newer ones ask the socket.
    """

    def replaced() -> None:
        raise KubeletError("new kubelet")

    current, following = short_directory / "kubelet.sock", short_directory / "next.sock"
    async with taking(current) as requests, taking(following) as next_requests:
        with pytest.raises(KubeletError, match="new kubelet"):
            await registered(short_directory, connected=replaced)
        assert requests == []
        await registered(short_directory, connected=lambda: following.rename(current))
        names = {"version": "v1beta1", "endpoint": "e.sock", "resource_name": "a/b"}
        assert requests == [api.RegisterRequest(options=OPTIONS, **names)]
        assert next_requests == []


async def test_a_lack_of_descriptors_is_not_taken_for_silence(short_directory: Path) -> None:
    """The reason is always the same, so that it is reported once: it names no socket.

    What gRPC says ends where its text does: it once put NUL bytes into the log.
    """
    keep_grpc()  # as the daemon does: gRPC aborts where it cannot open what it keeps
    with spare_descriptors(0):
        with pytest.raises(KubeletError) as caught:
            await check(short_directory / "genericdp-1.sock", timeout_seconds=5)
        with pytest.raises(RegistrationError) as caught_register:
            await registered(short_directory)
    assert str(caught.value) == "our own socket does not answer: there are too few file descriptors"
    said = str(caught_register.value)
    assert (said.endswith("Too many open files"), said.isprintable()) == (True, True)


@pytest.mark.parametrize("is_left", [True, False], ids=["left", "gone"])
async def test_a_kubelet_that_is_down_has_refused_nothing(
    short_directory: Path, is_left: bool
) -> None:
    """Someone who reads this at night should look for the kubelet, not at the name."""
    if is_left:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.bind(str(short_directory / "kubelet.sock"))
    with pytest.raises(RegistrationError, match=r"^kubelet\.sock is not listening: ") as caught:
        await registered(short_directory)
    assert not caught.value.permanent
