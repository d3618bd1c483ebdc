"""Whatever bytes the other side of a socket sends: an answer or a declared error."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from functools import partial
from pathlib import Path
from typing import Any

import grpc
from genericdp.apiserver import SLICES, Access, ApiClient
from genericdp.config.load import load
from genericdp.devices.decide import decide
from genericdp.errors import ApiError, KubeletError
from genericdp.host.cache import HostCache
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.directory import KUBELET_SOCKET
from genericdp.kubelet.server import SERVICE, RegistrationError, check, listening, register
from genericdp.kubelet.servicer import Servicer
from genericdp.model import Preference
from genericdp.prepare import Gate
from genericdp.status.server import Limits, Response

from tests.fuzz.varying import attempt, words
from tests.health.probed_devices import no_hooks
from tests.status.http_server import Serving, request, serving
from tests.world import Host, config, serial


@contextmanager
def asking(
    peer: AbstractAsyncContextManager[Any], ask: Callable[..., Any]
) -> Iterator[Callable[[bytes], None]]:
    """Run one side of a conversation; gives what asks it once for each input."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        side = runner.run(stack.enter_async_context(peer))
        try:
            yield lambda data: runner.run(ask(data, side))
        finally:
            runner.run(stack.aclose())


METHODS = (
    *("Allocate", "GetPreferredAllocation", "PreStartContainer", "GetDevicePluginOptions"),
    *("ListAndWatch", "Nothing"),
)
DECLARED = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION}
OF_CALLS = words(r"""
    \0 \1 \2 \n \x12 \x18 ttyUSB0 ttyUSB1 ::1 :: \x0a\x09\x0a\x07ttyUSB0 \xff\xff\xff\xff\x07
    \x80\x80\x80\x80\x80\x80\x01 \xff\xff\xff\xff\xff\xff\xff\xff\xff\x01 \xed\xa0\x80 ::-1 ::00
    ::\xd9\xa1
""")


def test_any_call_of_a_kubelet_has_an_answer_or_a_declared_error(short_directory: Path) -> None:
    ids = ["ttyUSB0", "ttyUSB1::1", "ttyUSB1"]
    asked = api.ContainerAllocateRequest(devices_ids=ids)
    wish = api.ContainerPreferredAllocationRequest(
        available_deviceIDs=ids, must_include_deviceIDs=ids[:1], allocation_size=2
    )
    seeds = [
        b"\0" + api.AllocateRequest(container_requests=[asked, asked]).SerializeToString(),
        b"\0" + api.AllocateRequest().SerializeToString(),
        b"\1" + api.PreferredAllocationRequest(container_requests=[wish] * 2).SerializeToString(),
        b"\2" + api.PreStartContainerRequest(devices_ids=ids).SerializeToString(),
        *(bytes([method, 0]) for method in range(3, len(METHODS))),
    ]
    with asking(_plugin(short_directory), _call) as run:
        attempt(run, seeds, OF_CALLS)


@asynccontextmanager
async def _plugin(directory: Path) -> AsyncIterator[grpc.aio.Channel]:
    """Serve a resource with three devices, and give a channel to it."""
    host = Host(directory / "host")
    for name in ("ttyUSB0", "ttyUSB1", "ttyUSB2"):
        host.plug(name)
    file = host.write("config.yaml", config(serial(replicas=2)))
    (resource,), facts = load([file]).resources, HostCache(host.root)
    offer = decide([resource], facts, node_name="n", previous={}, now=0.0).lists[resource.name]
    gate = Gate(resource.name, root=host.root, look_again=lambda: None, run_hooks=no_hooks())
    service = Servicer(gate, prefer=Preference.CLOSEST, replicas=2, pre_start=True)
    service.set_devices(offer)
    socket = directory / "s"
    async with listening(socket, service), grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        yield channel


