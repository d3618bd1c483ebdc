"""``python -m bench``: measure and print a table, in about ten minutes."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench import allocate, events, idle, memory, reloads, restarts, sizes, start
from bench.processes import machine
from bench.results import table
from bench.runner import Bench, scratch_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.results import Result

MEASUREMENTS = {
    "start": start,
    "memory": memory,
    "allocate": allocate,
    "events": events,
    "restarts": restarts,
    "reloads": reloads,
    "sizes": sizes,
    "idle": idle,
}


def main() -> int:
    """Measure what the command line asks for; returns 1 if a measurement came to no end."""
    options = _arguments()
    # Ctrl-C and SIGTERM both have processes and nodes removed, also where a shell that started us
    # with an ampersand has us ignore the former.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        results, failed = asyncio.run(
            _measure(options.only or list(MEASUREMENTS), quick=options.quick)
        )
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    if options.output == "json":
        print(json.dumps({"machine": machine(), "lines": [one.as_json() for one in results]}))
    else:
        print(", ".join(f"{key} {text}" for key, text in machine().items()))
        print(table(results))
    return int(failed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: two to three minutes")
    parser.add_argument(
        "--only",
        action="append",
        choices=tuple(MEASUREMENTS),
        help="this measurement; may be repeated (default: all)",
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser.parse_args()


async def _measure(names: Sequence[str], *, quick: bool) -> tuple[list[Result], bool]:
    """Return all results, and whether a measurement came to no end."""
    results: list[Result] = []
    failed = False
    with scratch_folder() as scratch:
        bench = Bench(scratch=Path(scratch), quick=quick)
        for name in dict.fromkeys(names):
            try:
                async for result in MEASUREMENTS[name].measure(bench):
                    results.append(result)  # noqa: PERF401  # what there is, if it fails later
            except (RuntimeError, TimeoutError, ExceptionGroup) as error:
                bench.say(f"{name} FAILED: {error}")  # the others' minutes need not be lost
                failed = True
        bench.say("done")
    return results, failed


if __name__ == "__main__":
    sys.exit(main())
