"""Registering at a socket, also where descriptors run short: real limits."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from genericdp.errors import KubeletError
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.api import deviceplugin_pb2_grpc as rpc
from genericdp.kubelet.server import RegistrationError, check, keep_grpc, register

from tests.resource_limits import spare_descriptors

PATIENCE_SECONDS = 60


@pytest.fixture(autouse=True)
def _kept() -> None:
    """As in the daemon: without what it keeps, gRPC aborts where it cannot open it."""
    keep_grpc()


async def registered(directory: Path, connected: Callable[[], object] = lambda: None) -> None:
    options = api.DevicePluginOptions(pre_start_required=True)
    await register(
        directory / "e.sock", "a/b", options, timeout_seconds=PATIENCE_SECONDS, connected=connected
    )


class Registration(rpc.RegistrationServicer):
    """Takes every registration and keeps it."""

    def __init__(self) -> None:
        self.requests: list[api.RegisterRequest] = []

    async def Register(self, request: api.RegisterRequest, context: object) -> api.Empty:
        self.requests.append(request)
        return api.Empty()


@asynccontextmanager
async def listening(path: Path) -> AsyncIterator[list[api.RegisterRequest]]:
    """Take registrations at a path; give the list that they are in."""
    registration, server = Registration(), grpc.aio.server()
    rpc.add_RegistrationServicer_to_server(registration, server)
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    yield registration.requests
    await server.stop(None)


async def test_a_registration_names_version_endpoint_resource_and_options(
    short_directory: Path,
) -> None:
    """REG-7: old kubelets read the options here, newer ones ask the socket."""
    async with listening(short_directory / "kubelet.sock") as requests:
        await registered(short_directory)
    assert requests == [
        api.RegisterRequest(
            version="v1beta1",
            endpoint="e.sock",
            resource_name="a/b",
            options=api.DevicePluginOptions(pre_start_required=True),
        )
    ]


async def test_only_the_kubelet_that_was_looked_at_gets_the_registration(
    short_directory: Path,
) -> None:
    """KST-5: the next one may take its place at any moment, and would get two."""

    def replaced() -> None:
        raise KubeletError("new kubelet")

    current, next_socket = short_directory / "kubelet.sock", short_directory / "next.sock"
    async with listening(current) as requests, listening(next_socket) as next_requests:
        with pytest.raises(KubeletError, match="new kubelet"):
            await registered(short_directory, connected=replaced)
        assert requests == []
        await registered(short_directory, connected=lambda: next_socket.rename(current))
        assert (len(requests), next_requests) == (1, [])


async def test_a_lack_of_descriptors_is_not_taken_for_silence(short_directory: Path) -> None:
    """The reason is always the same, so that it is reported once: it names no socket.

    What gRPC says ends where its text does: it once put NUL bytes into the log.
    """
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
    with pytest.raises(RegistrationError) as caught:
        await registered(short_directory)
    assert str(caught.value) == (
        "kubelet.sock is not listening: the kubelet is down, or is starting"
    )
    assert not caught.value.permanent
