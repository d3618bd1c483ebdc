"""gRPC over unix sockets: servers, the server of a resource, and calls to the kubelet."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import re
import socket
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import grpc

from genericdp.errors import CallError, InvalidCallError, KubeletError, OverdueCallError, reason_of
from genericdp.host.descriptors import count
from genericdp.host.workers import finish
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.directory import KUBELET_SOCKET
from genericdp.observed import Observed, until
from genericdp.printing import plural

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path
    from typing import Any, TypeAlias

    from genericdp.kubelet.servicer import Servicer

    _ServicerContext: TypeAlias = grpc.aio.ServicerContext[bytes, bytes]

log = logging.getLogger(__name__)

VERSION = "v1beta1"
SERVICE = f"{VERSION}.DevicePlugin"

_MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of a request, which names at most the devices of a full list (LAW-6)."""
_MAX_PREFERRED_BYTES = 16 * 1024 * 1024
"""The maximum for GetPreferredAllocation, which names free and required devices for each
container.
"""
_OPTIONS = (("grpc.max_receive_message_length", _MAX_PREFERRED_BYTES),)
_STATUS = {
    InvalidCallError: grpc.StatusCode.INVALID_ARGUMENT,
    OverdueCallError: grpc.StatusCode.DEADLINE_EXCEEDED,
}
_LAST_ANSWER_SECONDS = 0.05
"""Time for gRPC to send the last answer."""
_PRIVATE = 0o177  # as umask: the socket is 0600; the kubelet is root (TRN-5)


GRPC_VERSION: str = grpc.__version__

_CHANNEL_OPTIONS = (
    # By default gRPC sends the escaped path, which strict servers refuse (TRN-1).
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    # Channels to one address share a connection otherwise: each attempt needs its own (REG-3).
    ("grpc.use_local_subchannel_pool", 1),
    # A node's pods with tens of thousands of devices pass the 4 MiB of the default (PRS-1).
    # The memory for such an answer is limited where it is parsed.
    ("grpc.max_receive_message_length", 8 * 1024 * 1024),
)

_PERMANENT = re.compile(r"not supported by kubelet|the ResourceName .* is invalid", re.DOTALL)

_NO_SERVER = re.compile(r"connect failed: .*(Connection refused|No such file or directory)")
"""gRPC's messages about a socket without a server, or one that has just been removed."""

_END_OF_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f]")
"""gRPC's text about a failed system call is followed by bytes of an internal record."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Streams:
    """The ListAndWatch streams of one server so far."""

    opened: int = 0
    ended: int = 0


@asynccontextmanager
async def listening(path: Path, servicer: Servicer) -> AsyncIterator[Observed[Streams]]:
    """Serve a resource as ``serving`` does; yield the streams that the kubelet opens.

    On exit, first wait until the calls in progress have been answered.
    """
    streams, calls = Observed(Streams()), servicer.in_progress

    async def options(_request: bytes, _context: _ServicerContext) -> bytes:
        return servicer.options.SerializeToString()

    async def list_and_watch(_request: bytes, _context: _ServicerContext) -> AsyncIterator[bytes]:
        streams.value = replace(streams.value, opened=streams.value.opened + 1)
        try:
            async for devices in servicer.device_lists():
                yield devices
        finally:
            streams.value = replace(streams.value, ended=streams.value.ended + 1)

    # Without (de)serializers, a handler receives and returns bytes.
    methods = {
        "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(options),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(list_and_watch),
        "Allocate": answering(servicer.allocate, calls),
        "GetPreferredAllocation": answering(
            servicer.preferred_allocation, calls, max_bytes=_MAX_PREFERRED_BYTES
        ),
        "PreStartContainer": answering(servicer.pre_start_container, calls),
    }
    async with serving(path, {SERVICE: methods}):
        try:
            yield streams
        finally:
            await finish(_drain(servicer))


async def _drain(servicer: Servicer) -> None:
    """Wait for the calls in progress, but no longer than an Allocate may take.

    If an Allocate is cut off, the kubelet rejects its pod for good. The streams stay open
    meanwhile: a kubelet closes the connection, and with it the call, when its stream ends.
    """
    calls = servicer.in_progress
    if not calls.value:
        return
    waiting_for = plural(calls.value, "call")
    log.info("stopping: waiting for %s of the kubelet", waiting_for)
    await until(lambda: not calls.value, calls, timeout_seconds=servicer.gate.timeouts.allocate)
    await asyncio.sleep(_LAST_ANSWER_SECONDS)


@asynccontextmanager
async def serving(
    path: Path, services: Mapping[str, dict[str, grpc.RpcMethodHandler[Any, Any]]]
) -> AsyncIterator[None]:
    """Serve services on a socket; replace one that is left there (TRN-3).

    Raise KubeletError if the socket cannot be created. On exit the server has stopped for good and
    the socket is missing (REG-11).
    """
    try:
        keep_grpc()
        server = grpc.aio.server(options=_OPTIONS)
    except RuntimeError as error:  # its thread: a limit on processes or memory
        raise KubeletError(f"cannot serve: {error}") from error
    server.add_generic_rpc_handlers(
        tuple(itertools.starmap(grpc.method_handlers_generic_handler, services.items()))
    )
    mask = os.umask(_PRIVATE)
    try:
        server.add_insecure_port(f"unix:{path}")
    except RuntimeError as error:
        raise KubeletError(f"cannot make a socket in {path.parent}: {_why(path)}") from error
    finally:
        os.umask(mask)
    try:
        # A start that is canceled half-way makes the stop fail, and the socket stays.
        await finish(server.start())
        yield
    finally:
        await finish(server.stop(grace=None))  # the socket must no longer exist (REG-11)


@cache
def keep_grpc() -> grpc.aio.Channel:
    """Keep gRPC's threads and descriptors while no server runs.

    Otherwise gRPC ends them with the last server and starts them with the next one, and aborts the
    process if a limit then allows no thread. Any channel keeps them; no call uses this one, so it
    never connects.
    """
    grpc.aio.init_grpc_aio()
    return grpc.aio.insecure_channel("unix:/nowhere")


def _why(path: Path) -> str:
    """Return why binding fails, by trying it: gRPC reports only that it failed."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(str(path))
    except OSError as error:
        return reason_of(error)
    path.unlink(missing_ok=True)
    return "binding failed"


