"""The next step of the soak: drawn from a seed and the record alone, so repeatable; pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tests.soak.config import BROKEN, KINDS, PLAIN, SOURCES, VOLUME, Spec, first_specs, nodes_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from random import Random

    from tests.soak.record import Record


class Do(StrEnum):
    """Kinds of steps, in the words of the table at the end."""

    PLUG = "nodes plugged"
    UNPLUG = "nodes unplugged"
    REPLUG = "nodes replaced"
    BLINK = "nodes there for a moment"
    FLAP = "probes flap"
    RELOAD = "config changed"
    BREAK = "config broken"
    HANGUP = "SIGHUP alone"
    STOP = "kubelet stopped and started"
    CRASH = "kubelet killed and started"
    WIPE = "kubelet and its directory gone and back"
    STORM = "kubelet restarts in a row"
    FREEZE = "kubelet frozen for a while"
    STREAM = "a stream broken by the kubelet"
    TERM = "daemon ended by SIGTERM, started"
    KILL = "daemon killed, started"
    ROLL = "daemon replaced by a second one"
    REST = "all as in the beginning"


HOST = (Do.PLUG, Do.UNPLUG, Do.REPLUG, Do.BLINK, Do.FLAP)
CONFIG = (Do.RELOAD, Do.BREAK, Do.HANGUP)
KUBELET = (Do.STOP, Do.CRASH)
KUBELET_FAULTS = (Do.WIPE, Do.STORM, Do.FREEZE, Do.STREAM)
DAEMON = (Do.TERM, Do.KILL, Do.ROLL)
_RESTARTS = (*KUBELET, *KUBELET_FAULTS, *DAEMON)
ENDING_STREAMS = tuple(do for do in _RESTARTS if do is not Do.FREEZE)

_WEIGHTS: Mapping[Do, int] = {
    Do.PLUG: 12,
    Do.UNPLUG: 12,
    Do.REPLUG: 3,
    Do.BLINK: 2,
    Do.FLAP: 6,
    Do.RELOAD: 14,
    Do.BREAK: 3,
    Do.HANGUP: 1,
    Do.STOP: 3,
    Do.CRASH: 3,
    Do.WIPE: 1,
    Do.STORM: 2,
    Do.FREEZE: 1,
    Do.STREAM: 2,
    Do.TERM: 2,
    Do.KILL: 2,
    Do.ROLL: 2,
}
_WAYS: Mapping[str, tuple[str, ...]] = {
    VOLUME: ("swap",),
    PLAIN: ("write", "rename", "move_away_first", "delete_and_write", "write_keeping_times"),
}
_NUMBERS = ("*", "*", "[0-3]", "[2-7]", "[13579]")
_BURST = 6
_MAX_BESIDE_SECONDS = 1.0
"""A second daemon takes less than that to have all its streams."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One thing to do; everything about it is decided."""

    do: Do
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
        words: list[str] = [self.do.value]
        if self.nodes:
            words.append(",".join(self.nodes))
        if self.source:
            words.append(f"{self.source} by {self.way}{' and SIGHUP' if self.hangup else ''}")
        words += [_described(spec) for spec in self.specs]
        if self.kind:
            words.append(self.kind)
        if self.do in _RESTARTS and self.do is not Do.STREAM:
            words.append(f"{self.generation or 'same'} x{self.times} away {self.pause:.2f} s")
        return f"{' '.join(words)}, then {self.rest:.2f} s"


def _described(spec: Spec) -> str:
    return f"{spec.type}-{spec.numbers}:{spec.replicas}:{spec.prefer}"


