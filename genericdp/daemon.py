"""The daemon: config, supervisor and endpoints in one process, until a signal stops it."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from genericdp import __version__
from genericdp.config.child import load_in_child
from genericdp.config.reload import Reloader
from genericdp.errors import ungrouped
from genericdp.host import descriptors
from genericdp.observed import Observed
from genericdp.printing import plural
from genericdp.process.run import Commands
from genericdp.process.signals import until_signaled
from genericdp.tally import Tally

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from pathlib import Path

    from genericdp.address import Address
    from genericdp.config.files import Loaded
    from genericdp.config.reload import ConfigState, Load
    from genericdp.dra.settings import DraSettings
    from genericdp.health.health import Health
    from genericdp.kubelet.lifecycle import RegistrationTiming
    from genericdp.kubelet.podresources import PodResourcesTiming
    from genericdp.supervisor import Supervisor

log = logging.getLogger(__name__)

KUBELET_FOLDER = "/var/lib/kubelet/device-plugins"
"""A constant of the kubelet: its ``--root-dir`` does not move it."""

_SHOWN_DIGITS = 12
"""Of a SHA-256, in the log."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What the command line says."""

    configs: tuple[Path, ...]
    kubelet_folder: Path
    cdi_folder: Path
    """Where CDI specs are written."""
    without_kubelet: bool = False
    """Whether there is no kubelet: then CDI specs, of all resources, are all that is served."""
    dra: DraSettings | None = None
    """How resources are served through DRA; None: none are."""
    root: Path
    node_name: str
    policy: Path | None = None
    """What bounds the config; None: nothing."""
    state_dir: Path | None = None
    """Where the last good config is kept; None: nowhere."""
    pod_resources: Path | None = None
    """The kubelet's socket that tells which devices pods hold; None: nobody asks."""
    pod_resources_timing: PodResourcesTiming | None = None
    timing: RegistrationTiming | None = None
    listen: Address | None = None
    """Where the endpoints are served; None: nowhere."""
    shows_status: bool = True
    """Whether they tell of each device, with its serial number."""


def run(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT; raises GenericdpError for what a person must mend."""
    descriptors.raise_limit()
    # By default the loop waits for the GIL in turns of 5 ms while a thread decides: one of a
    # thousand devices that changes held up an Allocate for 110 ms, and does for 40 ms now.
    sys.setswitchinterval(0.001)
    reload = asyncio.Event()
    commands = Commands()

    async def work() -> None:
        async with commands:
            await serve(settings, reload=reload, commands=commands)

    asyncio.run(
        until_signaled(work, on_repeat=partial(exit_at_once, commands), on_hangup=reload.set)
    )


def exit_at_once(commands: Commands, number: signal.Signals) -> None:
    """Exit without any cleanup; the next start copes with what is left."""
    commands.kill()
    log.warning("%s once more: ended at once", number.name)
    logging.shutdown()
    os._exit(128 + number)


async def serve(
    settings: Settings,
    *,
    reload: asyncio.Event,
    commands: Commands,
    watched: Callable[[Supervisor, Observed[ConfigState]], None] = lambda *_: None,
    load: Load | None = None,
    health: Callable[..., Health] | None = None,
) -> None:
    """Run until canceled; ``watched`` is given what can be observed of it.

    ``load`` reads and checks each config, and ``health`` stands in for the class Health, which
    reads the kernel's log and runs probes. Raises GenericdpError for what a person must mend.
    """
    load = load or partial(load_in_child, commands)
    log.info("genericdp %s, on node %s", __version__, settings.node_name)
    async with ungrouped(), asyncio.TaskGroup() as tasks:
        # The child starts before gRPC is imported here: both take their time.
        loading = load(settings.configs, policy=settings.policy)
        first = tasks.create_task(loading, name="first config")
        await asyncio.sleep(0)
        from genericdp.host.root import Root
        from genericdp.kubelet.folder import KubeletFolder
        from genericdp.supervisor import Supervisor

        tally = Tally()
        supervisor = Supervisor(
            root=Root(settings.root),
            node_name=settings.node_name,
            kubelet=KubeletFolder(settings.kubelet_folder),
            cdi_folder=settings.cdi_folder,
            without_kubelet=settings.without_kubelet,
            dra=settings.dra,
            commands=commands,
            timing=settings.timing,
            pod_resources=settings.pod_resources,
            pod_resources_timing=settings.pod_resources_timing,
            tally=tally,
            health=health,
        )
        reloader = Reloader(
            settings.configs,
            policy=settings.policy,
            load=load,
            put_in_force=partial(_put_in_force, supervisor, settings.node_name),
            hangup=reload,
            decided=supervisor.decided,
            state_dir=settings.state_dir,
            tally=tally,
        )
        watched(supervisor, reloader.state)
        supply: Observed[descriptors.Supply | None] = Observed(None)
        if settings.listen is not None:
            # First of all: it shows what the others log.
            serving = _endpoints(settings, settings.listen, supervisor, reloader, supply)
            tasks.create_task(serving, name="endpoints")
        tasks.create_task(descriptors.watch(supply), name="descriptors")
        tasks.create_task(supervisor.run(), name="supervisor")
        tasks.create_task(reloader.run(first), name="config")


async def _endpoints(
    settings: Settings,
    address: Address,
    supervisor: Supervisor,
    reloader: Reloader,
    supply: Observed[descriptors.Supply | None],
) -> None:
    # Nothing of it is imported where nobody listens.
    from genericdp.status.listen import serve
    from genericdp.status.state import Sources, record_events

    with record_events() as events:
        sources = Sources(
            supervisor=supervisor,
            config=reloader.state,
            descriptors=supply,
            events=events,
            started=time.time(),  # noqa: TID251  # to be shown
        )
        await serve(address, sources, shows_status=settings.shows_status)


def _put_in_force(supervisor: Supervisor, node_name: str, loaded: Loaded) -> None:
    # The model is imported by now: not before the child that loads the config has started.
    from genericdp.devices.changes import plan, without_policy
    from genericdp.devices.matching import why_none

    running, is_first = supervisor.wanted, supervisor.resources.value is None
    supervisor.resources.value = loaded.resources
    todo = plan(without_policy(supervisor.wanted), without_policy(running))
    changes = "" if is_first else f", {todo}"
    if any(one.policy != loaded.policy for one in running.values()):
        changes += ", under another policy"
    origin = ", ".join(map(str, loaded.files))
    if (policy := loaded.policy) is not None:
        origin += f"; policy {policy.file}, SHA-256 {policy.sha256[:_SHOWN_DIGITS]}"
    resources = plural(len(loaded.resources), "resource")
    log.info("config in force: %s%s (%s)", resources, changes, origin)
    if reason := why_none(loaded.resources, node_name):
        log.warning("nothing is served: %s", reason)
