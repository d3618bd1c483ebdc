"""One process: config, supervisor, signals."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from genericdp import __version__, arenas, children, descriptors
from genericdp.config.child import load_in_child
from genericdp.errors import ungrouped
from genericdp.observed import Observed
from genericdp.reloading.reading import Origin, read, see
from genericdp.signals import Inbox
from genericdp.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from genericdp.address import Address
    from genericdp.config.loaded import Loaded
    from genericdp.health.health import Health
    from genericdp.host.inotify import Shortage
    from genericdp.reloading.reading import Load
    from genericdp.reloading.reloader import Reloader
    from genericdp.supervisor import Supervisor
    from genericdp.timing import Timing

log = logging.getLogger(__name__)

KUBELET_FOLDER = "/var/lib/kubelet/device-plugins"
"""A constant of the kubelet: its ``--root-dir`` does not move it."""

_ONE_WISH_SECONDS = 0.2
"""What comes within this time is one signal that came twice: to a process and to its group."""
_SHOWN_DIGITS = 12
"""Of a SHA-256, in the log."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What the command line says."""

    configs: tuple[Path, ...]
    kubelet_folder: Path
    root: Path
    node_name: str
    policy: Path | None = None
    """What bounds the config; None: nothing."""
    state_dir: Path | None = None
    """Where the last good config is kept; None: nowhere."""
    pod_resources: Path | None = None
    """The kubelet's socket that tells which devices pods hold; None: nobody asks."""
    timing: Timing | None = None
    listen: Address | None = None
    """Where the endpoints are served; None: nowhere."""
    shows_status: bool = True
    """Whether they tell of each device, with its serial number."""


