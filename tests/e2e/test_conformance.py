"""One scenario on a real kubelet and on the simulated one: the daemon gets the same answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench import FUSE, LOOP
from tests.e2e.cluster import loop
from tests.e2e.cluster.daemon import Daemon
from tests.e2e.sides import RealSide, SimulatedSide

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.bench import Bench
    from tests.e2e.sides import Side

pytestmark = pytest.mark.e2e


def answers(side: Side) -> dict[str, object]:
    """Play the scenario; give what the kubelet said at each step."""
    said: dict[str, object] = {}
    said["fuse at the start"] = side.listed(FUSE, 3)
    said["loop at the start"] = side.listed(LOOP, 0)
    loop.add(61)
    said["loop with one"] = side.listed(LOOP, 1)
    loop.add(60)
    said["loop with two"] = side.listed(LOOP, 2)
    loop.add(69)
    loop.add(62)
    said["loop with three, and one excluded"] = side.listed(LOOP, 3)
    loop.remove(61)
    said["loop with two again"] = side.listed(LOOP, 2)
    said["a pod that asks for more shares"] = side.refuse({FUSE: 4})
    said["a pod that asks for more devices"] = side.refuse({LOOP: 3})
    said["a pod with both"] = side.give({FUSE: 2, LOOP: 2})
    said["a pod that asks for what is held"] = side.refuse({LOOP: 1})
    side.crash_and_start()
    said["fuse after a crash"] = side.listed(FUSE, 3)
    said["loop after a crash"] = side.listed(LOOP, 2)
    said["a pod that asks for what is still held"] = side.refuse({LOOP: 1})
    said["a pod with what is left"] = side.give({FUSE: 1})
    loop.remove_all()
    said["loop at the end"] = side.listed(LOOP, 0)
    return said


def test_the_simulator_answers_as_the_kubelet_does(
    bench: Bench, program: Path, short_folder: Path
) -> None:
    real = answers(RealSide(bench))
    loop.remove_all()
    config = bench.daemon.config
    with (
        SimulatedSide(short_folder, bench.node.version) as side,
        Daemon(program, short_folder, config, short_folder),
    ):
        simulated = answers(side)

    print(f"\n--- kubelet {bench.node.version} and the simulator")
    for step, answer in real.items():
        told = sorted(answer) if isinstance(answer, frozenset) else answer
        print(f"{step}: {told}", flush=True)
    assert simulated == real
