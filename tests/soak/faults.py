"""All that a soak does to a node: an entry of ``FAULTS`` for each kind of step.

A step is drawn from a seed and the record alone, so it is repeatable.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.soak.config import (
    BROKEN,
    KINDS,
    PLAIN,
    SOURCES,
    VOLUME,
    Spec,
    first_specs,
    kind_of,
    nodes_of,
)
from tests.soak.disk import WAYS
from tests.soak.load import Mark
from tests.soak.record import Record
from tests.soak.sides import Ending, SimulatedSide
from tests.soak.world import World

Types = frozenset[str]
Drawn = dict[str, Any] | None

HOST, CONFIG, KUBELET, SIMULATED, DAEMON = "host", "config", "kubelet", "simulated", "daemon"
_WAYS: Mapping[str, tuple[str, ...]] = {
    VOLUME: ("swap",),
    PLAIN: (*WAYS,),
}
_NUMBERS = ("*", "*", "[0-3]", "[2-7]", "[13579]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One thing to do; everything about it is decided."""

    fault: Fault
    nodes: tuple[str, ...] = ()
    """Those that are plugged if they are absent, else unplugged; of FLAP: well, or no longer."""
    kind: str = ""
    """The type of the resource whose stream is broken."""
    source: str = ""
    specs: tuple[Spec, ...] = ()
    way: str = ""
    """How a file is written; of BREAK: also what is wrong with it, after a colon."""
    hangup: bool = False
    """Whether SIGHUP follows."""
    generation: str = ""
    """Of the kubelet that is started."""
    times: int = 1
    """How many restarts."""
    pause: float = 0.0
    """How long the one that is restarted is away, in seconds; of ROLL: how long both run."""
    rest: float = 0.0
    """How long lists are watched afterwards, in seconds."""

    def __str__(self) -> str:
        words: list[str] = [self.fault.name]
        if self.nodes:
            words.append(",".join(self.nodes))
        if self.source:
            words.append(f"{self.source} by {self.way}{' and SIGHUP' if self.hangup else ''}")
        words += [f"{s.type}-{s.numbers}:{s.replicas}:{s.prefer}" for s in self.specs]
        if self.kind:
            words.append(self.kind)
        elif self.fault.of in {KUBELET, SIMULATED, DAEMON}:
            words.append(f"{self.generation or 'same'} x{self.times} away {self.pause:.2f} s")
        return f"{' '.join(words)}, then {self.rest:.2f} s"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Fault:
    """A kind of step."""

    name: str
    """In the words of the table at the end."""
    of: str
    """What it is done to."""
    do: Callable[[World, Step], Awaitable[Mark | None]]
    """Do it, enter it in the record, and return when lists have to become true, unless now."""
    draw: Callable[[Steps, Record], Drawn] = lambda _steps, _record: {}
    """Return the further keys of a step; None: there is nothing to do it to."""
    weight: int = 0
    """How often it is drawn, next to others."""
    touched: Callable[[Record, Step], Types] = lambda record, _: frozenset(record.kinds)
    """Return the types whose lists it may change, or take away for a while."""
    waits_for_probes: Callable[[Record], object] = lambda _record: False
    """Whether a probe has to find out first."""
    ends_streams: bool = False
    is_brief: bool = False
    """Whether something was there for a moment, and may be listed for one."""
    is_unlisted: bool = False
    """Whether no list reports it, only Allocate."""
    amid_registrations: bool = False
    """Whether a stream may be awaited that never comes (K10)."""


