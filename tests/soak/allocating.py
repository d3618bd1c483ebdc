"""Allocate, fifty times a second, for devices that are there and for some that are not."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import grpc
from genericdp.kubelet.api import deviceplugin_pb2 as api

from tests.polling import poll_until
from tests.soak.config import kind_of, nodes_of
from tests.soak.invariants import Violation, knowledge, wrong_answer
from tests.soak.record import Record
from tests.soak.sides import Side

EACH_SECONDS = 1 / 50
OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
"""Of a connection to a plugin's socket."""
_DEADLINE_SECONDS = 15.0


@dataclass(slots=True)
class Tally:
    """The results of the calls."""

    made: int = 0
    answered: int = 0
    refused: int = 0
    unreachable: int = 0
    """No plugin was registered, or its socket went away: only while something restarts."""
    for_gone: int = 0
    """Calls for devices that were missing when they began; each was refused."""
    milliseconds: list[float] = field(default_factory=list)
    """Of those that were answered."""


async def allocated(channel: grpc.aio.Channel, device: str) -> api.AllocateResponse:
    """Return what a plugin answers for one device; raises AioRpcError if it refuses."""
    request = api.AllocateRequest(
        container_requests=[api.ContainerAllocateRequest(devices_ids=[device])]
    )
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        "/v1beta1.DevicePlugin/Allocate"
    )
    answer = await call(request.SerializeToString(), timeout=_DEADLINE_SECONDS)
    return api.AllocateResponse.FromString(answer)


class Allocating:
    """Calls a plugin's socket as the kubelet does, whatever it says of itself."""

    def __init__(self, record: Record, side: Side, random: Random, tally: Tally) -> None:
        self._record, self._side, self._random, self._tally = record, side, random, tally
        self._channels: dict[Path, grpc.aio.Channel] = {}
        self._calls = Counter[Path]()
        """Those under way, by the socket."""
        self._tasks: asyncio.TaskGroup | None = None
        self._may_call = asyncio.Event()
        self._may_call.set()

    async def run(self) -> None:
        due = time.monotonic()
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                while True:
                    await self._may_call.wait()
                    tasks.create_task(self._call(*self._choice()))
                    # What was missed while a core was lacking is made up for, a little later.
                    due = max(due + EACH_SECONDS, time.monotonic() - 1.0)
                    await asyncio.sleep(max(0.0, due - time.monotonic()))  # noqa: TID251 -- the pauses of a soak are its steps
        finally:
            for channel in self._channels.values():
                await channel.close()

    def also(self, node: str) -> None:
        """Call for this one besides, now."""
        if self._tasks is not None:
            kind = kind_of(node)
            self._tasks.create_task(self._call(kind, node), name=f"allocation of {node}")

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Make no calls meanwhile; have exactly one connection to each plugin."""
        self._may_call.clear()
        try:
            await poll_until(lambda: not self._calls.total())
            wanted = {path for kind in self._record.in_force if (path := self._side.socket(kind))}
            for unused in self._channels.keys() - wanted:
                await self._channels.pop(unused).close()
            for path in wanted:
                async with asyncio.timeout(5):
                    await self._channel(path).channel_ready()
            yield
        finally:
            self._may_call.set()

    async def answers(self, node: str) -> bool:
        """Say whether a device can be allocated now."""
        path = self._side.socket(kind_of(node))
        if path is None:
            return False
        return await self._problem(path, self._record.places.id_of(node)) is None

    def _choice(self) -> tuple[str, str]:
        record = self._record
        kind = self._random.choice(sorted(record.in_force))
        draw = self._random.random()
        nodes = nodes_of(kind)
        here = sorted(record.offered(kind)) if draw < 0.8 else sorted(set(nodes) - record.plugged)
        node = self._random.choice(here or nodes)
        return kind, node

    async def _call(self, kind: str, node: str) -> None:
        record, tally = self._record, self._tally
        tally.made += 1
        before = knowledge(record, node, time.monotonic())
        path = self._side.socket(kind)
        if path is None:
            tally.unreachable += 1
            if before.settled and not record.unsettled:
                raise Violation(f"{kind}: no plugin is registered, and nothing is continuing")
            return
        if not before.plugged:
            tally.for_gone += 1
        begun = time.perf_counter()
        problem = await self._problem(path, record.places.id_of(node))
        took = (time.perf_counter() - begun) * 1000
        after = knowledge(record, node, time.monotonic())
        if problem is None:
            tally.answered += 1
            tally.milliseconds.append(took)
        elif "UNAVAILABLE" in problem or "CANCELLED" in problem:
            tally.unreachable += 1
        else:
            tally.refused += 1
        wrong = wrong_answer(before, after, answered=problem is None)
        if wrong:
            said = f": {problem}" if problem else ""
            raise Violation(f"Allocate of {node} was {wrong} ({took:.0f} ms{said})")

    async def _problem(self, path: Path, device: str) -> str | None:
        """Call; give what the answer complains of, None if it is what was requested."""
        self._calls[path] += 1
        try:
            answer = await allocated(self._channel(path), device)
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name}: {error.details()}"
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return "CANCELLED: the connection was closed"
        finally:
            self._calls[path] -= 1
        (given,) = answer.container_responses
        return None if given.devices else "an answer without a device"

    def _channel(self, path: Path) -> grpc.aio.Channel:
        if path not in self._channels:
            self._channels[path] = grpc.aio.insecure_channel(f"unix:{path}", options=OPTIONS)
        return self._channels[path]