def answering(
    call: Callable[[bytes], Awaitable[bytes]],
    in_progress: Observed[int],
    *,
    max_bytes: int = _MAX_BYTES,
) -> grpc.RpcMethodHandler[Any, Any]:
    """Return the handler of a method that accepts at most this many bytes.

    A CallError fails the call with its text. ``in_progress`` counts calls that have not ended.
    """

    async def answer(request: bytes, context: _ServicerContext) -> bytes:
        if (size := len(request)) > max_bytes:
            # Without ``abort``, whose exception would keep the request in memory.
            context.set_code(grpc.StatusCode.RESOURCE_EXHAUSTED)
            why = f"with a request of {size} bytes: at most {max_bytes} are taken"
            log.warning("a call %s", why)
            context.set_details(why)
            return b""
        in_progress.value += 1
        try:
            return await call(request)
        except CallError as error:
            status = _STATUS.get(type(error), grpc.StatusCode.FAILED_PRECONDITION)
            await context.abort(status, str(error))
            raise
        finally:
            in_progress.value -= 1

    return grpc.unary_unary_rpc_method_handler(answer)


class RegistrationError(KubeletError):
    """The kubelet did not accept a registration; a ``permanent`` refusal is due to the config."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


async def call(
    socket: Path,
    method: str,
    request: bytes,
    *,
    timeout_seconds: float,
    connected: Callable[[], object] | None = None,
) -> bytes:
    """Call a method at a unix socket, on a separate connection; raise AioRpcError.

    ``connected`` is called before anything is sent, once there is a connection or it has failed,
    and may raise.
    """
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=_CHANNEL_OPTIONS) as channel:
        if connected is not None:
            began = time.monotonic()
            with suppress(TimeoutError):  # the call reports it
                async with asyncio.timeout(timeout_seconds):
                    await _connect(channel)
            connected()
            timeout_seconds = max(0.001, timeout_seconds - (time.monotonic() - began))
        caller: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        return await caller(request, timeout=timeout_seconds)


async def _connect(channel: grpc.aio.Channel) -> None:
    """Wait until a channel is connected, or its first attempt has failed."""
    waiting = {grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING}
    while (state := channel.get_state(try_to_connect=True)) in waiting:
        await channel.wait_for_state_change(state)


async def register(
    path: Path,
    resource: str,
    options: api.DevicePluginOptions,
    *,
    timeout_seconds: float,
    connected: Callable[[], object],
) -> None:
    """Register our socket with the one of the kubelet next to it; raise RegistrationError.

    ``options`` is the socket's answer to GetDevicePluginOptions; old kubelets read it (REG-7).
    ``connected`` is called when the kubelet that will get the call is certain, and may raise.

    The kubelet calls the socket back before it answers (REG-1), for up to 10 s.
    """
    request = api.RegisterRequest(
        version=VERSION, endpoint=path.name, resource_name=resource, options=options
    ).SerializeToString()
    method, socket = "/v1beta1.Registration/Register", path.parent / KUBELET_SOCKET
    try:
        await call(socket, method, request, timeout_seconds=timeout_seconds, connected=connected)
    except grpc.aio.AioRpcError as error:
        # Every refusal comes as UNKNOWN with a message (REG-8).
        text = _END_OF_TEXT.split(error.details() or error.code().name)[0]
        if _NO_SERVER.search(text):
            raise RegistrationError(
                "kubelet.sock is not listening: the kubelet is down, or is starting"
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
        short = ": there are too few file descriptors" if count().is_short else ""
        raise KubeletError(f"our own socket does not answer{short}") from error
