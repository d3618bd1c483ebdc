"""What a CDI spec of 1,000 devices costs, next to the same daemon without one."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

from bench.events import to_list
from bench.nodes import FOLDER, nodes
from bench.results import Result, counted
from bench.runner import DAEMON, config_text
from genericdp.cdi import SpecFolder, file_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from bench.nodes import Nodes
    from bench.runner import Bench

_COUNT = 1_000
_OTHER, _THING = "bench.example.com/other", "bench.example.com/thing"
_GLOBS = {_OTHER: f"/dev/{FOLDER}/thing-{_COUNT}", _THING: f"/dev/{FOLDER}/thing-*"}
"""The last node is another resource's, whose changes are none of the spec."""
_WRITES = 50
_SETTLE_SECONDS = 3.0
_APART_SECONDS = 0.3


async def measure(bench: Bench) -> AsyncIterator[Result]:
    """Change a device with and without a spec in turns; then write the spec again and again."""
    turns, changes = (1, 3) if bench.quick else (3, 5)
    devices = counted(_COUNT, "device")
    bench.say(f"a CDI spec of {devices}, {turns} turns")
    took: dict[str, list[float]] = {"kubelet": [], "cdi": []}
    rewritten, content = 0, b""
    with nodes(_COUNT + 1, bench.scratch) as host:
        # As in bench/sizes.py: without root each change has all of a copied tree looked at.
        numbers = range(_COUNT)[-changes if host.real else -1 :]
        for _ in range(turns):
            for by, samples in took.items():
                with bench.folder() as folder:
                    rewritten += await _turn(bench, by, samples, host, numbers, folder)
                    if by == "cdi":
                        content = (folder / file_name(_THING)).read_bytes()
    for by, samples in took.items():
        yield Result(what=f"change, {devices}, by: {by}", unit="ms", daemon=samples)
    yield Result(what="specs rewritten without a change", unit="", daemon=[rewritten], goal=0.0)
    yield Result(what=f"CDI spec, {devices}", unit="kB", daemon=[len(content) / 1e3])
    with bench.folder() as folder:
        specs = SpecFolder(folder)
        written = _times(content, lambda text: _keep(specs, text))
        specs.close()
        plain = _times(content, lambda text: _write_plainly(folder / "plain", text))
    yield Result(what="CDI spec, written", unit="ms", daemon=written)
    yield Result(what="the same bytes in a plain file", unit="ms", daemon=plain)


async def _turn(
    bench: Bench, by: str, samples: list[float], host: Nodes, numbers: range, folder: Path
) -> int:
    """Take samples; returns how often the spec was written for nothing."""
    config = folder / "config.yaml"
    config.write_text(f"{config_text(_GLOBS)}    inject: {{by: {by}}}\n", encoding="utf-8")
    spec, rewritten = folder / file_name(_THING), 0
    where = (f"--cdi-dir={folder}",)
    async with bench.registered(
        DAEMON, _GLOBS, root=host.root, config=config, options=where
    ) as plugin:
        await asyncio.sleep(_SETTLE_SECONDS)
        for number in numbers:
            for change in (host.remove, host.make):
                await asyncio.sleep(_APART_SECONDS)
                samples.append(await to_list(plugin.kubelet, change, number))
        for change in (host.remove, host.make) if by == "cdi" else ():
            await asyncio.sleep(_APART_SECONDS)
            before = spec.stat()
            await to_list(plugin.kubelet, change, _COUNT)
            after = spec.stat()
            rewritten += (before.st_ino, before.st_mtime_ns) != (after.st_ino, after.st_mtime_ns)
    return rewritten


def _times(content: bytes, write: Callable[[bytes], None]) -> list[float]:
    """Return the milliseconds of each write; no two in a row have the same content."""
    took, other = [], content.replace(b'"rw"', b'"r"')
    for number in range(_WRITES):
        since = time.monotonic()
        write(other if number % 2 else content)
        took.append((time.monotonic() - since) * 1000)
    return took


def _keep(specs: SpecFolder, content: bytes) -> None:
    if troubles := specs.maintain({_THING: content}):
        raise RuntimeError(troubles[_THING])


def _write_plainly(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
