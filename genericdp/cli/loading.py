"""Configs for interactive commands: from files or pipes, and in bounded time."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.cli.output import print_warning, progress
from genericdp.config.files import LOAD_SECONDS, MAX_BYTES, STDIN, Loaded, hanging, unusable
from genericdp.config.load import load
from genericdp.errors import ConfigError, UsageError, reason_of
from genericdp.host.workers import HANGING_SECONDS, start

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from genericdp.model import Resource

_DESCRIPTORS = (Path("/dev/fd"), Path("/proc/self/fd"))


def read_pipes(paths: Sequence[Path]) -> dict[Path, bytes]:
    """Read the configs that come through a descriptor: stdin, and a shell's ``<(…)``."""
    if paths.count(STDIN) > 1:
        raise UsageError("stdin (-) is given twice, but can be read only once")
    pipes: dict[Path, bytes] = {}
    for path in paths:
        # One byte more than may be there: then it is refused.
        if path == STDIN:
            if sys.stdin is None:
                raise UsageError("stdin is closed, but a config is to be read from it")
            with progress(lambda: "waiting for the end of stdin (-)"):
                pipes[path] = sys.stdin.buffer.read(MAX_BYTES + 1)
        elif path.parent in _DESCRIPTORS and path.name.isdigit():
            try:
                waiting = progress(partial("waiting for the end of {}".format, path))
                with waiting, path.open("rb") as pipe:
                    pipes.setdefault(path, pipe.read(MAX_BYTES + 1))
            except OSError as error:
                why = reason_of(error).lower()
                raise UsageError(f"{path} cannot be read: {why}") from error
    return pipes


def load_in_time(
    paths: Sequence[Path],
    pipes: Mapping[Path, bytes] | None = None,
    *,
    policy: Path | None = None,
    seconds: float = LOAD_SECONDS,
    load: Callable[..., Loaded] = load,
) -> Loaded:
    """Load a config; a filesystem that does not answer is a problem of it."""

    async def loaded() -> Loaded:
        loading = start(partial(load, paths, pipes=pipes, policy=policy))
        async with asyncio.timeout(seconds):
            if await loading.ends(HANGING_SECONDS):
                return loading.result()
        return Loaded(problems=(hanging(loading),))

    try:
        return asyncio.run(loaded())
    except TimeoutError:
        why = (
            f"loading the config took longer than {seconds:g} s:"
            " its filesystem hangs, or this machine is too busy"
        )
        return Loaded(problems=(unusable(paths[0], why),))


def load_config(arguments: argparse.Namespace, pipes: Mapping[Path, bytes] | None = None) -> Loaded:
    """Load the config of the command line; raises ConfigError with its problems."""
    paths = arguments.config
    pipes = read_pipes(paths) if pipes is None else pipes
    loaded = load_in_time(paths, pipes, policy=arguments.policy)
    if loaded.problems:
        raise ConfigError(loaded.problems)
    return loaded


def usable_resources(arguments: argparse.Namespace) -> tuple[Resource, ...]:
    """Load the config of the command line, and print its warnings; raises ConfigError."""
    loaded = load_config(arguments)
    for warning in loaded.warnings:
        print_warning(str(warning))
    return loaded.resources
