"""Two daemons side by side through the same steps of a soak: what kubelets see of both.

Both look at one copied machine; each has a kubelet, a state directory and config files of its own.
Left out are loop devices and probes of programs, which need more than a copied machine, and nodes
that are there for a moment only: whether a daemon sees one of them is a matter of time.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.json_format import MessageToDict

from tests.soak.allocating import OPTIONS, allocated
from tests.soak.config import KINDS, Places, first_specs
from tests.soak.disk import Disk
from tests.soak.figures import Figures
from tests.soak.host import Host
from tests.soak.invariants import Violation, mistakes
from tests.soak.load import Load
from tests.soak.record import Record
from tests.soak.sides import SimulatedSide
from tests.soak.steps import CONFIG, DAEMON, HOST, KUBELET, KUBELET_FAULTS, Do, Step, Steps
from tests.soak.world import World
from tests.world import Host as CopiedTree
from tools.compare.sides import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

_KINDS = tuple(kind for kind in KINDS if kind not in {"loop", "exec"})
_ABLE = tuple(
    do for do in (*HOST, *CONFIG, *KUBELET, *KUBELET_FAULTS, *DAEMON) if do is not Do.BLINK
)
_SETTLE_SECONDS = 20.0
"""Much longer than anything takes: how fast a daemon is, is not compared here."""
_LOOK_SECONDS = 0.05


class _Bystander(Host):
    """The same machine, for the one of two worlds that does not change it."""

    async def plug(self, node: str) -> None:
        """Leave it to the other world."""

    async def unplug(self, node: str) -> None:
        """Leave it to the other world."""

    def set_health(self, node: str, *, well: bool) -> None:
        """Leave it to the other world."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ran:
    """What became of a seed."""

    told: str
    """What differs, and after which steps; empty if nothing does."""
    did: Counter[str]
    """How often each kind of step was done."""
    seconds: float


def compare(package: Path, seeds: Sequence[int], steps: int) -> int:
    """Run these seeds, one for each processor at once; return how many end with a difference."""
    begun, differences = time.monotonic(), 0
    did: Counter[str] = Counter()
    os.environ["GRPC_VERBOSITY"] = "NONE"  # of kubelets that are killed it tells much
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        running = {pool.submit(_run, package, seed, steps): seed for seed in seeds}
        for future in as_completed(running):
            seed, ran = running[future], future.result()
            did += ran.did
            print(f"soak seed {seed}: {ran.told or 'no difference'}, {ran.seconds:.0f} s")
            if ran.told:
                differences += 1
                only = f"--only soak --first-seed {seed} --seeds 1 --steps {steps}"
                print(f"  again: python -m tools.compare {only}")
            sys.stdout.flush()
    words = [f"{did[do]} {do}" for do in _ABLE]
    print(f"soak: {did.total()} steps, {time.monotonic() - begun:.0f} s: {', '.join(words)}")
    return differences


def _run(package: Path, seed: int, steps: int) -> _Ran:
    begun, done = time.monotonic(), list[Step]()
    told = asyncio.run(_seed(package, seed, steps, done))
    did = Counter(step.do.value for step in done)
    return _Ran(told=told, did=did, seconds=time.monotonic() - begun)


async def _seed(package: Path, seed: int, steps: int, done: list[Step]) -> str:
    """Return what differs, and after which step; empty if nothing does."""
    shared = Path("/dev/shm")
    where = shared if os.access(shared, os.W_OK) else None
    # Paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="cmp", dir=where) as directory:
        load = Load()
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(load.watch())
            try:
                worlds = [world async for world in _worlds(package, Path(directory), load)]
                return await _steps(worlds, Steps(Random(f"compare {seed}"), _ABLE), steps, done)
            except Violation as violation:
                return f"{violation}\n  after: {done[-1] if done else 'the start'}"
            finally:
                watching.cancel()
    raise AssertionError


