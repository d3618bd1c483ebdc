"""Configs for interactive commands: from files or pipes, and in bounded time."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from genericdp.cli.output import print_warning, progress
from genericdp.config.files import LOAD_SECONDS, MAX_BYTES, STDIN, Loaded, hanging, unusable
from genericdp.config.load import load_each
from genericdp.errors import ConfigError, UsageError, reason_of
from genericdp.host.workers import HANGING_SECONDS, start
from genericdp.printing import first_few, meant_or_listed, quoted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from genericdp.model import Resource

_MAX_LISTED = 8
_DESCRIPTORS = (Path("/dev/fd"), Path("/proc/self/fd"))


def read_pipes(paths: Sequence[Path]) -> dict[Path, bytes]:
    """Read the configs that come through a descriptor: stdin, and a shell's ``<(…)``."""
    if paths.count(STDIN) > 1:
        raise UsageError("stdin (-) is given twice, but can be read only once")
    pipes: dict[Path, bytes] = {}
    for path in paths:
        # One byte more than allowed, to detect content that is too long.
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
    load: Callable[..., list[Loaded]] = load_each,
) -> list[Loaded]:
    """Load a config, of manifests each; a filesystem that does not answer is a problem of it."""

    async def loaded() -> list[Loaded]:
        loading = start(partial(load, paths, pipes=pipes, policy=policy))
        async with asyncio.timeout(seconds):
            if await loading.ends(HANGING_SECONDS):
                return loading.result()
        return [Loaded(problems=(hanging(loading),))]

    try:
        return asyncio.run(loaded())
    except TimeoutError:
        why = (
            f"loading the config took longer than {seconds:g} s:"
            " its filesystem hangs, or this machine is too busy"
        )
        return [Loaded(problems=(unusable(paths[0], why),))]


def load_config(arguments: argparse.Namespace, pipes: Mapping[Path, bytes] | None = None) -> Loaded:
    """Load the config of the command line.

    Raises ConfigError with its problems, and UsageError if it is one of several in manifests.
    """
    paths = arguments.config
    pipes = read_pipes(paths) if pipes is None else pipes
    loaded = load_in_time(paths, pipes, policy=arguments.policy)
    loaded = chosen(loaded, arguments.config_map)
    if problems := {problem for config in loaded for problem in config.problems}:
        raise ConfigError(sorted(problems))
    return single(loaded)


def chosen(loaded: list[Loaded], config_map: str | None) -> list[Loaded]:
    """Return the configs of manifests, or the one in a ConfigMap; raises UsageError."""
    if config_map is None:
        return loaded
    known = [config.config_map for config in loaded if config.config_map]
    found = [name for name in known if config_map in (name, name.rpartition("/")[2])]
    if not found:
        listed = meant_or_listed(config_map, known, "there are")
        raise UsageError(f"the input has no config in a ConfigMap {quoted(config_map)}{listed}")
    return [config for config in loaded if config.config_map in found]


def single(loaded: list[Loaded]) -> Loaded:
    """Return the config of what was loaded; raises UsageError if manifests have several."""
    configs = [config for config in loaded if config.config_map] or loaded
    if len(configs) > 1:
        names = first_few([config.config_map for config in configs], _MAX_LISTED)
        raise UsageError(
            f"the input has {len(configs)} configs, and a node gets one of them: choose with"
            f" --config-map NAME ({names})"
        )
    return configs[0]


def usable_resources(arguments: argparse.Namespace) -> tuple[Resource, ...]:
    """Load the config on the command line, and print its warnings; raises ConfigError."""
    loaded = load_config(arguments)
    for warning in loaded.warnings:
        print_warning(str(warning))
    return loaded.resources