class Steps:
    """Draws steps; asked with an equal record it gives an equal one."""

    def __init__(self, random: Random, able: Collection[Fault]) -> None:
        self.random = random
        self._able = tuple(fault for fault in FAULTS if fault.weight and fault in able)

    def next(self, record: Record) -> Step:
        weights = [fault.weight for fault in self._able]
        while True:
            (fault,) = self.random.choices(self._able, weights)
            if record.broken and fault is BREAK:
                fault = RELOAD
            rest = self.random.uniform(0.05, 0.5)
            if (keys := fault.draw(self, record)) is not None:
                return Step(fault=fault, rest=rest, **keys)

    def some(self, nodes: list[str], most: int) -> tuple[str, ...]:
        """Return some of these; mostly one: what comes together may hide what gets lost."""
        count = 1 if self.random.random() < 0.6 else self.random.randint(1, most)
        return tuple(self.random.sample(nodes, min(count, len(nodes))))


def _nodes(
    choose: Callable[[Record], list[str]], most: int, *, loops: bool = True
) -> Callable[[Steps, Record], Drawn]:
    """Return what draws some nodes; without ``loops`` no loop device: none may go and come."""

    def draw(steps: Steps, record: Record) -> Drawn:
        found = [node for node in choose(record) if loops or kind_of(node) != "loop"]
        nodes = steps.some(found, most)
        return {"nodes": nodes} if nodes else None

    return draw


def _absent(record: Record) -> list[str]:
    return [node for kind in record.kinds for node in record.absent(kind)]


def _plugged(record: Record) -> list[str]:
    return sorted(record.plugged)


def _probed(record: Record) -> list[str]:
    probed = [node for kind in record.kinds if KINDS[kind].probe for node in nodes_of(kind)]
    return [node for node in probed if node in record.plugged]


def _drawn_reload(steps: Steps, record: Record) -> Drawn:
    broken = sorted(record.broken)
    source = broken[0] if broken else steps.random.choice(SOURCES)
    specs = {spec.type: spec for spec in record.on_disk[source]}
    for _ in range(steps.random.choice((0, 1, 1, 1, 2, 3))):
        _change(steps.random, specs, source, record)
    return {
        "source": source,
        "specs": tuple(specs[kind] for kind in record.kinds if kind in specs),
        "way": steps.random.choice(_WAYS[source]),
        "hangup": steps.random.random() < 0.1,
    }


def _change(random: Random, specs: dict[str, Spec], source: str, record: Record) -> None:
    kind = random.choice([kind for kind in record.kinds if KINDS[kind].source == source])
    what = random.choice(("presence", "presence", "replicas", "numbers", "prefer"))
    draw = random.random()
    if kind not in specs:
        specs[kind] = Spec(type=kind)
    elif what == "presence" and not KINDS[kind].stays:
        del specs[kind]
    elif what == "prefer":
        prefer = "auto" if specs[kind].prefer == "none" else "none"
        specs[kind] = replace(specs[kind], prefer=prefer)
    elif what == "numbers":
        specs[kind] = replace(specs[kind], numbers=_NUMBERS[int(draw * len(_NUMBERS))])
    else:
        specs[kind] = replace(specs[kind], replicas=1 + int(draw * 3))


def _drawn_break(steps: Steps, _: Record) -> Drawn:
    source = steps.random.choice(SOURCES)
    wrong = steps.random.choice(sorted(BROKEN))
    return {"source": source, "way": f"{steps.random.choice(_WAYS[source])}: {wrong}"}


def _drawn_stream(steps: Steps, record: Record) -> Drawn:
    kinds = sorted(record.in_force.keys() - record.broken_streams)
    return {"kind": steps.random.choice(kinds)} if kinds else None


def _restart(
    generations: str = "", *, most: int = 1, overlapping: bool = False
) -> Callable[[Steps, Record], Drawn]:
    """Return what draws a restart; ``overlapping``: next to the one that it replaces."""

    def draw(steps: Steps, record: Record) -> Drawn:
        random, is_changed = steps.random, steps.random.random() < 0.5
        nodes = sorted(record.plugged) + _absent(record)
        return {
            "nodes": steps.some(nodes, 3) if is_changed and not overlapping else (),
            "generation": random.choice(generations) if generations else "",
            "times": random.randint(3, most) if most > 1 else 1,
            # A second daemon takes less than a second to have all its streams.
            "pause": random.uniform(0, 1)
            if overlapping
            else random.choice((0, 0.02, 0.2, 0.7, 1.2)),
        }

    return draw