def run(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT; raises GenericdpError for what a person must mend."""

    def work(reload: asyncio.Event) -> Coroutine[None, None, None]:
        return serve(settings, reload=reload)

    arenas.keep_to_one()
    descriptors.wait_for_a_start()
    asyncio.run(until_signalled(work, Inbox(), insisted=leave_at_once))


def leave_at_once(number: signal.Signals) -> None:
    """End without waiting for anything; the next start copes with what is left."""
    children.abandon()
    log.warning("%s once more: ended at once", number.name)
    os._exit(128 + number)


async def until_signalled(
    work: Callable[[asyncio.Event], Coroutine[None, None, None]],
    inbox: Inbox,
    *,
    hangup_ends: bool = False,
    insisted: Callable[[signal.Signals], None] = lambda _: None,
) -> None:
    """Run ``work`` until it ends, or cancel it at SIGTERM or SIGINT; SIGHUP sets its event.

    Where a ``hangup_ends`` it, SIGHUP cancels too: what runs in a terminal goes with it.
    ``insisted`` is called with each signal that comes so much later that it is another wish.
    """
    reload = asyncio.Event()
    stopped_by: list[str] = []
    loop, since = asyncio.get_running_loop(), inf
    async with ungrouped(), asyncio.TaskGroup() as tasks:
        working = tasks.create_task(work(reload), name="work")

        def answer(number: signal.Signals) -> None:
            nonlocal since
            if number is signal.SIGHUP and not hangup_ends:
                reload.set()
            elif not stopped_by:
                since = loop.time()
                stopped_by.append(number.name)
                children.hurry()
                working.cancel()
            elif loop.time() - since > _ONE_WISH_SECONDS:
                insisted(number)

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
    now: Callable[[], float] = time.monotonic,
    load: Load = load_in_child,
    health: Callable[..., Health] | None = None,
) -> None:
    """Run until cancelled; ``watched`` is given the supervisor, to look on.

    ``now`` is the clock of the running loop, ``load`` reads and checks each config, and
    ``health`` stands in for the class Health, which reads the kernel's log and runs probes.
    Raises GenericdpError for what a person must mend.
    """
    with children.contain():
        try:
            await _serve(settings, reload, watched, now, load, health)
        finally:
            await children.end_all()


async def _serve(
    settings: Settings,
    reload: asyncio.Event,
    watched: Callable[[Supervisor], None],
    now: Callable[[], float],
    load: Load,
    health: Callable[..., Health] | None,
) -> None:
    log.info("genericdp %s, on node %s", __version__, settings.node_name)
    async with ungrouped(), asyncio.TaskGroup() as tasks:
        origin = Origin(configs=settings.configs, policy=settings.policy)
        sight = await see(origin.paths)
        # The child starts before gRPC is imported here: both take their time.
        first = tasks.create_task(read(origin, sight, load), name="first config")
        await asyncio.sleep(0)
        from genericdp.host.inotify import Shortage

        tally, shortage = Tally(), Shortage()
        supervisor = _make_supervisor(settings, tally, shortage, now, health)
        watched(supervisor)
        reloader = _make_reloader(settings, origin, supervisor, reload, tally, shortage, load)
        supply: Observed[descriptors.Supply | None] = Observed(None)
        if settings.listen is not None:
            # First of all: it shows what the others log.
            serving = _endpoints(settings, settings.listen, supervisor, reloader, supply, tally)
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
    tally: Tally,
) -> None:
    # Nothing of it is imported where nobody listens.
    from genericdp.status.events import follow
    from genericdp.status.looking import Parts
    from genericdp.status.serving import serve

    with follow() as events:
        parts = Parts(
            node=settings.node_name,
            supervisor=supervisor,
            config=reloader.state,
            descriptors=supply,
            events=events,
            started=time.time(),  # noqa: TID251  # to be shown
        )
        await serve(address, parts, tally=tally, shows_status=settings.shows_status)


def _make_supervisor(
    settings: Settings,
    tally: Tally,
    shortage: Shortage,
    now: Callable[[], float],
    health: Callable[..., Health] | None,
) -> Supervisor:
    from genericdp.host.root import Root
    from genericdp.kubelet.folder import KubeletFolder
    from genericdp.supervisor import Supervisor

    return Supervisor(
        root=Root(settings.root),
        node_name=settings.node_name,
        kubelet=KubeletFolder(settings.kubelet_folder, shortage=shortage),
        timing=settings.timing,
        pod_resources=settings.pod_resources,
        tally=tally,
        shortage=shortage,
        now=now,
        health=health,
    )


def _make_reloader(
    settings: Settings,
    origin: Origin,
    supervisor: Supervisor,
    hangup: asyncio.Event,
    tally: Tally,
    shortage: Shortage,
    load: Load,
) -> Reloader:
    from genericdp.reloading.reloader import Reloader

    return Reloader(
        origin,
        put_in_force=partial(_put_in_force, supervisor, settings.node_name),
        hangup=hangup,
        decided=supervisor.decided,
        state_dir=settings.state_dir,
        load=load,
        tally=tally,
        shortage=shortage,
    )


def _put_in_force(supervisor: Supervisor, node_name: str, loaded: Loaded) -> None:
    # The model is imported by now: not before the child that loads the config has started.
    from genericdp.devices.matching import why_none
    from genericdp.planning import plan, without_policy

    running, is_first = supervisor.wanted, supervisor.resources.value is None
    supervisor.resources.value = loaded.resources
    todo = plan(without_policy(supervisor.wanted), without_policy(running))
    changes = "" if is_first else f", {todo}"
    if any(one.policy != loaded.policy for one in running.values()):
        changes += ", under another policy"
    origin = ", ".join(map(str, loaded.files))
    if (policy := loaded.policy) is not None:
        origin += f"; policy {policy.file}, SHA-256 {policy.sha256[:_SHOWN_DIGITS]}"
    count = len(loaded.resources)
    plural = "" if count == 1 else "s"
    log.info("config in force: %d resource%s%s (%s)", count, plural, changes, origin)
    if reason := why_none(loaded.resources, node_name):
        log.warning("nothing is served: %s", reason)
