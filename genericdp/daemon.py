"""One process: config, supervisor, signals."""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genericdp.config.child import load_in_child
from genericdp.errors import ungrouped

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
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
    timing: Timing | None = None


def run(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT; raises GenericdpError for what a person must mend."""
    asyncio.run(until_signalled(lambda reload: serve(settings, reload=reload)))


async def until_signalled(
    work: Callable[[asyncio.Event], Coroutine[None, None, None]], *, hangup_ends: bool = False
) -> None:
    """Run ``work`` until it ends, or cancel it at SIGTERM or SIGINT; SIGHUP sets its event.

    Where a ``hangup_ends`` it, SIGHUP cancels too: what runs in a terminal goes with it.
    """
    loop = asyncio.get_running_loop()
    reload = asyncio.Event()
    stopped_by: list[str] = []
    async with ungrouped(), asyncio.TaskGroup() as tasks:
        working = tasks.create_task(work(reload), name="work")

        def stop(name: str) -> None:
            stopped_by.append(name)
            working.cancel()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop, number.name)
        if hangup_ends:
            loop.add_signal_handler(signal.SIGHUP, stop, "SIGHUP")
        else:
            loop.add_signal_handler(signal.SIGHUP, reload.set)
    if stopped_by:
        log.info("%s: stopped", stopped_by[0])


async def serve(
    settings: Settings,
    *,
    reload: asyncio.Event,
    watched: Callable[[Supervisor], None] = lambda _: None,
) -> None:
    """Run until cancelled; ``watched`` is given the supervisor, to look on.

    Raises GenericdpError for what a person must mend.
    """
    async with ungrouped(), asyncio.TaskGroup() as tasks:
        # The child starts before gRPC is imported here: both take their time.
        loading = tasks.create_task(load_in_child(settings.configs), name="load config")
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


async def _load(
    settings: Settings,
    supervisor: Supervisor,
    loading: asyncio.Task[Loaded],
    reload: asyncio.Event,
) -> None:
    """Put the first good config in force; a bad one is told and tried again at SIGHUP (C10)."""
    loaded = await loading
    while not _is_usable(loaded):
        log.error(
            "the config cannot be used: nothing is served; correct it and send SIGHUP (%s)",
            ", ".join(map(str, settings.configs)),
        )
        await reload.wait()
        reload.clear()
        loaded = await load_in_child(settings.configs)
    for warning in loaded.warnings:
        log.warning("%s", warning)
    files = ", ".join(map(str, loaded.files))
    log.info("config in force: %d resources (%s)", len(loaded.resources), files)
    supervisor.resources.value = loaded.resources
    while True:
        await reload.wait()
        reload.clear()
        log.warning("SIGHUP: a config is in force already; restart to read another one")


def _is_usable(loaded: Loaded) -> bool:
    for problem in (*loaded.problems, *loaded.unbuilt):
        log.error("%s", problem)
    return not loaded.problems and not loaded.unbuilt
