"""The daemon: config, supervisor and endpoints in one process, until a signal stops it."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from genericdp import __version__
from genericdp.config.child import load_in_child
from genericdp.errors import ungrouped
from genericdp.host import descriptors
from genericdp.observed import Signal
from genericdp.printing import plural
from genericdp.process.run import Commands
from genericdp.process.signals import until_signaled

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from genericdp.config.files import Loaded
    from genericdp.config.reload import ConfigState, Load
    from genericdp.health.health import Health
    from genericdp.observed import Observed
    from genericdp.settings import Address, Settings
    from genericdp.supervisor import Supervisor

log = logging.getLogger(__name__)

_SHOWN_DIGITS = 12
"""Length of a SHA-256 in the log."""


def run(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT; raises GenericdpError for problems that a user must correct."""
    descriptors.raise_limit()
    # By default the loop waits for the GIL in turns of 5 ms while a thread decides. While one of a
    # thousand devices changes the slowest Allocate takes 10 to 14 ms with this, and 41 to 48 ms
    # without; the median of calls is the same (1.02 times, of 12 pairs).
    sys.setswitchinterval(0.001)
    reload = Signal()
    commands = Commands()

    async def work() -> None:
        async with commands:
            await serve(settings, reload=reload, commands=commands)

    asyncio.run(
        until_signaled(work, on_repeat=partial(exit_at_once, commands), on_hangup=reload.send)
    )


def exit_at_once(commands: Commands, number: signal.Signals) -> None:
    """Exit without any cleanup; the next start handles leftovers."""
    commands.kill()
    log.warning("%s once more: ended at once", number.name)
    logging.shutdown()
    os._exit(128 + number)


async def serve(
    settings: Settings,
    *,
    reload: Signal,
    commands: Commands,
    watched: Callable[[Supervisor, Observed[ConfigState]], None] = lambda *_: None,
    load: Load | None = None,
    health: Callable[..., Health] | None = None,
) -> None:
    """Run until canceled; ``watched`` is called with the observable parts.

    ``load`` reads and checks each config, and ``health`` replaces the class Health, which reads the
    kernel's log and runs probes. Raises GenericdpError for problems that a user must correct.
    """
    load = load or partial(load_in_child, commands)
    log.info("genericdp %s, on node %s", __version__, settings.node_name)
    async with ungrouped(), asyncio.TaskGroup() as tasks:
        # The child starts before gRPC is imported here: both take their time.
        loading = load(settings.configs, policy=settings.policy)
        first = tasks.create_task(loading, name="first config")
        await asyncio.sleep(0)
        from genericdp.config.reload import Reloader
        from genericdp.supervisor import Supervisor

        supervisor = Supervisor(settings, commands=commands, health=health)
        reloader = Reloader(
            settings.configs,
            policy=settings.policy,
            load=load,
            activate=partial(_activate, supervisor),
            hangup=reload,
            decided=supervisor.decided,
            state_dir=settings.state_dir,
            tally=supervisor.reconciler.tally,
        )
        watched(supervisor, reloader.state)
        if settings.listen is not None:
            # First of all, because it records the log lines of the others.
            serving = _endpoints(settings.listen, supervisor, reloader.state)
            tasks.create_task(serving, name="endpoints")
        tasks.create_task(descriptors.watch(), name="descriptors")
        tasks.create_task(supervisor.run(), name="supervisor")
        tasks.create_task(reloader.run(first), name="config")


async def _endpoints(
    address: Address,
    supervisor: Supervisor,
    config: Observed[ConfigState],
) -> None:
    # Not imported without --listen.
    from genericdp.status.listen import serve
    from genericdp.status.state import Sources, record_events

    with record_events() as events:
        sources = Sources(
            supervisor=supervisor,
            config=config,
            events=events,
            started=time.time(),  # noqa: TID251  # to be shown
        )
        await serve(address, sources, shows_status=supervisor.settings.shows_status)


def _activate(supervisor: Supervisor, loaded: Loaded) -> None:
    # The model is imported by now: not before the child that loads the config has started.
    from genericdp.devices.changes import plan, without_policy
    from genericdp.devices.matching import why_none

    running, is_first = supervisor.wanted, supervisor.resources.value is None
    supervisor.reconciler.policy = loaded.policy
    supervisor.resources.value = loaded.resources
    todo = plan(without_policy(supervisor.wanted), without_policy(running))
    changes = "" if is_first else f", {todo}"
    if any(plugin.policy != loaded.policy for plugin in running.values()):
        changes += ", under another policy"
    origin = ", ".join(map(str, loaded.files))
    if (policy := loaded.policy) is not None:
        origin += f"; policy {policy.file}, SHA-256 {policy.sha256[:_SHOWN_DIGITS]}"
    resources = plural(len(loaded.resources), "resource")
    log.info("active config: %s%s (%s)", resources, changes, origin)
    if reason := why_none(loaded.resources, supervisor.settings.node_name):
        log.warning("nothing is served: %s", reason)