class Steps:
    """Draws steps; asked with an equal record it gives an equal one."""

    def __init__(self, random: Random, able: Collection[Do]) -> None:
        self._random = random
        self._able = tuple(do for do in _WEIGHTS if do in able)

    def next(self, record: Record) -> Step:
        """Give the next step."""
        weights = [_WEIGHTS[do] for do in self._able]
        while True:
            (do,) = self._random.choices(self._able, weights)
            if record.broken and do is Do.BREAK:
                do = Do.RELOAD
            step = self._drawn(do, record)
            if step is not None:
                return step

    def _drawn(self, do: Do, record: Record) -> Step | None:
        rest = self._random.uniform(0.05, 0.5)
        if do in HOST:
            nodes = self._nodes(do, record)
            return Step(do=do, nodes=nodes, rest=rest) if nodes else None
        if do is Do.RELOAD:
            return self._reload(record, rest)
        if do is Do.BREAK:
            source = self._random.choice(SOURCES)
            how = self._random.choice(sorted(BROKEN))
            way = f"{self._random.choice(_WAYS[source])}: {how}"
            return Step(do=do, source=source, way=way, rest=rest)
        if do is Do.STREAM:
            kinds = sorted(record.in_force.keys() - record.broken_streams)
            return Step(do=do, kind=self._random.choice(kinds), rest=rest) if kinds else None
        if do is Do.HANGUP:
            return Step(do=do, rest=rest)
        return self._restart(do, record, rest)

    def _nodes(self, do: Do, record: Record) -> tuple[str, ...]:
        """Give those that the step is about; no loop device may go and come at once."""
        if do is Do.FLAP:
            probed = [n for kind in record.kinds if KINDS[kind].probe for n in nodes_of(kind)]
            return self._some([node for node in probed if node in record.plugged], 3)
        if do in {Do.PLUG, Do.BLINK}:
            from_all = [node for kind in record.kinds for node in record.absent(kind)]
        else:
            from_all = sorted(record.plugged)
        if do in {Do.REPLUG, Do.BLINK}:
            from_all = [node for node in from_all if not node.startswith("loop-")]
        return self._some(from_all, _BURST if do in {Do.PLUG, Do.UNPLUG} else 2)

    def _some(self, nodes: list[str], most: int) -> tuple[str, ...]:
        # Mostly one: what comes together may hide what gets lost.
        count = 1 if self._random.random() < 0.6 else self._random.randint(1, most)
        return tuple(self._random.sample(nodes, min(count, len(nodes))))

    def _reload(self, record: Record, rest: float) -> Step:
        broken = sorted(record.broken)
        source = broken[0] if broken else self._random.choice(SOURCES)
        specs = {spec.type: spec for spec in record.on_disk[source]}
        for _ in range(self._random.choice((0, 1, 1, 1, 2, 3))):
            self._change(specs, source, record)
        return Step(
            do=Do.RELOAD,
            source=source,
            specs=tuple(specs[kind] for kind in record.kinds if kind in specs),
            way=self._random.choice(_WAYS[source]),
            hangup=self._random.random() < 0.1,
            rest=rest,
        )

    def _change(self, specs: dict[str, Spec], source: str, record: Record) -> None:
        kinds = [kind for kind in record.kinds if KINDS[kind].source == source]
        kind = self._random.choice(kinds)
        what = self._random.choice(("presence", "presence", "replicas", "numbers", "prefer"))
        draw = self._random.random()
        if kind not in specs:
            specs[kind] = Spec(type=kind)
        elif what == "presence" and not KINDS[kind].stays:
            del specs[kind]
        elif what == "prefer":
            prefer = "auto" if specs[kind].prefer == "none" else "none"
            specs[kind] = _replaced(specs[kind], prefer=prefer)
        elif what == "numbers":
            specs[kind] = _replaced(specs[kind], numbers=_NUMBERS[int(draw * len(_NUMBERS))])
        else:
            specs[kind] = _replaced(specs[kind], replicas=1 + int(draw * 3))

    def _restart(self, do: Do, record: Record, rest: float) -> Step:
        away = self._random.random() < 0.5
        changed = sorted(record.plugged) + [n for k in record.kinds for n in record.absent(k)]
        return Step(
            do=do,
            nodes=self._some(changed, 3) if away and do is not Do.ROLL else (),
            generation=self._random.choice("AB") if do not in DAEMON else "",
            times=self._random.randint(3, 7) if do is Do.STORM else 1,
            pause=self._random.uniform(0.0, _MAX_BESIDE_SECONDS)
            if do is Do.ROLL
            else self._random.choice((0.0, 0.02, 0.2, 0.7, 1.2)),
            rest=rest,
        )


def _replaced(spec: Spec, **changes: object) -> Spec:
    fields = {
        "type": spec.type,
        "numbers": spec.numbers,
        "replicas": spec.replicas,
        "prefer": spec.prefer,
    }
    return Spec(**{**fields, **changes})  # type: ignore[arg-type]


def back_to_the_beginning(record: Record) -> list[Step]:
    """Give the steps after which all is as in the beginning: for figures that can be compared."""
    first = first_specs(record.kinds)
    wanted = {node for kind in record.kinds for node in nodes_of(kind)[::2]}
    odd = tuple(sorted(record.plugged ^ wanted))
    steps = [Step(do=Do.REST, nodes=odd)] if odd else []
    if sick := tuple(sorted(record.sick & wanted)):
        steps.append(Step(do=Do.FLAP, nodes=sick))
    for source in sorted(SOURCES, key=lambda entry: entry not in record.broken):
        if source in record.broken or record.on_disk[source] != first[source]:
            way = _WAYS[source][0]
            steps.append(Step(do=Do.RELOAD, source=source, specs=first[source], way=way))
    return steps
