"""One process: config, supervisor, signals."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp import children
from genericdp.config.child import load_in_child
from genericdp.errors import ConfigError, ungrouped
from genericdp.signals import Inbox

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from genericdp.config.loaded import Loaded
    from genericdp.plugin import Timing
    from genericdp.supervisor import Supervisor

log = logging.getLogger(__name__)

KUBELET_FOLDER = "/var/lib/kubelet/device-plugins"
"""A constant of the kubelet: its ``--root-dir`` does not move it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What the command line says."""

    configs: tuple[Path, ...]
    kubelet_folder: Path
    root: Path
    node_name: str
    policy: Path | None = None
    """What bounds the config."""
    timing: Timing | None = None


def run(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT; raises GenericdpError for what a person must mend."""
    asyncio.run(until_signalled(lambda reload: serve(settings, reload=reload), Inbox()))


async def until_signalled(
    work: Callable[[asyncio.Event], Coroutine[None, None, None]],
    inbox: Inbox,
    *,
    hangup_ends: bool = False,
) -> None:
    """Run ``work`` until it ends, or cancel it at SIGTERM or SIGINT; SIGHUP sets its event.

    Where a ``hangup_ends`` it, SIGHUP cancels too: what runs in a terminal goes with it.
    """
    reload = asyncio.Event()
    stopped_by: list[str] = []
    async with ungrouped(), asyncio.TaskGroup() as tasks:
        working = tasks.create_task(work(reload), name="work")

        def answer(number: signal.Signals) -> None:
            if number is signal.SIGHUP and not hangup_ends:
                reload.set()
            else:
                stopped_by.append(number.name)
                working.cancel()

        with _answering(inbox, answer):
            await asyncio.wait([working])
    if stopped_by:
        log.info("%s: stopped", stopped_by[0])


@contextmanager
def _answering(inbox: Inbox, answer: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Have the running loop answer the signals that come, and those that have come already."""
    loop = asyncio.get_running_loop()
    reader, writer = os.pipe()

    def look() -> None:
        with suppress(BlockingIOError):
            os.read(reader, 4096)
        for number in inbox.take():
            answer(number)

    for end in (reader, writer):
        os.set_blocking(end, False)
    # Python's own handlers only run between two steps of Python: this wakes a loop that waits.
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    loop.add_reader(reader, look)
    loop.call_soon(look)
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        loop.remove_reader(reader)
        os.close(reader)
        os.close(writer)


async def serve(
    settings: Settings,
    *,
    reload: asyncio.Event,
    watched: Callable[[Supervisor], None] = lambda _: None,
) -> None:
    """Run until cancelled; ``watched`` is given the supervisor, to look on.

    Raises GenericdpError for what a person must mend.
    """
    with children.contain():
        async with ungrouped(), asyncio.TaskGroup() as tasks:
            # The child starts before gRPC is imported here: both take their time.
            loading = tasks.create_task(_load_once(settings), name="load config")
            await asyncio.sleep(0)
            supervisor = _make_supervisor(settings)
            watched(supervisor)
            tasks.create_task(supervisor.run(), name="supervisor")
            tasks.create_task(_load(settings, supervisor, loading, reload), name="config")


def _make_supervisor(settings: Settings) -> Supervisor:
    from genericdp.host.root import Root
    from genericdp.kubelet.folder import KubeletFolder
    from genericdp.supervisor import Supervisor

    return Supervisor(
        root=Root(settings.root),
        node_name=settings.node_name,
        kubelet=KubeletFolder(settings.kubelet_folder),
        timing=settings.timing,
    )


async def _load_once(settings: Settings) -> Loaded:
    return await load_in_child(settings.configs, policy=settings.policy)


async def _load(
    settings: Settings,
    supervisor: Supervisor,
    loading: asyncio.Task[Loaded],
    reload: asyncio.Event,
) -> None:
    """Put the first good config in force; a bad one is told and tried again at SIGHUP (C10)."""
    loaded = await loading
    if loaded.policy_is_unusable:
        # Nothing must ever run without the bounds that were asked for.
        raise ConfigError(loaded.problems)
    while not _is_usable(loaded):
        log.error(
            "the config cannot be used: nothing is served; correct it and send SIGHUP (%s)",
            ", ".join(map(str, settings.configs)),
        )
        await reload.wait()
        reload.clear()
        loaded = await _load_once(settings)
    for warning in loaded.warnings:
        log.warning("%s", warning)
    files = ", ".join(map(str, loaded.files))
    count = len(loaded.resources)
    log.info("config in force: %d resource%s (%s)", count, "" if count == 1 else "s", files)
    _warn_if_none(loaded, settings.node_name)
    supervisor.resources.value = loaded.resources
    while True:
        await reload.wait()
        reload.clear()
        log.warning("SIGHUP: a config is in force already; restart to read another one")


def _warn_if_none(loaded: Loaded, node_name: str) -> None:
    # The model is imported by now: not before the child that loads the config has started.
    from genericdp.devices.nodes import why_none

    if reason := why_none(loaded.resources, node_name):
        log.warning("nothing is served: %s", reason)


def _is_usable(loaded: Loaded) -> bool:
    for problem in loaded.problems:
        log.error("%s", problem)
    return not loaded.problems
