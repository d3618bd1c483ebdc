"""Answers of a hostile kubelet about pods and their devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genericdp.errors import KubeletError
from genericdp.kubelet.api import podresources_pb2 as api
from genericdp.kubelet.directory import KUBELET_SOCKET
from genericdp.kubelet.podresources import list_pods, pod_holders

from tests.fuzz.hostile import asked
from tests.fuzz.targets import register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tests.fuzz.hostile import HostileKubelet

WORDS = (
    *register.WORDS,
    b"\x0a",
    b"\x12",
    b"\x1a",
    b"::1",
    b"\xff\xff\xff\xff\x0f",
    b"\xed\xa0\x80",
)


def seeds() -> Iterator[bytes]:
    devices = api.ContainerDevices(resource_name="a/b", device_ids=["x", "y::1"])
    container = api.ContainerResources(name="main", devices=[devices, devices])
    pod = api.PodResources(name="p", namespace="n", containers=[container])
    for answer in (
        api.ListPodResourcesResponse(),
        api.ListPodResourcesResponse(pod_resources=[pod, pod]),
    ):
        yield b"\x00\xff" + answer.SerializeToString()
    yield from register.seeds()


def opened() -> AbstractContextManager[Callable[[bytes], None]]:
    return asked(_run)


async def _run(kubelet: HostileKubelet) -> None:
    directory, timeout = kubelet.how
    try:
        pod_holders(await list_pods(directory / KUBELET_SOCKET, timeout_seconds=timeout))
    except KubeletError as error:
        str(error).encode("utf-8", "backslashreplace")
