"""``python -m bench``: measure everything and print a table, in about ten minutes."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from bench import (
    allocate,
    events,
    growth,
    health,
    idle,
    memory,
    passes,
    preferring,
    recoveries,
    reloads,
    restarts,
    start,
    surges,
)
from bench.lines import table
from bench.sides import Bench, Progress, scratch_folder

if TYPE_CHECKING:
    from bench.lines import Line

GROUPS = {
    "start": start,
    "memory": memory,
    "allocate": allocate,
    "preferring": preferring,
    "events": events,
    "passes": passes,
    "health": health,
    "restarts": restarts,
    "surges": surges,
    "reloads": reloads,
    "idle": idle,
    "growth": growth,
}
ALL = {**GROUPS, "recoveries": recoveries}
"""With those that only ``--only`` names."""


def main() -> int:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: about four minutes")
    parser.add_argument(
        "--only", metavar="GROUP", action="append", choices=tuple(ALL), help=", ".join(ALL)
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    arguments = parser.parse_args()
    lines, failed = asyncio.run(_measure(arguments.only or list(GROUPS), quick=arguments.quick))
    if arguments.output == "json":
        print(json.dumps({"machine": _machine(), "lines": [line.as_json() for line in lines]}))
    else:
        print(", ".join(f"{key} {text}" for key, text in _machine().items()))
        print(table(lines))
    return 1 if failed else 0


async def _measure(groups: list[str], *, quick: bool) -> tuple[list[Line], list[str]]:
    """Give the lines, and the groups that came to no end."""
    lines, failed = [], []
    with scratch_folder() as scratch:
        bench = Bench(scratch=Path(scratch), quick=quick, progress=Progress())
        for name in groups:
            try:
                async for line in ALL[name].measure(bench):
                    lines.append(line)  # noqa: PERF401
            except (RuntimeError, TimeoutError, ExceptionGroup) as error:
                # The other groups' minutes need not be lost.
                bench.progress.say(f"{name} FAILED: {error}")
                failed.append(name)
        bench.progress.say("done")
    return lines, failed


def _machine() -> dict[str, str]:
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "load": f"{os.getloadavg()[0]:.1f}",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "grpc": version("grpcio"),
        "user": "root" if os.geteuid() == 0 else "not root",
    }


if __name__ == "__main__":
    sys.exit(main())
