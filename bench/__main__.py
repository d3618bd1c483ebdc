"""``python -m bench``: measure and print a table, as root, in twenty minutes."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench import dra, plugins
from bench.processes import machine
from bench.results import table
from bench.runner import Bench, scratch_directory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.results import Result

MEASUREMENTS = {
    "start": plugins.start,
    "memory": plugins.memory,
    "allocate": plugins.allocate,
    "sizes": plugins.sizes,
    "restarts": plugins.restarts,
    "idle": plugins.idle,
    "dra": dra.measure,
    "commands": plugins.commands,
}
_BUILD = "GOBIN=$PWD go install github.com/squat/generic-device-plugin@latest"


def main() -> int:
    """Measure what the command line selects; return 1 if a measurement failed."""
    options = _arguments()
    if os.geteuid() != 0:
        print("bench needs root: it makes device nodes", file=sys.stderr)
        return 1
    # Ctrl-C and SIGTERM both have processes and nodes removed, also where a shell that started us
    # with an ampersand has us ignore the former.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    load_before = os.getloadavg()[0]
    try:
        results, failed = asyncio.run(
            _measure(options.only or list(MEASUREMENTS), quick=options.quick, squat=options.squat)
        )
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    about = machine(load_before)
    if options.output == "json":
        print(json.dumps({"machine": about, "lines": [result.as_json() for result in results]}))
    else:
        print(", ".join(f"{key} {text}" for key, text in about.items()))
        print(table(results, "bare plugin" if options.squat is None else "squat"))
    return int(failed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: about five minutes")
    parser.add_argument(
        "--only",
        action="append",
        choices=tuple(MEASUREMENTS),
        help="this measurement; may be repeated (default: all)",
    )
    parser.add_argument(
        "--squat",
        type=_program,
        metavar="FILE",
        help="measure this build of squat/generic-device-plugin instead of the bare plugin, without"
        f" goals; to build it: {_BUILD}",
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser.parse_args()


def _program(text: str) -> Path:
    path = Path(text).resolve()
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise argparse.ArgumentTypeError(f"{text} is not a program; to build it: {_BUILD}")
    return path


async def _measure(
    names: Sequence[str], *, quick: bool, squat: Path | None
) -> tuple[list[Result], bool]:
    """Return all results, and whether a measurement failed."""
    results: list[Result] = []
    failed = False
    with scratch_directory() as scratch:
        bench = Bench(scratch=Path(scratch), quick=quick, squat=squat)
        for name in dict.fromkeys(names):
            try:
                async for result in MEASUREMENTS[name](bench):
                    # Goals are for a run next to the bare plugin.
                    fitting = replace(result, goal=None, goal_ratio=None) if squat else result
                    results.append(fitting)  # now: the next may fail
            except (OSError, RuntimeError, ExceptionGroup) as error:
                bench.say(f"{name} FAILED: {error}")  # the others' minutes need not be lost
                failed = True
        bench.say("done")
    return results, failed


if __name__ == "__main__":
    sys.exit(main())
