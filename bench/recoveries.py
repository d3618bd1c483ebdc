"""From a real kubelet's new socket to its list of every resource, over a hundred restarts.

Only on request (``--only recoveries``): it needs root and the kubelets of ``make e2e-all``.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from inotify_simple import INotify, flags

from bench.lines import Line, percentile
from bench.nodes import nodes
from bench.sides import BASELINE, DAEMON, config_text, things
from genericdp.kubelet.registration import KUBELET_SOCKET
from tests.e2e.cluster.daemon import Daemon
from tests.e2e.cluster.listing import CHECKPOINT, registered
from tests.e2e.cluster.node import Binaries, Node
from tests.e2e.cluster.sweep import DEVICE_PLUGINS
from tests.e2e.cluster.versions import CONTAINERD, NEWEST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator

    from bench.sides import Bench

RESOURCES = 10
_GOAL_P50, _GOAL_P99 = 300.0, 1000.0
_ROUNDS = {DAEMON: 100, BASELINE: 20}
_QUICK_ROUNDS = 10
_UP_SECONDS = 0.5
_LIST_SECONDS = 60.0
_REPOSITORY = Path(__file__).parent.parent


async def measure(bench: Bench) -> AsyncIterator[Line]:
    """Restart each kubelet, killed and ended in turns, beside the daemon, then beside the floor."""
    if lacking := _lacking():
        bench.progress.say(f"recoveries are left out: {lacking}")
        return
    with nodes(RESOURCES, bench.scratch) as host:
        if not host.real:
            bench.progress.say("recoveries are left out: no device nodes can be made here")
            return
        for version in NEWEST:
            rounds = {side: _QUICK_ROUNDS if bench.quick else n for side, n in _ROUNDS.items()}
            took = {}
            for side, number in rounds.items():
                bench.progress.say(f"kubelet {version} is started {number} times, {side}")
                took[side] = await asyncio.to_thread(recoveries, version, side, number)
            what = f"kubelet {version} is started, {RESOURCES} resources listed"
            daemon, floor = took[DAEMON], took[BASELINE]
            yield Line(
                what=f"{what}, p50", unit="ms", daemon=daemon, baseline=floor, goal=_GOAL_P50
            )
            p99 = (percentile(list(daemon), 0.99),)
            yield Line(what=f"{what}, p99", unit="ms", daemon=p99, goal=_GOAL_P99)


def recoveries(version: str, side: str, rounds: int) -> tuple[float, ...]:
    """Restart the kubelet so many times; give the milliseconds from its socket to all lists."""
    binaries = Binaries(
        version=version,
        kubelet=_cache() / f"kubelet-{version}",
        containerd=_cache() / f"containerd-{CONTAINERD}",
    )
    resources = things(RESOURCES)
    took = []
    with (
        tempfile.TemporaryDirectory(prefix="gdp") as scratch,
        Node(Path(scratch) / "node", binaries) as node,
        INotify() as inotify,
        _plugin(side, Path(scratch)),
    ):
        inotify.add_watch(DEVICE_PLUGINS, flags.CREATE | flags.MOVED_TO)
        _await_lists(inotify, resources, time.monotonic())
        for number in range(rounds):
            time.sleep(_UP_SECONDS)
            (node.kill_kubelet if number % 2 else node.stop_kubelet)()
            node.launch_kubelet()
            took.append(_await_lists(inotify, resources) * 1000)
    return tuple(took)


def _await_lists(
    inotify: INotify, resources: Collection[str], appeared: float | None = None
) -> float:
    """Give the seconds from the kubelet's socket to its checkpoint with devices of all of them.

    The kubelet writes its checkpoint at each list, and then only what it was told since it started.
    """
    deadline = time.monotonic() + _LIST_SECONDS
    listed: set[str] = set()
    while time.monotonic() < deadline:
        events = inotify.read(timeout=100)
        now = time.monotonic()
        for event in events:
            if event.name == KUBELET_SOCKET and event.mask & flags.CREATE:
                appeared, listed = now, set()
            elif event.name == CHECKPOINT.name and appeared:
                # All that any version has: of two in one moment it may write the older one last.
                listed |= {name for name, ids in registered().items() if ids}
                if listed.issuperset(resources):
                    return now - appeared
    raise TimeoutError("the kubelet was not told of all resources")


@contextmanager
def _plugin(side: str, folder: Path) -> Iterator[None]:
    """Run one side on this machine's kubelet."""
    if side == DAEMON:
        program = Path(sys.executable).parent / "genericdp"
        with Daemon(program, folder, config_text(things(RESOURCES)), DEVICE_PLUGINS):
            yield
        return
    asked = (f"{name}={glob}" for name, glob in things(RESOURCES).items())
    command = (sys.executable, "-m", "bench.baseline", str(DEVICE_PLUGINS), *asked)
    with subprocess.Popen(command, cwd=_REPOSITORY) as process:
        try:
            yield
        finally:
            process.terminate()


def _cache() -> Path:
    above = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return above / "genericdp-cluster"


def _lacking() -> str:
    """Say what keeps a kubelet from being started here; empty if nothing does."""
    if os.geteuid() != 0:
        return "a kubelet needs root"
    names = (f"containerd-{CONTAINERD}", *(f"kubelet-{version}" for version in NEWEST))
    if missing := [name for name in names if not (_cache() / name).is_dir()]:
        return f"make e2e-all has not built {', '.join(missing)}"
    if DEVICE_PLUGINS.is_dir() and any(DEVICE_PLUGINS.iterdir()):
        return f"{DEVICE_PLUGINS} is not empty: another kubelet uses it"
    return ""