async def _call(data: bytes, channel: grpc.aio.Channel) -> None:
    method = METHODS[data[0] % len(METHODS)] if data else METHODS[0]
    path = f"/{SERVICE}/{method}"
    if method == "ListAndWatch":
        watch: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(path)
        stream = watch(data[1:])
        api.ListAndWatchResponse.FromString(await anext(aiter(stream)))
        stream.cancel()
        return
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
    try:
        answer = await call(data[1:], timeout=20)
    except grpc.aio.AioRpcError as error:
        expected = {grpc.StatusCode.UNIMPLEMENTED} if method == "Nothing" else DECLARED
        assert error.code() in expected, f"{method}: {error.code()}: {error.details()}"
        # An error of this call would reject the pod (PRF-4).
        assert method not in {"GetPreferredAllocation", "GetDevicePluginOptions"}, error.details()
        return
    if method == "Allocate":
        asked = api.AllocateRequest.FromString(data[1:])
        given = api.AllocateResponse.FromString(answer)
        assert len(given.container_responses) == len(asked.container_requests)
    elif method == "GetPreferredAllocation" and answer:
        wishes = api.PreferredAllocationRequest.FromString(data[1:]).container_requests
        chosen = api.PreferredAllocationResponse.FromString(answer).container_responses
        for wish, choice in zip(wishes, chosen, strict=True):
            assert len(choice.deviceIDs) <= max(wish.allocation_size, 0)
            assert {*choice.deviceIDs} <= {*wish.available_deviceIDs, *wish.must_include_deviceIDs}


STATUS = re.compile(rb"HTTP/1\.1 (200|400|405|413|431|501|505) [A-Z]")
OF_HTTP = words(r"""
    GET\s HEAD\s POST\s / /status \sHTTP/1.1\r\n \sHTTP/1.0\r\n \r\n Host:\sx\r\n \r\n\r\n \n \t
    Connection:\sclose\r\n Connection:\skeep-alive\r\n Content-Length:\s5\r\n %2e%2e .. : ? #
    Content-Length:\s0\r\n Transfer-Encoding:\schunked\r\n 0\r\n\r\n 5\r\nhello\r\n \0 \xff \s
    Expect:\s100-continue\r\n Upgrade:\sh2c\r\n http://
""")


async def _echo(path: str) -> Response:
    return Response(status=200, body=path.encode("latin-1"))


