"""A bare DRA driver: ``python -m bench.bare_driver SOCKET``.

It answers that every claim has a device. It asks no API server and writes nothing.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import grpc

from genericdp.kubelet.api import dra_pb2 as api

_SERVICE = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"


async def _prepare(request: bytes, _context: object) -> bytes:
    answer = api.NodePrepareResourcesResponse()
    for claim in api.NodePrepareResourcesRequest.FromString(request).claims:
        device = api.Device(request_names=["device"], pool_name="pool", device_name="device")
        device.cdi_device_ids.append(f"bench.example.com/claim={claim.uid}")
        answer.claims[claim.uid].devices.append(device)
    return answer.SerializeToString()


async def _unprepare(request: bytes, _context: object) -> bytes:
    answer = api.NodeUnprepareResourcesResponse()
    for claim in api.NodeUnprepareResourcesRequest.FromString(request).claims:
        answer.claims[claim.uid].error = ""
    return answer.SerializeToString()


async def _serve(socket: str) -> None:
    server = grpc.aio.server()
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "NodePrepareResources": grpc.unary_unary_rpc_method_handler(_prepare),
        "NodeUnprepareResources": grpc.unary_unary_rpc_method_handler(_unprepare),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, methods),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