def _to_each(
    do: Callable[[World, str], Awaitable[None]],
) -> Callable[[World, Step], Awaitable[None]]:

    async def change(world: World, step: Step) -> None:
        for node in step.nodes:
            await do(world, node)

    return change


async def _flap(world: World, node: str) -> None:
    well = node in world.record.sick
    world.host.set_health(node, well=well)
    world.record.set_health(node, well=well)


async def _blink(world: World, node: str) -> None:
    await world.host.plug(node)
    await world.host.unplug(node)
    world.record.blink(node, time.monotonic())


async def _replug(world: World, node: str) -> None:
    await world.host.unplug(node)
    await world.host.plug(node)
    world.record.plug(node, time.monotonic())


async def _reload(world: World, step: Step) -> None:
    world.disk.write(step.source, step.specs, step.way)
    world.record.write(step.source, step.specs, time.monotonic())
    if step.hangup:
        world.daemon.hang_up()


async def _break(world: World, step: Step) -> None:
    world.disk.break_(step.source, step.way, world.record.on_disk[step.source])
    world.record.breaks(step.source, step.way)


async def _hang_up(world: World, _: Step) -> None:
    world.daemon.hang_up()


def _end_kubelet(how: Ending) -> Callable[[World, Step], Awaitable[Mark]]:
    async def restart(world: World, step: Step) -> Mark:
        world.record.broken_streams.clear()
        if how == "wiped":
            world.crashed.clear()
        return await world.restart_kubelet(step, how)

    return restart


async def _storm(world: World, step: Step) -> Mark:
    world.record.broken_streams.clear()
    for turn in range(step.times - 1):
        await world.side.end("killed" if turn % 2 else "stopped")
        await asyncio.sleep(step.pause / 10)  # noqa: TID251 -- the pauses of a soak are its steps
        await world.side.start("AB"[turn % 2])
        await asyncio.sleep(step.pause / 4)  # noqa: TID251 -- the pauses of a soak are its steps
    return await world.restart_kubelet(step, "killed")


async def _freeze(world: World, step: Step) -> None:
    assert isinstance(world.side, SimulatedSide)
    world.side.kubelet.freeze()
    await world.pause(step)
    world.side.kubelet.thaw()


async def _stream(world: World, step: Step) -> None:
    assert isinstance(world.side, SimulatedSide)
    world.record.broken_streams.add(step.kind)
    world.side.kubelet.break_streams(f"soak.example.com/{step.kind}")


def _end_daemon(number: signal.Signals) -> Callable[[World, Step], Awaitable[Mark]]:
    async def replaced(world: World, step: Step) -> Mark:
        world.record.begin_again()
        await world.end_daemon(world.daemon, number)
        if number is signal.SIGTERM:
            world.check_sockets()
        await world.pause(step)
        return await world.start_daemon()

    return replaced


async def _roll(world: World, step: Step) -> Mark:
    world.record.begin_again()
    old, mark = world.daemon, await world.start_daemon()
    await asyncio.sleep(step.pause)  # noqa: TID251 -- it may be anywhere between its start and its streams
    mark.at = time.monotonic()
    await world.end_daemon(old, signal.SIGTERM)
    return mark


_OF_HOST: dict[str, Any] = {
    "of": HOST,
    "touched": lambda _, step: frozenset(map(kind_of, step.nodes)),
}
_OF_CONFIG: dict[str, Any] = {"of": CONFIG, "touched": lambda *_: frozenset()}
_OF_KUBELET: dict[str, Any] = {"of": KUBELET, "draw": _restart("AB"), "ends_streams": True}
_OF_SIMULATED: dict[str, Any] = {**_OF_KUBELET, "of": SIMULATED}
_OF_DAEMON: dict[str, Any] = {"of": DAEMON, "draw": _restart(), "ends_streams": True, "weight": 2}