def test_any_bytes_to_the_endpoints_are_answered_or_ended_and_others_are_served() -> None:
    seeds = [
        request("/status"),
        request("/", method="HEAD"),
        request("/", version="1.0"),
        b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n" * 3 + request("/b"),
        request("http://x/status?a#b", "Accept: */*"),
        request("/", "Content-Length: 5", method="POST") + b"hello",
        request("/", "Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: " + b"x" * 5000 + b"\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    ]
    with asking(serving(_echo, limits=Limits(request=5.0)), _send) as run:
        attempt(run, seeds, [*OF_HTTP, b"x" * 59])


async def _send(data: bytes, server: Serving) -> None:
    with suppress(ConnectionError):
        answer = await server.says(data, half_closed=True)
        assert not answer or STATUS.match(answer), answer[:100]
    assert (await server.get("/livez")).endswith(b"\r\n\r\n/livez")
    server.asked.clear()
    await server.are_left(0)


CODES = tuple(code for code in grpc.StatusCode if code is not grpc.StatusCode.OK)


class HostileKubelet:
    """If the first byte is odd, what follows comes as it is; else the next byte is the code."""

    def __init__(self, directory: Path) -> None:
        self._by_call, self._by_bytes = directory / "call", directory / "bytes"
        self._data = b""

    def answering(self, data: bytes) -> tuple[Path, float]:
        """Set the answer; return the directory of the socket to call, and the seconds for it."""
        self._data = data or b"\0"
        return (self._by_bytes, 0.05) if self._data[0] & 1 else (self._by_call, 20.0)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[HostileKubelet]:
        for directory in (self._by_call, self._by_bytes):
            directory.mkdir()
        server = grpc.aio.server()
        answer: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(self._answer)
        for service, method in (
            ("v1beta1.Registration", "Register"),
            (SERVICE, "GetDevicePluginOptions"),
        ):
            handler = grpc.method_handlers_generic_handler(service, {method: answer})
            server.add_generic_rpc_handlers((handler,))
        server.add_insecure_port(f"unix:{self._by_call / KUBELET_SOCKET}")
        await server.start()
        raw = await asyncio.start_unix_server(self._send, str(self._by_bytes / KUBELET_SOCKET))
        try:
            yield self
        finally:
            raw.close()
            await server.stop(None)

    async def _answer(self, _: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        code = self._data[1] if len(self._data) > 1 else 0
        if code < len(CODES):
            await context.abort(CODES[code], self._data[2:].decode("utf-8", "replace"))
        return self._data[2:]

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            writer.write(self._data[1:])
            await writer.drain()
            if self._data[0] & 2:  # the peer ends it; else it is left to the one who asked
                await reader.read(65_536)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return a frame of HTTP/2."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


SETTINGS, ACK = frame(4, 0, 0, b""), frame(4, 1, 0, b"")
GRPC = frame(1, 4, 1, b"\x88\x5f\x10application/grpc")
OF_KUBELETS = [
    *(SETTINGS, ACK, frame(7, 0, 0, bytes(8)), frame(3, 0, 1, bytes(4)), frame(1, 5, 1, b"\x88")),
    *(frame(1, 4, 1, b"\x88"), frame(0, 0, 1, bytes(5))),
    *words(r"""\0 \1 \x80 not\ssupported\sby\skubelet the\sResourceName\s" is\sinvalid % %ff
        \xff\xff\xff\xff\xff\xff\xff\xff\xff \n \xc3\xa9 HTTP/1.1\s400\sBad\sRequest\r\n\r\n"""),
]
ANSWERS = [
    b'\0\x02the ResourceName "a" is invalid',
    b"\0\x0dfailed to dial device plugin: context deadline exceeded",
    b"\0\xff\x0a\x01a",
    b"\1" + SETTINGS + ACK + frame(1, 5, 1, b"\x88"),
    b"\1" + SETTINGS + GRPC + frame(0, 1, 1, bytes(5)),
    b"\1HTTP/1.1 200 OK\r\n\r\n",
]


def test_any_answer_to_register_is_one_or_a_declared_error(short_directory: Path) -> None:
    with asking(HostileKubelet(short_directory).serving(), _register) as run:
        attempt(run, ANSWERS, OF_KUBELETS)


async def _register(data: bytes, kubelet: HostileKubelet) -> None:
    directory, timeout = kubelet.answering(data)
    send = partial(register, timeout_seconds=timeout, connected=lambda: None)
    try:
        await send(directory / "e", "a/b", api.DevicePluginOptions())
    except RegistrationError as error:
        str(error).encode("utf-8", "backslashreplace")
    with suppress(KubeletError):
        await check(directory / KUBELET_SOCKET, timeout_seconds=timeout)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
LIST = b'{"kind":"ResourceSliceList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{}}]}'
EVENT = b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"8"}}}\n'
EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
REFUSAL = b'{"kind":"Status","message":"no","reason":"Forbidden","code":403}'
OF_API_SERVERS = words(r"""
    HTTP/1.1\s200\sOK\r\n HTTP/1.1\s429\s\r\n HTTP/1.1\s101\sSwitching\sProtocols\r\n "metadata":
    HTTP/1.1\s301\sMoved\r\nLocation:\shttp://127.0.0.1:1/\r\n HTTP/1.1\s204\s\r\n \r\n "items":
    Content-Length:\s5\r\n Transfer-Encoding:\schunked\r\n Content-Encoding:\sgzip\r\n 0\r\n null
    Content-Encoding:\sdeflate\r\n Retry-After:\s1\r\n Retry-After:\s9e9\r\n Set-Cookie:\sa=b\r\n
    Retry-After:\s\xc2\xb2\r\n "continue": [ ] { } " , : \n \\ud800 1e999 \xff
""")


def _sized(content: bytes) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(content) + content


def test_any_answer_of_an_api_server_is_objects_or_a_declared_error() -> None:
    chunk = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(EVENT), EVENT)
    seeds = [
        _sized(LIST),
        _sized(EVENT * 2 + EXPIRED),
        _sized(gzip.compress(LIST)).replace(b"\r\n", b"\r\nContent-Encoding: gzip\r\n", 1),
        HEAD + chunk,
        _sized(REFUSAL).replace(b"200 OK", b"403 Forbidden\r\nRetry-After: 3"),
        b"\x15\x03\x01\x00\x02\x02\x16",
    ]
    with asyncio.Runner() as runner:
        attempt(lambda data: runner.run(_read_slices(data)), seeds, OF_API_SERVERS)


async def _read_slices(data: bytes) -> None:
    connections: set[asyncio.Task[None] | None] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(data)
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, ApiClient(lambda: Access(server=url)) as client:
        with suppress(ApiError):
            for item in (await client.list(SLICES))[0]:
                assert isinstance(item["metadata"], dict)
        with suppress(ApiError):
            async with client.watch(SLICES, resource_version="1") as events:
                async for kind, item in events:
                    assert isinstance(kind, str)
                    assert isinstance(item["metadata"], dict)
    await asyncio.gather(*filter(None, connections))
