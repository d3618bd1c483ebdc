"""Asking for pods: every way in which no answer comes has a reason of one line."""

from __future__ import annotations

import asyncio
import itertools
import socket as sockets
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from genericdp.errors import KubeletError
from genericdp.kubelet.api import podresources_pb2 as api
from genericdp.kubelet.podresources import list_pods, pod_holders, pods_in
from hypothesis import given
from hypothesis import strategies as st

from tests.memory import little_memory

pytestmark = pytest.mark.slow


Context = grpc.aio.ServicerContext[bytes, bytes]


@asynccontextmanager
async def answering(
    socket: Path, answer: Callable[[bytes, Context], Awaitable[bytes]]
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


def answer_of(*pods: api.PodResources) -> bytes:
    return api.ListPodResourcesResponse(pod_resources=pods).SerializeToString()


def pod_with(name: str, *ids: str) -> api.PodResources:
    devices = [
        api.ContainerDevices(resource_name="example.com/x", device_ids=[device_id])
        for device_id in ids
    ]
    container = api.ContainerResources(name="c", devices=devices)
    return api.PodResources(name=name, namespace="n", containers=[container])


@given(st.binary())
def test_whatever_bytes_come_the_answer_is_read_or_refused(answer: bytes) -> None:
    try:
        pod_holders(answer)
    except KubeletError as error:
        assert str(error).startswith("the answer is not a ListPodResourcesResponse: ")


_names = st.text(max_size=3)
_nodes = st.lists(st.builds(api.NUMANode, ID=st.integers(0, 9)))
_devices = st.builds(
    api.ContainerDevices,
    resource_name=_names,
    device_ids=st.lists(_names, max_size=3),
    topology=st.builds(api.TopologyInfo, nodes=_nodes),
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
    answer, holders = answer_of(*pods), defaultdict[tuple[str, str], set[str]](set)
    containers = [(pod, container) for pod in pods for container in pod.containers]
    for pod, container in containers:
        for devices in container.devices:
            for share in devices.device_ids:
                holders[devices.resource_name, share].add(f"pod {pod.namespace}/{pod.name}")
    found = pod_holders(answer)
    assert found.pods == {f"pod {pod.namespace}/{pod.name}" for pod in pods}
    assert holders == {
        (resource, share): set(names)
        for resource, shares in found.holders.items()
        for share, names in shares.items()
    }
    claims = [claim for _, container in containers for claim in container.dynamic_resources]
    assert {claim for pod in pods_in(answer) for claim in pod.claims} == {
        (claim.claim_namespace, claim.claim_name) for claim in claims
    }


def answer_with(count: int) -> bytes:
    devices = api.ContainerDevices(resource_name="x", device_ids=[f"{i:x}" for i in range(count)])
    return answer_of(api.PodResources(containers=[api.ContainerResources(devices=[devices])]))


def test_the_most_names_take_little_memory() -> None:
    answer = answer_with(15_000)
    with little_memory(0.1):
        pod_holders(answer)
    with pytest.raises(KubeletError, match="more than 150,000 strings"):
        pod_holders(answer_with(150_000))


MALFORMED = "is not a ListPodResourcesResponse"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"\x0a", MALFORMED),
        (b"\x0a\x05", MALFORMED),
        (b"\x0b", MALFORMED),
        (b"\x0a" + b"\xff" * 10, MALFORMED),
        (b"\x09", MALFORMED),
        (b"\x0d\x00", MALFORMED),
        (b"\x08\x80", MALFORMED),
        (b"\x0a\x00" * 2**20, "more than 1,000,000 fields"),
        (answer_of(pod_with("p" * 65_537)), "a string has more than 64 KiB"),
    ],
    ids=itertools.count(),
)
def test_what_is_malformed_is_refused(answer: bytes, why: str) -> None:
    with pytest.raises(KubeletError, match=why):
        pod_holders(answer)


async def hang(_: bytes, __: Context) -> bytes:
    await asyncio.Event().wait()
    return b""


async def flood(_: bytes, __: Context) -> bytes:
    return bytes(9 * 1024 * 1024)


@pytest.mark.parametrize(
    ("answer", "seconds", "why"),
    [
        (hang, 0.2, r"^no answer within 0\.2 s$"),
        (flood, 30, "Received message larger than max"),
    ],
    ids=["stopped", "would take all memory"],
)
async def test_a_call_that_fails_has_a_reason(
    short_directory: Path, answer: Callable[..., Awaitable[bytes]], seconds: float, why: str
) -> None:
    async with answering(short_directory / "s", answer):
        with pytest.raises(KubeletError, match=why):
            await list_pods(short_directory / "s", timeout_seconds=seconds)


async def test_an_answer_may_be_longer_than_what_grpc_takes_by_default(
    short_directory: Path,
) -> None:
    """PRS-1: 4 MiB are passed by a node with tens of thousands of devices."""
    pod = pod_with("p", *(f"{number:063}" for number in range(45_000)))
    long = answer_of(pod, pod)
    assert len(long) > 1.4 * 4_194_304

    async def answer(_: bytes, __: Context) -> bytes:
        return long

    async with answering(short_directory / "s", answer):
        assert await list_pods(short_directory / "s", timeout_seconds=30) == long


async def test_a_kubelet_that_is_down_gives_no_answer(short_directory: Path) -> None:
    path = short_directory / "s"
    with sockets.socket(sockets.AF_UNIX) as other:
        other.bind(str(path))
        with pytest.raises(KubeletError, match=f"^no answer at {path}$"):
            await list_pods(path, timeout_seconds=5)
    with pytest.raises(KubeletError, match="there is no "):
        await list_pods(path / "below a file", timeout_seconds=5)
