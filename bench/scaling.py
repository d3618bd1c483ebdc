"""``python -m bench.scaling``: how each cost grows with resources, devices and sysfs; 5 minutes."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench import scaling_axes, trees
from bench.nodes import FOLDER, nodes
from bench.plot import Series, plot
from bench.processes import machine
from bench.scaling_axes import DEVICES, RESOURCES, SYSFS
from bench.scaling_daemon import served
from bench.scaling_fit import UNITS, Book, table
from bench.sides import Bench, Progress, scratch_folder, things

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.scaling_fit import Curve, Page

_TTYS = {"bench.example.com/tty": '{subsystem: tty, name: "ttyUSB1[0-9]"}'}
"""Ten of them, as on the machine with the fewest."""
_WORDS = {
    "passes": "The computing of one pass",
    "answers": "The making of one answer",
    "process": "CPU time of the daemon",
    "waits": "What is waited for",
    "memory": "Private memory of the daemon",
    "bytes": "The size of what is sent",
}
_AXES = {
    "resources": "resources",
    "devices": "devices of one resource",
    "sysfs": "devices of sysfs, of which ten are matched",
}


def main() -> int:
    """Measure what the command line asks for; fail if anything is worse than linear."""
    given = _arguments()
    curves = asyncio.run(_measure(given.only or list(_AXES)))
    if given.save is not None:
        kept = {"machine": machine(), "curves": [one.as_json() for one in curves]}
        given.save.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if given.svg is not None:
        given.svg.mkdir(parents=True, exist_ok=True)
        for name, drawing in drawings(curves):
            (given.svg / name).write_text(drawing, encoding="utf-8")
    print(", ".join(f"{key} {text}" for key, text in machine().items()))
    print(table(curves, markdown=given.output == "markdown"))
    return int(any(one.is_worse_than_linear for one in curves))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__)
    parser.add_argument("--only", action="append", choices=tuple(_AXES), help="one axis")
    parser.add_argument("-o", "--output", choices=("text", "markdown"), default="text")
    parser.add_argument("--save", metavar="FILE", type=Path, help="write JSON there")
    parser.add_argument("--svg", metavar="DIR", type=Path, help="write plots there")
    return parser.parse_args()


async def _measure(axes: Sequence[str]) -> list[Curve]:
    book = Book()
    with scratch_folder() as scratch:
        bench = Bench(scratch=Path(scratch), quick=True, progress=Progress())
        for axis, sizes, measure in (
            ("devices", DEVICES, _devices),
            ("resources", RESOURCES, _resources),
            ("sysfs", SYSFS, _sysfs),
        ):
            for size in sizes if axis in axes else ():
                bench.progress.say(f"{size} {_AXES[axis]}")
                await measure(bench, size, book.page(axis, size))
        bench.progress.say("done")
    return book.curves()


async def _devices(bench: Bench, size: int, notes: Page) -> None:
    await scaling_axes.devices(bench, size, notes)
    globs = {"bench.example.com/thing": f"/dev/{FOLDER}/thing-*"}
    with nodes(size, bench.scratch) as host:
        await served(bench, globs, host.root, notes, host)


async def _resources(bench: Bench, size: int, notes: Page) -> None:
    await scaling_axes.resources(bench, size, notes)
    with nodes(size, bench.scratch) as host:
        await served(bench, things(size), host.root, notes, host)


async def _sysfs(bench: Bench, size: int, notes: Page) -> None:
    folder = bench.scratch / "machine"
    folder.mkdir()
    try:
        await asyncio.to_thread(trees.make, folder, size // 4)
        await scaling_axes.sysfs(folder, size, notes)
        await served(bench, _TTYS, folder, notes)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder)


def drawings(curves: Sequence[Curve]) -> Iterator[tuple[str, str]]:
    """Give the name and text of a plot for each chart of each axis."""
    for axis, words in _AXES.items():
        for chart, unit in UNITS.items():
            own = [one for one in curves if (one.axis, one.chart) == (axis, chart)]
            lines = [Series(name=one.what, points=one.costs) for one in own]
            if lines:
                title = f"{_WORDS[chart]} by {words}"
                yield f"{axis}-{chart}.svg", plot(title, x=words, y=unit, series=lines)


if __name__ == "__main__":
    sys.exit(main())
