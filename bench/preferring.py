"""How long GetPreferredAllocation takes through the socket, and what the loop feels of it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from bench.asker import asking
from bench.lag import Lag, watched
from bench.lines import Line
from genericdp.devices.device import Device
from genericdp.devices.devicelist import DeviceList, ListedDevice
from genericdp.devices.inventory import Identity
from genericdp.devices.topology import Spot
from genericdp.health.hooks import HookRunner
from genericdp.host.root import Root
from genericdp.kubelet.server import listening
from genericdp.kubelet.servicer import Servicer
from genericdp.kubelet.v1beta1 import deviceplugin_pb2 as api
from genericdp.model import Preference
from genericdp.process.run import Commands

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from bench.asker import Asker
    from bench.sides import Bench

_NAME = "bench.example.com/thing"
_GPUS, _MANY = 8, 10_000
_TURNS = 5
_GOAL_OF_FEW, _GOAL_OF_LAG = 2.0, 20.0


class _Floor(Servicer):
    """Takes the first ids that come: what the libraries cost."""

    async def preferred_allocation(self, request: bytes) -> bytes:
        response = api.PreferredAllocationResponse()
        for one in api.PreferredAllocationRequest.FromString(request).container_requests:
            chosen = one.available_deviceIDs[: one.allocation_size]
            response.container_responses.add(deviceIDs=chosen)
        return response.SerializeToString()


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Ask for GPUs, then for shares of many devices."""
    rounds = 50 if bench.quick else 200
    bench.progress.say(f"GetPreferredAllocation of {_GPUS} GPUs and of {_MANY} shares")
    async for line in _lines(
        bench,
        offer=_offer(_GPUS, replicas=1),
        prefer=Preference.CLOSEST,
        sizes=range(1, _GPUS + 1),
        rounds=rounds,
        goal=_GOAL_OF_FEW,
    ):
        yield line
    for replicas, prefer, goal in (
        (10, Preference.SPREAD, 50.0),
        (10, Preference.PACKED, 50.0),
        (1, Preference.CLOSEST, 500.0),
    ):
        async for line in _lines(
            bench,
            offer=_offer(_MANY // replicas, replicas=replicas),
            prefer=prefer,
            sizes=(4, 1000),
            rounds=rounds // 10,
            goal=goal,
        ):
            yield line


async def _lines(
    bench: Bench,
    *,
    offer: DeviceList,
    prefer: Preference,
    sizes: Sequence[int],
    rounds: int,
    goal: float,
) -> AsyncIterator[Line]:
    ids = [share for one in offer.devices.values() for share in one.device.shares]
    root, lag = Root(bench.scratch), Lag()
    hooks = HookRunner(Commands().run)
    ours = Servicer(
        _NAME,
        root=root,
        look_again=lambda: None,
        run_hooks=hooks.run,
        prefer=prefer,
        replicas=len(ids) // len(offer.devices),
    )
    floor = _Floor(_NAME, root=root, look_again=lambda: None, run_hooks=hooks.run)
    what = f"{prefer} of {len(ids)}"
    async with AsyncExitStack() as stack:
        askers: list[Asker] = []
        for name, service in (("ours", ours), ("floor", floor)):
            service.set_devices(offer)
            socket = bench.scratch / f"preferring-{name}.sock"
            await stack.enter_async_context(listening(socket, service))
            askers.append(await stack.enter_async_context(asking(socket)))
        await stack.enter_async_context(watched(lag))
        for asker in askers:
            await asker.ask(ids, 1, 3)  # it warms up
        for size in sizes:
            took: list[list[float]] = [[] for _ in askers]
            for _ in range(_TURNS):
                lag.begin()
                took[0] += await askers[0].ask(ids, size, rounds // _TURNS)
                lag.end()
                took[1] += await askers[1].ask(ids, size, rounds // _TURNS)
            yield Line(
                what=f"preferred devices, {what}: {size}",
                unit="ms",
                daemon=tuple(took[0]),
                baseline=tuple(took[1]),
                goal=goal,
            )
    yield Line(
        what=f"the loop is late meanwhile, {what}",
        unit="ms",
        daemon=tuple(lag.samples),
        goal=_GOAL_OF_LAG,
        worst=True,
    )


def _offer(devices: int, *, replicas: int) -> DeviceList:
    """Make up devices of two sockets, two on each PCI switch."""
    return DeviceList(
        devices={f"gpu-{i}": _device(f"gpu-{i}", i, devices, replicas) for i in range(devices)}
    )


def _device(name: str, number: int, devices: int, replicas: int) -> ListedDevice:
    socket, switch = 2 * number // devices, number // 2
    at = f"/sys/devices/pci{switch // 128:04x}:{0x80 * socket:02x}/0000:{switch % 256:02x}:01.0"
    port = f"{at}/0000:{switch % 256:02x}:00.0/0000:{switch % 256:02x}:0{number % 2}.0"
    device = Device(
        id=name,
        key=name,
        path=f"/dev/{name}",
        identity=Identity(inode=1),
        replicas=replicas,
        numa_nodes=(socket,),
        spot=Spot(
            syspaths=(f"{port}/0000:{switch % 256:02x}:1{number % 2}.0",), numa_nodes=(socket,)
        ),
    )
    return ListedDevice(device=device)
