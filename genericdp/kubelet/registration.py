"""Calls over gRPC: the registration of a socket with the kubelet, and the check before it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import grpc

from genericdp.errors import KubeletError
from genericdp.host.descriptors import count
from genericdp.kubelet.folder import KUBELET_SOCKET
from genericdp.kubelet.server import SERVICE, VERSION
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api

if TYPE_CHECKING:
    from pathlib import Path

GRPC_VERSION: str = grpc.__version__

_CHANNEL_OPTIONS = (
    # By default gRPC sends the escaped path, which strict servers refuse (TRN-1).
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    # Channels to one address share a connection otherwise: each attempt needs its own (REG-3).
    ("grpc.use_local_subchannel_pool", 1),
    # A node's pods with tens of thousands of devices pass the 4 MiB of the default (PRS-1).
    # What such an answer becomes in memory is limited where it is read.
    ("grpc.max_receive_message_length", 8 * 1024 * 1024),
)

_PERMANENT = re.compile(r"not supported by kubelet|the ResourceName .* is invalid", re.DOTALL)

_NO_SERVER = re.compile(r"connect failed: .*(Connection refused|No such file or directory)")
"""What gRPC says about a socket without a server, or one that has just been removed."""

_END_OF_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f]")
"""gRPC's text about a failed system call is followed by bytes of its own record."""


class RegistrationError(KubeletError):
    """The kubelet did not accept a registration; a ``permanent`` refusal is due to the config."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


async def call(socket: Path, method: str, request: bytes, *, timeout_seconds: float) -> bytes:
    """Call a method at a unix socket, on a connection of its own; raise AioRpcError."""
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=_CHANNEL_OPTIONS) as channel:
        caller: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        return await caller(request, timeout=timeout_seconds)


async def register(
    folder: Path,
    *,
    endpoint: str,
    resource: str,
    options: api.DevicePluginOptions,
    timeout_seconds: float,
) -> None:
    """Register the socket ``endpoint`` of the folder; raise RegistrationError.

    ``options`` is what the socket answers to GetDevicePluginOptions; old kubelets read it (REG-7).

    The kubelet calls the socket back before it answers (REG-1), for up to 10 s.
    """
    request = api.RegisterRequest(
        version=VERSION, endpoint=endpoint, resource_name=resource, options=options
    ).SerializeToString()
    method, socket = "/v1beta1.Registration/Register", folder / KUBELET_SOCKET
    try:
        await call(socket, method, request, timeout_seconds=timeout_seconds)
    except grpc.aio.AioRpcError as error:
        # Every refusal comes as UNKNOWN with a text (REG-8).
        text = _END_OF_TEXT.split(error.details() or error.code().name)[0]
        if _NO_SERVER.search(text):
            raise RegistrationError(
                "nobody listens at kubelet.sock: the kubelet is down, or is starting"
            ) from error
        raise RegistrationError(
            f"the kubelet did not take the registration: {text}",
            permanent=_PERMANENT.search(text) is not None,
        ) from error


async def check(socket: Path, *, timeout_seconds: float) -> None:
    """Call our own socket as the kubelet will: a bound socket may not be served yet (TRN-4).

    Raise KubeletError if it does not answer.
    """
    method = f"/{SERVICE}/GetDevicePluginOptions"
    try:
        await call(socket, method, b"", timeout_seconds=timeout_seconds)
    except grpc.aio.AioRpcError as error:
        short = ": descriptors run short" if count().is_short else ""
        raise KubeletError(f"our own socket does not answer{short}") from error
