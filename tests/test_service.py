from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import grpc
import pytest

from genericdp.config.load import load
from genericdp.discovery import discover
from genericdp.host.devicefiles import Looker
from genericdp.host.root import Root
from genericdp.kubelet.server import listening
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api
from genericdp.kubelet.v1beta1 import deviceplugin_pb2_grpc as rpc
from genericdp.service import Service
from tests.world import Host, config, serial

if TYPE_CHECKING:
    from pathlib import Path

NAME = "example.com/serial"


async def test_a_look_that_hangs_is_given_up(short_folder: Path) -> None:
    """ALL-4: the kubelet has no deadline, so Allocate has its own."""
    released = threading.Event()

    def hang(*_: object) -> str:
        released.wait(10)
        return ""

    host, file, socket = Host(short_folder / "host"), short_folder / "c.yaml", short_folder / "s"
    host.plug("ttyUSB0")
    file.write_text(config(serial()))
    root = Root(host.folder)
    found = discover(load([file]).resources, Looker(root).look, node_name="n", previous={}, now=0.0)
    service = Service(NAME, root=root, look_again=lambda: None, check=hang, check_seconds=0.1)
    service.set_offer(found.offers[NAME])
    one = api.ContainerAllocateRequest(devices_ids=["ttyUSB0"])
    async with (
        listening(socket, service),
        grpc.aio.insecure_channel(f"unix:{socket}") as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await rpc.DevicePluginStub(channel).Allocate(
                api.AllocateRequest(container_requests=[one])
            )
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert caught.value.details() == f"{NAME}: looking at the nodes of ttyUSB0 does not end"
    released.set()
