"""Asking for pods: every way in which no answer comes has a reason of one line."""

from __future__ import annotations

import asyncio
import socket as sockets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericdp.errors import KubeletError
from genericdp.kubelet.api import podresources_pb2 as api
from genericdp.kubelet.podresources import list_pods, pod_holders, pods_in
from tests.memory import little_memory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path


@asynccontextmanager
async def answering(
    socket: Path,
    answer: Callable[[bytes, grpc.aio.ServicerContext[bytes, bytes]], Awaitable[bytes]],
) -> AsyncIterator[None]:
    server = grpc.aio.server(options=(("grpc.max_send_message_length", -1),))
    methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "List": grpc.unary_unary_rpc_method_handler(answer)
    }
    handler = grpc.method_handlers_generic_handler("v1.PodResourcesLister", methods)
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)


def listed(*ids: str, resource: str = "example.com/x") -> bytes:
    pod = pod_with("p", *ids, resource=resource)
    return api.ListPodResourcesResponse(pod_resources=[pod, pod]).SerializeToString()


def pod_with(name: str, *ids: str, resource: str = "example.com/x") -> api.PodResources:
    devices = [api.ContainerDevices(resource_name=resource, device_ids=[one]) for one in ids]
    container = api.ContainerResources(name="c", devices=devices)
    return api.PodResources(name=name, namespace="n", containers=[container])


def test_an_empty_answer_is_that_nothing_is_held() -> None:
    assert pod_holders(b"").holders == {}


def test_who_holds_which_share() -> None:
    pods = [pod_with("a", "tty0", "tty1::1"), pod_with("b", "tty1::1", "tty1::2"), pod_with("c")]
    answer = api.ListPodResourcesResponse(pod_resources=pods).SerializeToString()
    found = pod_holders(answer, asked_at=7.0)
    assert found.asked_at == 7.0
    assert found.holders == {
        "example.com/x": {
            "tty0": ("pod n/a",),
            "tty1::1": ("pod n/a", "pod n/b"),
            "tty1::2": ("pod n/b",),
        }
    }
    assert found.holders_of("example.com/x") == {"pod n/a", "pod n/b"}
    assert found.pods == {"pod n/a", "pod n/b", "pod n/c"}


