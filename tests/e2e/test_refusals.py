"""Register calls that the kubelet, the simulator and ``validate`` judge alike (REG-4 to REG-6)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc
import pytest
from genericdp.devices.resourcenames import name_problem
from genericdp.kubelet.api import deviceplugin_pb2 as pb
from genericdp.kubelet.api import deviceplugin_pb2_grpc as rpc
from genericdp.simulator.kubelet import Kubelet
from genericdp.simulator.settings import Generation, Timing

from tests.e2e.cluster.sweep import DEVICE_PLUGINS
from tests.e2e.cluster.versions import KUBELETS
from tests.e2e.cluster.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.cluster.node import Node

pytestmark = pytest.mark.e2e

VERSIONS = ("", "v1", "v1beta1 ", "v1alpha", "V1BETA1", "v1beta1\n", 'v"1', "v1\u00e9")
NAMES = (
    *("", "a", "/a", "a/", "example.com/", "a/b/c", "a//b", "example.com/a/", " a/b", "a/b "),
    *("kubernetes.io/a", "foo.kubernetes.io/a", "kubernetes.io/a/b", "requests.example.com/a"),
    *("Example.com/a", "example_x.com/a", "-example.com/a", "example..com/a", "example.com./a"),
    *("a/-x", "a/x-", "a/.x", "a/x y", "a/\u00e9", 'a/"', "a/b\t", "a/<b>", "a/b&c", "a/b\\c"),
    *(f"a/{'x' * 64}", f"{'d' * 245}/a"),
    # These are good: they get as far as the endpoint.
    *("a/b", "x/A_b.c", f"a/{'x' * 63}", f"{'d' * 244}/a", "xkubernetes.iox/a", "request/a"),
)
ENDPOINTS = ("nobody.sock", "missing/nobody.sock", "/nobody.sock", "kubelet_internal_checkpoint")

Call = tuple[str, str, str]
"""Version, resource name, endpoint."""
CALLS: tuple[Call, ...] = (
    *((version, "example.com/a", "nobody.sock") for version in VERSIONS),
    *(("v1beta1", name, "nobody.sock") for name in NAMES),
    *(("v1beta1", "example.com/a", endpoint) for endpoint in ENDPOINTS),
    ("v1", "no-slash", "nobody.sock"),
)


async def refusals(socket: Path) -> dict[Call, str]:
    """Send all calls at once: those that are not refused wait for their endpoint (REG-1)."""
    options = [("grpc.default_authority", "localhost")]
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
        register = rpc.RegistrationStub(channel).Register

        async def refusal(call: Call) -> str:
            version, name, endpoint = call
            request = pb.RegisterRequest(version=version, resource_name=name, endpoint=endpoint)
            try:
                await register(request, timeout=PATIENCE_SECONDS)
            except grpc.aio.AioRpcError as error:
                return f"{error.code().name} {error.details()}"
            return "accepted"

        texts = await asyncio.gather(*map(refusal, CALLS))
    return dict(zip(CALLS, texts, strict=True))


async def test_the_simulator_refuses_with_the_words_of_the_kubelet(
    node: Node, short_directory: Path
) -> None:
    real = await refusals(DEVICE_PLUGINS / "kubelet.sock")
    generation = Generation(KUBELETS[node.version])
    timing = Timing(dial_seconds=0.5)
    async with Kubelet(short_directory, generation=generation, timing=timing) as kubelet:
        simulated = await refusals(kubelet.socket)

    assert "accepted" not in real.values()
    assert simulated == real
    for name in NAMES:
        refused = "is invalid" in real["v1beta1", name, "nobody.sock"]
        assert (name_problem(name) is not None) == refused, f"validate and kubelet on {name!r}"
