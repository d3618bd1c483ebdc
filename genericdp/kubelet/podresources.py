"""Asking the kubelet which pod holds which devices: the only call that tells (PRS-1)."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import grpc
from google.protobuf.message import DecodeError

from genericdp.errors import KubeletError
from genericdp.kubelet.channels import channel
from genericdp.kubelet.v1 import podresources_pb2 as api

if TYPE_CHECKING:
    from pathlib import Path

_MOST_BYTES = 64 * 1024 * 1024
"""A node's pods with tens of thousands of devices pass the 4 MiB that gRPC takes by default."""


async def pods(socket: Path, *, timeout_seconds: float) -> bytes:
    """Ask for all pods, as ``held_shares`` takes them; raises KubeletError.

    Asking too often is refused: a kubelet answers 100 calls in a second, all callers together.
    """
    _check(socket)
    async with channel(socket, max_receive_message_length=_MOST_BYTES) as connection:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = connection.unary_unary(
            "/v1.PodResourcesLister/List"
        )
        try:
            return await call(b"", timeout=timeout_seconds)
        except grpc.aio.AioRpcError as error:
            raise KubeletError(_why(error, timeout_seconds)) from error


def _check(socket: Path) -> None:
    # grpc says of all of these that it could not connect.
    try:
        mode = socket.stat().st_mode
    except FileNotFoundError as error:
        raise KubeletError(f"there is no {socket}") from error
    except OSError as error:
        raise KubeletError(f"{socket}: {(error.strerror or '').lower()}") from error
    if not stat.S_ISSOCK(mode):
        raise KubeletError(f"{socket} is no socket")


def _why(error: grpc.aio.AioRpcError, timeout_seconds: float) -> str:
    match error.code():
        case grpc.StatusCode.UNAVAILABLE:
            return "nobody answers there"  # grpc's own text is long and has times in it
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"no answer within {timeout_seconds:g} s"
        case code:
            return f"{code.name}: {error.details()}"


def held_shares(answer: bytes) -> dict[str, set[str]]:
    """Give what the containers of all pods hold, by resource; raises KubeletError.

    Init containers that end are not among them: no kubelet tells of these.
    """
    try:
        listed = api.ListPodResourcesResponse.FromString(answer)
    except DecodeError as error:
        raise KubeletError("the answer is no ListPodResourcesResponse") from error
    held: dict[str, set[str]] = {}
    for pod in listed.pod_resources:
        for container in pod.containers:
            for devices in container.devices:
                held.setdefault(devices.resource_name, set()).update(devices.device_ids)
    return held