async def test_an_answer_that_would_take_all_memory_is_refused(short_folder: Path) -> None:
    socket = short_folder / "kubelet.sock"

    async def endless(_: bytes, __: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        return bytes(9 * 1024 * 1024)

    async with answering(socket, endless):
        with pytest.raises(KubeletError, match="Received message larger than max"):
            await list_pods(socket, timeout_seconds=30)


@given(st.binary())
def test_whatever_bytes_come_the_answer_is_read_or_refused(answer: bytes) -> None:
    try:
        pod_holders(answer)
    except KubeletError as error:
        assert str(error).startswith("the answer is not a ListPodResourcesResponse: ")


_names = st.text(max_size=3)
_devices = st.builds(
    api.ContainerDevices,
    resource_name=_names,
    device_ids=st.lists(_names, max_size=3),
    topology=st.builds(
        api.TopologyInfo, nodes=st.lists(st.builds(api.NUMANode, ID=st.integers(0, 9)))
    ),
)
_claims = st.builds(api.DynamicResource, claim_name=_names, claim_namespace=_names)
_containers = st.builds(
    api.ContainerResources,
    name=_names,
    devices=st.lists(_devices, max_size=3),
    dynamic_resources=st.lists(_claims, max_size=3),
)
_pods = st.builds(
    api.PodResources, name=_names, namespace=_names, containers=st.lists(_containers, max_size=3)
)


@given(st.lists(_pods, max_size=4))
def test_an_answer_is_read_as_protobuf_reads_it(pods: list[api.PodResources]) -> None:
    holders: dict[tuple[str, str], set[str]] = {}
    claims = set()
    for pod in pods:
        for container in pod.containers:
            for devices in container.devices:
                for share in devices.device_ids:
                    key = (devices.resource_name, share)
                    holders.setdefault(key, set()).add(f"pod {pod.namespace}/{pod.name}")
            claims |= {(it.claim_namespace, it.claim_name) for it in container.dynamic_resources}
    answer = api.ListPodResourcesResponse(pod_resources=pods).SerializeToString()
    found = pod_holders(answer)
    assert found.pods == {f"pod {pod.namespace}/{pod.name}" for pod in pods}
    assert {
        (resource, share): set(names)
        for resource, shares in found.holders.items()
        for share, names in shares.items()
    } == holders
    assert {claim for pod in pods_in(answer) for claim in pod.claims} == claims


def test_millions_of_empty_messages_are_refused() -> None:
    with pytest.raises(KubeletError, match="more than 1,000,000 fields"):
        pod_holders(b"\x0a\x00" * 2**20)


@pytest.mark.parametrize("what", ["pods", "devices"])
def test_the_most_names_take_little_memory(what: str) -> None:
    names = [f"{i:x}" for i in range(160_000)]
    if what == "pods":
        pods = [api.PodResources(name=name) for name in names]
    else:
        devices = api.ContainerDevices(resource_name="x", device_ids=names)
        pods = [api.PodResources(containers=[api.ContainerResources(devices=[devices])])]
    answer = api.ListPodResourcesResponse(pod_resources=pods).SerializeToString()
    with little_memory(), pytest.raises(KubeletError, match="more than 150,000 strings"):
        pod_holders(answer)


def test_a_long_name_is_refused() -> None:
    answer = api.ListPodResourcesResponse(pod_resources=[pod_with("p" * 65_537)])
    with pytest.raises(KubeletError, match="a string has more than 64 KiB"):
        pod_holders(answer.SerializeToString())


@pytest.mark.parametrize(
    "answer",
    [b"\x0a", b"\x0a\x05", b"\x0b", b"\x0a" + b"\xff" * 10, b"\x09", b"\x0d\x00", b"\x08\x80"],
    ids=["no size", "cut off", "group", "long number", "8 bytes", "4 bytes", "number"],
)
def test_what_is_malformed_is_refused(answer: bytes) -> None:
    with pytest.raises(KubeletError, match="is not a ListPodResourcesResponse"):
        pod_holders(answer)


async def test_an_answer_may_be_longer_than_what_grpc_takes_by_default(short_folder: Path) -> None:
    """PRS-1: 4 MiB are passed by a node with tens of thousands of devices."""
    long = listed(*(f"{i:063}" for i in range(45_000)))
    assert len(long) > 1.4 * 4_194_304

    async def answer(request: bytes, context: object) -> bytes:
        return long

    async with answering(short_folder / "s", answer):
        assert await list_pods(short_folder / "s", timeout_seconds=30) == long


async def test_a_refusal_is_told_in_the_kubelets_words(short_folder: Path) -> None:
    async def answer(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")

    async with answering(short_folder / "s", answer):
        with pytest.raises(KubeletError, match=r"^RESOURCE_EXHAUSTED: rejected by rate limit$"):
            await list_pods(short_folder / "s", timeout_seconds=30)


async def test_a_stopped_kubelet_is_not_waited_for(short_folder: Path) -> None:
    async def answer(request: bytes, context: object) -> bytes:
        await asyncio.Event().wait()
        return b""

    async with answering(short_folder / "s", answer):
        with pytest.raises(KubeletError, match=r"^no answer within 0\.2 s$"):
            await list_pods(short_folder / "s", timeout_seconds=0.2)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("nothing", "there is no "),
        ("file", "is a file, not a socket"),
        ("below a file", "there is no "),
        ("refusing", "nobody answers at "),
        ("no grpc", "nobody answers at "),
    ],
)
async def test_a_place_where_no_kubelet_is(short_folder: Path, what: str, reason: str) -> None:
    path = short_folder / "s"
    with sockets.socket(sockets.AF_UNIX) as other:
        if what in {"refusing", "no grpc"}:
            other.bind(str(path))
        elif "file" in what:
            path.touch()
        async with asyncio.TaskGroup() as tasks:
            other.setblocking(False)
            if what == "no grpc":
                other.listen()
            hanging_up = tasks.create_task(hang_up(other, what == "no grpc"))
            with pytest.raises(KubeletError, match=reason):
                await list_pods(path / "x" if what == "below a file" else path, timeout_seconds=5)
            hanging_up.cancel()


async def hang_up(listener: sockets.socket, listens: bool) -> None:
    """Answer each connection with what is no HTTP/2, and close it."""
    while listens:
        connection, _ = await asyncio.get_running_loop().sock_accept(listener)
        with connection:
            connection.send(b"no HTTP/2 here\n")
