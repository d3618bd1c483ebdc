"""``python -m bench``: measure everything and print a table, in ten minutes at most."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench import (
    allocate,
    disturbed,
    events,
    growth,
    health,
    idle,
    manyevents,
    memory,
    passes,
    preferring,
    probes,
    recoveries,
    reloads,
    restarts,
    start,
    surges,
)
from bench.flags import between, end_as_by_hand, writable_file
from bench.lines import table
from bench.processes import machine
from bench.sides import Bench, Progress, scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.lines import Line

GROUPS = {
    "start": start,
    "memory": memory,
    "allocate": allocate,
    "disturbed": disturbed,
    "probes": probes,
    "events": events,
    "manyevents": manyevents,
    "restarts": restarts,
    "reloads": reloads,
    "idle": idle,
    "growth": growth,
}
ON_REQUEST = {
    "preferring": preferring,
    "passes": passes,
    "health": health,
    "surges": surges,
    "recoveries": recoveries,
}
"""Those that only ``--only`` names: all together may take ten minutes."""
ALL = {**GROUPS, **ON_REQUEST}


def main() -> int:
    """Measure what the command line asks for."""
    given = _arguments()
    bench = partial(Bench, quick=given.quick, idle_seconds=given.idle_seconds)
    end_as_by_hand()
    try:
        lines, failed = asyncio.run(_measure(list(dict.fromkeys(given.only or GROUPS)), bench))
    except KeyboardInterrupt:
        print("interrupted: what was made is removed", file=sys.stderr)
        return 130
    kept = json.dumps({"machine": machine(), "lines": [line.as_json() for line in lines]})
    if given.save is not None:
        given.save.write_text(kept + "\n", encoding="utf-8")
    if given.output == "json":
        print(kept)
    else:
        print(", ".join(f"{key} {text}" for key, text in machine().items()))
        print(table(lines))
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: about five minutes")
    parser.add_argument(
        "--only",
        metavar="GROUP",
        action="append",
        choices=tuple(ALL),
        help=f"{', '.join(GROUPS)}; on request alone: {', '.join(ON_REQUEST)}",
    )
    parser.add_argument(
        "--idle-seconds",
        type=between(60, 86_400),
        default=120.0,
        help="how long to look at idle processes: 60 or more",
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument(
        "--save",
        metavar="FILE",
        type=writable_file,
        help="write JSON there, for python -m bench.compare",
    )
    return parser.parse_args()


async def _measure(
    groups: list[str], bench_of: Callable[..., Bench]
) -> tuple[list[Line], list[str]]:
    """Give the lines, and the groups that came to no end."""
    lines, failed = [], []
    with scratch_folder() as scratch:
        bench = bench_of(scratch=Path(scratch), progress=Progress())
        for name in groups:
            begun = time.monotonic()
            try:
                async for line in ALL[name].measure(bench):
                    lines.append(line)  # noqa: PERF401
            except (RuntimeError, TimeoutError, ExceptionGroup) as error:
                # The other groups' minutes need not be lost.
                bench.progress.say(f"{name} FAILED: {error}")
                failed.append(name)
            bench.progress.say(f"{name}: {time.monotonic() - begun:.0f} s")
        bench.progress.say(f"done, all in {bench.progress.seconds:.0f} s")
    return lines, failed


if __name__ == "__main__":
    sys.exit(main())
