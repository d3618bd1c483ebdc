"""Configs for commands that somebody waits for: from files or stdin, and in bounded time."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from genericdp.config.files import MAX_BYTES
from genericdp.config.load import load
from genericdp.config.loaded import STDIN, Loaded, unusable
from genericdp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

LOAD_SECONDS = 10.0
"""As long as the daemon waits for the same."""


def read_stdin(paths: Sequence[Path]) -> bytes | None:
    """Give what comes on stdin, if one of the paths is ``-``."""
    if STDIN not in paths:
        return None
    if sys.stdin is None:
        raise UsageError("stdin is closed, but a config is to be read from it")
    # One byte more than may be there: then it is refused.
    return sys.stdin.buffer.read(MAX_BYTES + 1)


def load_in_time(
    paths: Sequence[Path],
    stdin: bytes | None = None,
    *,
    policy: Path | None = None,
    seconds: float = LOAD_SECONDS,
    load: Callable[..., Loaded] = load,
) -> Loaded:
    """Load a config; a filesystem that does not answer is a problem of it."""
    results: list[Loaded] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(load(paths, stdin=stdin, policy=policy))
        except BaseException as error:  # noqa: BLE001  # raised again by who waits
            errors.append(error)

    # A daemon thread: one that never comes back does not hold up the exit.
    thread = threading.Thread(target=work, name="loading", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        why = f"loading the config took longer than {seconds:g} s: its filesystem does not answer"
        return Loaded(problems=(unusable(paths[0], why),))
    return results[0]
