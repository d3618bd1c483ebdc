"""``python -m tests.day``: a day of a busy node in minutes, by a clock that is not real."""

from __future__ import annotations

import os

# Read by gRPC when it is imported, which the imports below lead to.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
os.environ["GRPC_VERBOSITY"] = "NONE"

import argparse
import asyncio
import random
import socket
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from bench.flags import between
from genericdp import arenas
from tests.day.clock import Clock, StuckError, VirtualLoop
from tests.day.day import HEAD, Day
from tests.day.quiet import Threads, is_quiet
from tests.soak.daemon import _WITHOUT_CACHES
from tests.soak.daemon_main import _settle
from tests.soak.invariants import Violation


def main() -> int:
    """Live it; 0: all invariants held, and nothing has grown."""
    parser = argparse.ArgumentParser(prog="python -m tests.day", description=__doc__)
    parser.add_argument(
        "--hours", type=between(0.1, 24 * 365), default=24.0, help="of the day (default: 24)"
    )
    parser.add_argument("--seed", type=int, help="the same steps again (default: a new one)")
    parser.add_argument(
        "--pause", type=float, default=60.0, help="seconds between steps, on average (default: 60)"
    )
    parser.add_argument(
        "--restarts", action="store_true", help="have the daemon ended and started, too"
    )
    arguments = parser.parse_args()
    if not _WITHOUT_CACHES.items() <= os.environ.items():
        # Read when a program starts.
        os.environ.update(_WITHOUT_CACHES)
        os.execv(sys.executable, [sys.executable, "-m", "tests.day", *sys.argv[1:]])
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**6)
    shared = Path("/dev/shm")
    where = shared if os.access(shared, os.W_OK) else None
    arenas.keep_to_one()
    _settle()
    with tempfile.TemporaryDirectory(prefix="day", dir=where) as folder:
        broken = _live(Path(folder), seed, arguments)
    print(broken or "nothing grows")
    return 1 if broken else 0


def _live(folder: Path, seed: int, arguments: argparse.Namespace) -> str:
    """Live it; gives what was violated, empty if nothing was."""
    clock, threads, begun = Clock(), Threads(), time.monotonic()
    hours: float = arguments.hours
    day = Day(
        folder,
        clock,
        seed=seed,
        hours=hours,
        pause=arguments.pause,
        port=_free_port(),
        restarts=arguments.restarts,
    )
    print(f"seed {seed}, {hours:g} hours\n{HEAD}", flush=True)
    make = partial(VirtualLoop, clock, partial(is_quiet, threads))
    broken = ""
    try:
        with asyncio.Runner(loop_factory=make) as runner:
            runner.run(day.run())
    except* (Violation, StuckError) as violations:
        broken = f"violated: {violations.exceptions}; seed {seed}"
    finally:
        threads.close()
    if broken:
        print("\n".join(["the daemon's log:", *day.log(), "the last steps:", *day.journal]))
        return broken
    print(f"{day.summary()}\n{hours:g} hours in {time.monotonic() - begun:.0f} s")
    grown = day.conclude()
    return f"it grows: {'; '.join(grown)}" if grown else ""


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
