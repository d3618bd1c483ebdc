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
from pathlib import Path
from typing import Any

import grpc
from genericdp.apiserver import SLICES, Access, ApiClient
from genericdp.config.load import load
from genericdp.devices.decide import decide
from genericdp.errors import ApiError
from genericdp.gate import Gate
from genericdp.host.cache import HostCache
from genericdp.kubelet.api import deviceplugin_pb2 as api
from genericdp.kubelet.server import SERVICE, listening
from genericdp.kubelet.servicer import Servicer
from genericdp.model import Preference
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


REFUSALS = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION}
DECLARED: dict[str, set[grpc.StatusCode]] = {
    "Allocate": REFUSALS,
    "GetPreferredAllocation": set(),  # an error of this call would reject the pod (PRF-4)
    "PreStartContainer": REFUSALS,
    "GetDevicePluginOptions": set(),
    "ListAndWatch": set(),
    "Nothing": {grpc.StatusCode.UNIMPLEMENTED},
}
METHODS = tuple(DECLARED)
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
        assert error.code() in DECLARED[method], f"{method}: {error.code()}: {error.details()}"
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


def test_any_answer_of_an_api_server_is_objects_or_a_declared_error() -> None:
    chunk = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(EVENT), EVENT)

    def sized(content: bytes) -> bytes:
        return HEAD + b"Content-Length: %d\r\n\r\n" % len(content) + content

    seeds = [
        sized(LIST),
        sized(EVENT * 2 + EXPIRED),
        sized(gzip.compress(LIST)).replace(b"\r\n", b"\r\nContent-Encoding: gzip\r\n", 1),
        HEAD + chunk,
        sized(REFUSAL).replace(b"200 OK", b"403 Forbidden\r\nRetry-After: 3"),
        sized(REFUSAL).replace(b"200 OK", b"403 Forbidden\r\nRetry-After: \xb2"),
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