RELOAD = Fault(
    name="config changed", of=CONFIG, weight=14, draw=_drawn_reload, do=_reload,
    touched=lambda record, step: record.would_change(step.source, step.specs).touched,
)  # fmt: skip
BREAK = Fault(name="config broken", weight=3, draw=_drawn_break, do=_break, **_OF_CONFIG)
FLAP = Fault(
    name="probes flap", weight=6, draw=_nodes(_probed, 3), do=_to_each(_flap),
    waits_for_probes=lambda _: True, **_OF_HOST,
)  # fmt: skip
ROLL = Fault(
    name="daemon replaced by a second one", do=_roll, is_brief=True, amid_registrations=True,
    **{**_OF_DAEMON, "draw": _restart(overlapping=True)},
)  # fmt: skip
REST = Fault(
    name="all as in the beginning", do=_to_each(World.toggle),
    waits_for_probes=lambda record: record.sick, **_OF_HOST,
)  # fmt: skip
FAULTS = (
    Fault(name="nodes plugged", weight=12, draw=_nodes(_absent, 6), do=_to_each(World.toggle),
          **_OF_HOST),
    Fault(name="nodes unplugged", weight=12, draw=_nodes(_plugged, 6), do=_to_each(World.toggle),
          **_OF_HOST),
    Fault(name="nodes replaced", weight=3, draw=_nodes(_plugged, 2, loops=False),
          do=_to_each(_replug), is_unlisted=True, **_OF_HOST),
    Fault(name="nodes there for a moment", weight=2, draw=_nodes(_absent, 2, loops=False),
          do=_to_each(_blink), is_brief=True, **_OF_HOST),
    FLAP,
    RELOAD,
    BREAK,
    Fault(name="SIGHUP alone", weight=1, do=_hang_up, **_OF_CONFIG),
    Fault(name="kubelet stopped and started", weight=3, do=_end_kubelet("stopped"), **_OF_KUBELET),
    Fault(name="kubelet killed and started", weight=3, do=_end_kubelet("killed"), **_OF_KUBELET),
    Fault(name="kubelet and its directory gone and back", weight=1, do=_end_kubelet("wiped"),
          **_OF_SIMULATED),
    Fault(name="kubelet restarts in a row", weight=2, do=_storm,
          **{**_OF_SIMULATED, "draw": _restart("AB", most=7)}),
    Fault(name="kubelet frozen for a while", weight=1, do=_freeze,
          **{**_OF_SIMULATED, "ends_streams": False}),
    Fault(name="a stream broken by the kubelet", weight=2, do=_stream,
          touched=lambda _, step: frozenset({step.kind}),
          **{**_OF_SIMULATED, "draw": _drawn_stream}),
    Fault(name="daemon ended by SIGTERM, started", do=_end_daemon(signal.SIGTERM), **_OF_DAEMON),
    Fault(name="daemon killed, started", do=_end_daemon(signal.SIGKILL), **_OF_DAEMON),
    ROLL,
    REST,
)  # fmt: skip


def back_to_the_beginning(record: Record) -> list[Step]:
    """Give the steps after which all is as in the beginning: for figures that can be compared."""
    first = first_specs(record.kinds)
    wanted = {node for kind in record.kinds for node in nodes_of(kind)[::2]}
    odd = tuple(sorted(record.plugged ^ wanted))
    steps = [Step(fault=REST, nodes=odd)] if odd else []
    if sick := tuple(sorted(record.sick & wanted)):
        steps.append(Step(fault=FLAP, nodes=sick))
    for source in sorted(SOURCES, key=lambda entry: entry not in record.broken):
        if source in record.broken or record.on_disk[source] != first[source]:
            way = _WAYS[source][0]
            steps.append(Step(fault=RELOAD, source=source, specs=first[source], way=way))
    return steps
