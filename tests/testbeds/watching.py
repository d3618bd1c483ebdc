"""The daemon's supervisor on this machine, and what a kubelet learns of it, as lines of JSON.

    python -m tests.testbeds.watching CONFIG

``{"lists": COUNT, "devices": {RESOURCE: {ID: "Healthy" | REASON}}}`` after each list. Asked with a
line ``RESOURCE ID`` it answers ``{"given": [NODE, …]}`` or ``{"refused": REASON}``; a line with a
path says that it has come or gone, which inotify does not show on such a machine. It ends with its
input.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
from genericdp.config.load import load
from genericdp.kubelet.api import deviceplugin_pb2 as pb
from genericdp.kubelet.api import deviceplugin_pb2_grpc as rpc
from genericdp.observed import next_change, until
from genericdp.process.run import Commands
from genericdp.settings import Settings
from genericdp.simulator.kubelet import Kubelet
from genericdp.supervisor import Pace, Supervisor

from tests.polling import poll_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NEVER = Pace(full_look=3600.0)
"""Only events report what changes."""


def _show(**line: object) -> None:
    print(json.dumps(line), flush=True)


async def _watch(config: Path, directory: Path) -> None:
    async with Kubelet(directory) as kubelet:
        settings = Settings(
            configs=(config,),
            kubelet_directory=directory,
            cdi_directory=directory,
            root=Path("/"),
            node_name="n",
        )
        supervisor = Supervisor(settings, commands=Commands(), pace=NEVER)
        supervisor.resources.value = load((config,)).resources
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(supervisor.run(), name="supervisor")
            telling = tasks.create_task(_tell(supervisor, kubelet), name="telling")
            await _answer(kubelet, supervisor.reconciler.reader.mark_file)
            telling.cancel()
            running.cancel()


async def _tell(supervisor: Supervisor, kubelet: Kubelet) -> None:
    await until(lambda: bool(supervisor.lists.value), supervisor.lists)
    # It reads everything once it hears the kernel: before that, events are reported to no one.
    await poll_until(lambda: supervisor.reconciler.tally.events["resync"])
    before: object = None
    while True:
        lists = sum(kubelet.observed.lists.values())
        devices = {
            name: dict(_told(supervisor, name, kubelet.devices(name)))
            for name in supervisor.lists.value
        }
        if before != (lists, devices):
            before = (lists, devices)
            _show(lists=lists, devices=devices)
        await next_change(kubelet.changes)


def _told(supervisor: Supervisor, name: str, healths: dict[str, str]) -> Iterator[tuple[str, str]]:
    offered = supervisor.lists.value[name].devices
    for device_id, health in healths.items():
        reason = offered[device_id].text if device_id in offered else ""
        yield device_id, health if health == "Healthy" else reason or health


async def _answer(kubelet: Kubelet, mark_file: Callable[[str], None]) -> None:
    asked = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(asked), sys.stdin
    )
    while line := await asked.readline():
        if line.startswith(b"/"):
            mark_file(line.decode().strip())
            continue
        name, device_id = line.decode().split()
        request = pb.AllocateRequest(
            container_requests=[pb.ContainerAllocateRequest(devices_ids=[device_id])]
        )
        *_, path = kubelet.paths(name)
        try:
            async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
                answer = await rpc.DevicePluginStub(channel).Allocate(request)
        except grpc.aio.AioRpcError as error:
            _show(refused=error.details())
        else:
            (given,) = answer.container_responses
            _show(given=[device.host_path for device in given.devices])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="g") as kubelets:
        asyncio.run(_watch(Path(sys.argv[1]), Path(kubelets)))