async def _worlds(package: Path, directory: Path, load: Load) -> AsyncIterator[World]:
    tree = CopiedTree(directory / "tree")
    places = Places(directory="soak", health="/health")
    (tree.directory / "dev/soak").mkdir()
    (tree.directory / "health").mkdir()
    for name, taken, host in (("b", package, Host), ("c", ROOT, _Bystander)):
        own = directory / name
        own.mkdir()
        side = SimulatedSide(own / "k")
        await side.start("B")
        yield World(
            directory=own,
            host=host(root=tree.directory, places=places, kinds=_KINDS, copy=tree),
            disk=Disk(own, places, first_specs(_KINDS)),
            side=side,
            record=Record(places, _KINDS),
            load=load,
            figures=Figures(),
            package=taken,
        )


async def _steps(worlds: list[World], steps: Steps, count: int, done: list[Step]) -> str:
    try:
        told = await _start(worlds)
        while not told and len(done) < count:
            step = steps.next(worlds[0].record)
            done.append(step)
            told = await _step(worlds, step)
        return f"{told}\n  after: {'; '.join(map(str, done[-3:]))}" if told else ""
    finally:
        for world in worlds:
            for daemon in world.daemons:
                if daemon.process.returncode is None:
                    await daemon.end(signal.SIGKILL)
            await world.side.end(Do.STOP)


async def _start(worlds: list[World]) -> str:
    """Plug every other node, and start the daemons."""
    for node in [node for kind in _KINDS for node in worlds[0].record.absent(kind)]:
        for world in worlds:
            world.host.set_health(node, well=True)
            if int(node[-1]) % 2 == 0:
                await world.toggle(node)
    for world in worlds:
        world.record.touch(world.record.kinds)
    await asyncio.gather(*(world.start_daemon() for world in worlds))
    return await _settled(worlds, [0, 0])


async def _step(worlds: list[World], step: Step) -> str:
    read = [world.daemon.configs_read for world in worlds]
    for world in worlds:
        world.record.touch(world.touched(step))
    await asyncio.gather(*(world.act(step) for world in worlds))
    return await _settled(worlds, [n + 1 for n in read] if step.do in CONFIG else [0, 0])


async def _settled(worlds: list[World], read: list[int]) -> str:
    """Wait until both kubelets know what is true, and the same; return what stays different."""
    until = time.monotonic() + _SETTLE_SECONDS
    while True:
        told = await _differences(worlds, read)
        if not told:
            for world in worlds:
                world.record.settle(time.monotonic())
            return ""
        if time.monotonic() > until:
            return "\n  ".join(["DIFFERENT", *told[:12]])
        await worlds[0].side.changed(_LOOK_SECONDS)


async def _differences(worlds: list[World], read: list[int]) -> list[str]:
    told = []
    lists = []
    for name, world, wanted in zip(("base", "current"), worlds, read, strict=True):
        world.daemon.look_at_log()
        lists.append(await world.side.lists())
        wrong = mistakes(world.record, lists[-1], time.monotonic(), patience=1.0)
        told += [f"{name}: {one}" for one in wrong]
        if world.daemon.configs_read < wanted:
            told.append(f"{name}: has not said what becomes of the config")
    told += _unlike("list of", *lists)
    if not told:
        told = _unlike("Allocate of", *[await _answers(world) for world in worlds])
    return told


def _unlike(what: str, base: Mapping[str, Any], current: Mapping[str, Any]) -> list[str]:
    return [
        f"{what} {kind} {device}: base {before}, current {now}"
        for kind in sorted(base.keys() | current.keys())
        for device in sorted(base.get(kind, {}).keys() | current.get(kind, {}).keys())
        if (before := base.get(kind, {}).get(device)) != (now := current.get(kind, {}).get(device))
    ]


async def _answers(world: World) -> dict[str, dict[str, Any]]:
    """Ask for each device that is listed, whether it is healthy or not."""
    found: dict[str, dict[str, Any]] = {}
    for kind, devices in (await world.side.lists()).items():
        if not devices:
            continue
        path = world.side.socket(kind)
        if path is None:
            found[kind] = dict.fromkeys(devices, "no plugin is registered")
            continue
        async with grpc.aio.insecure_channel(f"unix:{path}", options=OPTIONS) as channel:
            found[kind] = {device: await _answer(channel, device) for device in sorted(devices)}
    return found


async def _answer(channel: grpc.aio.Channel, device: str) -> Any:  # noqa: ANN401  # any JSON
    try:
        return MessageToDict(await allocated(channel, device))
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name}: {error.details()}"
