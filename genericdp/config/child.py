"""Loads a config in a short-lived process, so that no config can block or exhaust the daemon."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import genericdp
from genericdp import children
from genericdp.config.files import unusable
from genericdp.config.loaded import Loaded

if TYPE_CHECKING:
    from asyncio import StreamReader
    from asyncio.subprocess import Process
    from collections.abc import Sequence

MAX_OUTPUT = 16 * 1024 * 1024
"""The daemon keeps it and makes values of it: several times what can be read in time."""
_MAX_COMPLAINT = 64 * 1024
_CHUNK = 256 * 1024


async def load_in_child(
    paths: Sequence[Path], *, policy: Path | None = None, timeout_seconds: float = 10.0
) -> Loaded:
    """Give the same as ``load``, by a child process; whatever becomes of it is a problem."""
    bounded = [] if policy is None else ["--policy", os.fspath(policy)]
    try:
        child = await children.spawn(
            [sys.executable, "-P", "-m", "genericdp.config", *bounded, *map(os.fspath, paths)],
            env=_environment(),
            niceness=None,  # a reload must not wait for a busy node's other work
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        return _failed(paths, f"the config could not be loaded: {error.strerror or error}")
    try:
        async with asyncio.timeout(timeout_seconds):
            output, complaint = await _outputs(child.process)
    except TimeoutError:
        return _failed(paths, f"loading the config took longer than {timeout_seconds:g} s")
    finally:
        await children.end(child)
    return _loaded(paths, child.process, output, complaint)


def _environment() -> dict[str, str]:
    # The child must find this very package, wherever it was started from.
    package = os.fspath(Path(genericdp.__file__).parent.parent)
    given = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{given}" if given else package}


async def _outputs(child: Process) -> tuple[bytes, bytes]:
    assert child.stdout is not None  # noqa: S101  both are pipes
    assert child.stderr is not None  # noqa: S101
    async with asyncio.TaskGroup() as tasks:
        output = tasks.create_task(_limited(child.stdout, MAX_OUTPUT), name="config output")
        complaint = tasks.create_task(_limited(child.stderr, _MAX_COMPLAINT), name="config errors")
    await child.wait()
    return output.result(), complaint.result()


async def _limited(stream: StreamReader, most: int) -> bytes:
    """Read to the end, but keep no more than so many bytes."""
    chunks, size = [], 0
    while chunk := await stream.read(_CHUNK):
        chunks.append(chunk[: max(0, most - size)])
        size += len(chunk)
    return b"".join(chunks)


def _loaded(paths: Sequence[Path], child: Process, output: bytes, complaint: bytes) -> Loaded:
    if child.returncode == 0:
        # The model takes longer to import than the child to start: not before that.
        from genericdp.config.wire import decode

        try:
            return decode(output)
        except ValueError:
            return _failed(paths, "the config could not be loaded: it is too much")
    code = child.returncode or 0
    how = f"ended by {_signal(-code)}" if code < 0 else f"failed with code {code}"
    text = complaint.decode("utf-8", "replace").strip()
    why = f": {text.splitlines()[-1]}" if text else ""
    if "MemoryError" in text:  # Python itself could not go on, and says where it was, not why
        why = ": it takes more memory than it may have"
    return _failed(paths, f"the config could not be loaded: its process {how}{why}")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _failed(paths: Sequence[Path], message: str) -> Loaded:
    name = os.fspath(paths[0]) if paths else "config"
    return Loaded(problems=(unusable(name, message),))
