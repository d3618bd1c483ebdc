"""Loads a config in a short-lived process, so that no config can block or exhaust the daemon."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import genericdp
from genericdp.config.loaded import Loaded, unusable
from genericdp.process.outcome import Pipe, signal_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genericdp.process.run import Commands

MAX_OUTPUT = 16 * 1024 * 1024
"""The daemon keeps it and makes values of it: several times what can be read in time."""
_MAX_COMPLAINT = 64 * 1024


async def load_in_child(
    commands: Commands,
    paths: Sequence[Path],
    *,
    policy: Path | None = None,
    timeout_seconds: float = 10.0,
) -> Loaded:
    """Return the same as ``load``, by a child process; whatever becomes of it is a problem."""
    bounded = [] if policy is None else ["--policy", os.fspath(policy)]
    argv = [sys.executable, "-P", "-m", "genericdp.config", *bounded, *map(os.fspath, paths)]
    try:
        with Pipe(MAX_OUTPUT) as output, Pipe(_MAX_COMPLAINT) as complaint:
            # At the daemon's own niceness: a reload must not wait for a busy node's other work.
            code = await commands.complete(
                argv,
                _environment(),
                timeout_seconds=timeout_seconds,
                stdout=output,
                stderr=complaint,
            )
    except OSError as error:
        return _failed(paths, f"the config could not be loaded: {error.strerror or error}")
    if code is None:
        return _failed(paths, f"loading the config took longer than {timeout_seconds:g} s")
    return _loaded(paths, code, bytes(output.data), bytes(complaint.data))


def _environment() -> dict[str, str]:
    # The child must find this very package, wherever it was started from.
    package = os.fspath(Path(genericdp.__file__).parent.parent)
    given = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{given}" if given else package}


def _loaded(paths: Sequence[Path], code: int, output: bytes, complaint: bytes) -> Loaded:
    if code == 0:
        # The model takes longer to import than the child to start: not before that.
        from genericdp.config.build import decode

        try:
            return decode(output)
        except ValueError:
            return _failed(paths, "the config could not be loaded: it is too much")
    how = f"ended by {signal_name(-code)}" if code < 0 else f"failed with code {code}"
    text = complaint.decode("utf-8", "replace").strip()
    why = f": {text.splitlines()[-1]}" if text else ""
    if "MemoryError" in text:  # Python itself could not go on, and says where it was, not why
        why = ": it takes more memory than it may have"
    return _failed(paths, f"the config could not be loaded: its process {how}{why}")


def _failed(paths: Sequence[Path], message: str) -> Loaded:
    name = os.fspath(paths[0]) if paths else "config"
    return Loaded(problems=(unusable(name, message),))
